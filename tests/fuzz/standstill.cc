// SPDX-License-Identifier: Apache-2.0
// Questions, answers and probes from other ranks of a communicator, while a call waits here: whatever is said, answers and probes go to
// ranks that exist, and only a probe of this rank's own that has come back ends the communicator.
#include "comm/standstill.h"

#include <optional>

#include "exec/engine.h"
#include "exec/launch.h"
#include "plan/builder.h"
#include "target.h"
#include "transport/local/loopback.h"

namespace isthmus::fuzz {

using namespace exec;

namespace {

constexpr int32_t kRanks = 3;

// Rank r sends to the next, receives from the one before.
void emit_shift(const plan::Shape& shape, plan::Builder& b) {
  b.split(1);
  b.send(shape.group.next(), b.in(0, 1));
  b.recv(shape.group.previous(), b.out(0, 1));
}
constexpr plan::Algorithm kShift = {.name = "shift", .collective = Collective::allreduce, .emit = emit_shift};

/// Rank 0 waits in a collective for rank 2.
struct World {
  memory::Pool pool;
  Engine engine{{}, {}, kernels::select_target(), pool};
  transport::Loopback loopback{engine};
  Endpoint* endpoint = nullptr;
  std::vector<float> data = std::vector<float>(8);
  Launch launch;

  World() {
    engine.add_transport(loopback);
    promise(loopback.add_peer(0, {}).ok(), "a fresh loopback accepts its first peer");
    const std::vector<transport::PeerId> peers(kRanks, 0);
    const std::vector<transport::Transport*> transports(kRanks, &loopback);
    endpoint = &engine.open(7, 0, peers, transports);
    auto plan = plan::build(kShift, {.collective = Collective::allreduce, .group = {.ranks = {}, .size = kRanks, .position = 0}});
    promise(plan.ok(), "the plan can be built");
    Launch::Item& item = launch.add();
    item.endpoint = endpoint;
    item.call.program = std::make_shared<const Program>(std::move(*plan));
    item.call.signature = {.collective = Collective::allreduce, .count = 4};
    item.call.in = reinterpret_cast<const std::byte*>(data.data());
    item.call.out = reinterpret_cast<std::byte*>(data.data() + 4);
    launch.submit(engine);
  }
  [[nodiscard]] Run& waiting() const { return *endpoint->lanes[0].active; }
};

World& world() {
  static World the_world;
  return the_world;
}

/// A rank's side that writes down what it sends.
struct Side {
  std::vector<std::pair<int32_t, Bytes>> sent;
  std::optional<Status> failure;
  comm::Standstill standstill{*world().endpoint,
                              {.send = [this](int32_t to, Input body) { sent.emplace_back(to, to_bytes(body)); },
                               .fail = [this](const Status& why) { failure = why; },
                               .name_of = [](int32_t) { return std::string("a rank"); }}};
};

}  // namespace

void run(Input input) {
  Side side;
  const int32_t from = take_byte(input) % 2 == 0 ? 1 : 2;
  side.standstill.on_message(from, input);
  promise(side.sent.size() <= 1, "one rank is needed, or one has asked");
  for (const auto& [to, body] : side.sent) promise(to == 1 || to == 2, "messages go to ranks that exist");
  promise(!side.failure || side.failure->code() == Code::invalid_usage, "a standstill is a mismatch");
  (void)side.standstill.answers(world().waiting());
}

std::vector<Bytes> seeds() {
  Side side;
  side.standstill.ask(world().waiting());
  side.standstill.probe(world().waiting());
  std::vector<Bytes> all;
  for (const auto& [to, body] : side.sent) {
    all.push_back(tagged(0, body));
    all.push_back(tagged(1, body));
  }
  const std::array<std::byte, 6> question{std::byte{1}};
  all.push_back(tagged(0, question));
  return all;
}

}  // namespace isthmus::fuzz
