// SPDX-License-Identifier: Apache-2.0
// Both ends of the control plane against any bytes from the other: no rank outside the communicator is ever heard of, and whoever
// speaks nonsense is given up.
#include "bootstrap/control.h"

#include "bootstrap/control_messages.h"
#include "stream.h"

namespace isthmus::fuzz {

using namespace bootstrap;

namespace {

constexpr int32_t kRanks = 3;
constexpr ControlOptions kOptions{};

class Judge final : public ControlSink {
 public:
  void on_dead(int32_t rank, const std::string& why) override { check(rank, why.size() <= kMaxControlTextBytes); }
  void on_abort(int32_t rank, const std::string& text) override { check(rank, text.size() <= kMaxControlTextBytes); }
  void on_left(int32_t rank) override { check(rank, true); }
  void on_message(int32_t from, std::span<const std::byte> body) override { check(from, body.size() <= kMaxControlBytes); }
  void on_unwatched(const std::string&) override {}

 private:
  static void check(int32_t rank, bool bounded) {
    promise(rank >= 0 && rank < kRanks, "only ranks of the communicator are heard of");
    promise(bounded, "nothing is longer than allowed");
  }
};

Link link_of(Input input, size_t piece) { return {std::make_unique<InputStream>(input, piece), 1 << 20}; }

void hub(Input input, size_t piece) {
  const Logger log = Logger::silent();
  std::vector<std::optional<Link>> links;
  links.emplace_back(link_of(input, piece));
  links.emplace_back(link_of({}, 1));
  links.emplace_back();
  ControlHub hub(std::move(links), kOptions, log, 0);
  for (size_t polls = 0; polls < input.size() + 8; ++polls) hub.poll(1);  // every poll takes a piece or notices the end
  promise(hub.finished(), "a rank whose stream ends has left or is dead");
}

void member(Input input, size_t piece) {
  Judge judge;
  ControlMember member(link_of(input, piece), 1, kRanks, 0, kOptions, judge, 0);
  for (size_t polls = 0; polls < input.size() + 8; ++polls) member.poll(1);
  promise(member.finished(), "a hub whose stream ends is gone");
}

void append(Bytes& said, ControlType type, int32_t rank, std::string_view body) {
  const SharedBytes message = encode_control(rank, std::as_bytes(std::span(body)));
  Bytes header(Link::kHeaderBytes);
  header[0] = static_cast<std::byte>(message->size());
  header[4] = static_cast<std::byte>(type);
  said.insert(said.end(), header.begin(), header.end());
  said.insert(said.end(), message->begin(), message->end());
}

}  // namespace

void run(Input input) {
  const uint8_t choice = take_byte(input);
  const size_t piece = size_t{1} + (choice >> 1);
  if ((choice & 1) != 0) return hub(input, piece);
  member(input, piece);
}

std::vector<Bytes> seeds() {
  Bytes said;
  append(said, ControlType::heartbeat, 0, "");
  append(said, ControlType::message, 2, "hello");
  append(said, ControlType::abort, 0, "enough");
  append(said, ControlType::left, 0, "");
  Bytes told = said;
  append(told, ControlType::dead, 1, "silent");
  return {tagged(1, said), tagged(255, said), tagged(0, told), tagged(254, told)};
}

}  // namespace isthmus::fuzz
