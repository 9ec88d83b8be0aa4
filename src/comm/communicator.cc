// SPDX-License-Identifier: Apache-2.0
// Checks of arguments and the way from a user call to the engine's. Called by api/ under the driver's lock.
#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/hash.h"
#include "comm/drift.h"
#include "plan/send_recv.h"
#include "topology/planner/plan_file.h"

namespace isthmus::comm {

namespace {

constexpr size_t kMaxNoticeText = 512;
/// Changes when frames, keys or plans change their meaning, so that different builds refuse each other instead of going wrong.
constexpr uint64_t kRegistryVersion = 5;

/// Blocks of `count` elements in the send and the receive buffer, as multiples of count.
struct Extent {
  uint64_t in = 1, out = 1;
};

Extent extent_of(Collective collective, uint64_t ranks) {
  if (collective == Collective::reduce_scatter) return {.in = ranks, .out = 1};
  if (collective == Collective::allgather) return {.in = 1, .out = ranks};
  if (collective == Collective::alltoall) return {.in = ranks, .out = ranks};
  return {};
}

bool overlap(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

}  // namespace

Communicator::Communicator(exec::Process& process, collectives::Choices choices, Compression compression, Membership membership,
                           exec::Endpoint& endpoint)
    : process_(process),
      choices_(std::move(choices)),
      compression_(std::move(compression)),
      membership_(std::move(membership)),
      endpoint_(&endpoint),
      agreement_(
          endpoint, [this](int32_t to, std::span<const std::byte> body) { notify(to, Notice::account, body); },
          [this](const Status& why) { fail(why); }),
      standstill_(endpoint, surroundings()) {
  endpoint.observer = this;
  if (membership_.messenger != nullptr) {
    membership_.messenger->subscribe(*this, membership_.id, membership_.rank, membership_.family_ranks);
  }
}

Communicator::~Communicator() { close(); }

void Communicator::close() {
  if (closed()) return;
  drift_.reset();
  endpoint_->observer = nullptr;
  if (membership_.messenger != nullptr) membership_.messenger->unsubscribe(*this);
  membership_.messenger.reset();
  fail(invalid_usage(fmt::format("the communicator was destroyed on rank {}", rank())));
  ended_ = endpoint_->failure;
  process_.withdraw(*endpoint_, ended_);
  process_.engine().close(*endpoint_);
  endpoint_ = nullptr;
  process_.forget_communicator(membership_.id);
  process_.log().info(Subsystem::init, "communicator {:#x} rank {} - Destroy COMPLETE. The process so far: {}", membership_.id, rank(),
                      process_.counters_text());
}

void Communicator::abort() {
  if (closed()) return;
  const std::string text = fmt::format("ncclCommAbort was called on rank {}", rank());
  if (!std::exchange(told_, true)) tell_others(remote_error(text, rank()));
  fail(invalid_usage(text, rank()));
  process_.withdraw(*endpoint_, endpoint_->failure);
}

Standstill::Surroundings Communicator::surroundings() {
  return {.send = [this](int32_t to, std::span<const std::byte> body) { notify(to, Notice::standstill, body); },
          .fail = [this](const Status& why) { fail(why); },
          .has_backlog = [this] { return process_.has_backlog(); },
          .elsewhere = [this] { return process_.engine().elsewhere_text(*endpoint_); },
          .name_of = [this](int32_t rank) { return name_of_rank(rank); }};
}

std::string Communicator::name_of_rank(int32_t rank) const {
  const auto place = static_cast<size_t>(rank);
  if (place >= membership_.cards.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (host {}, pid {})", rank, membership_.cards[place].hostname, membership_.cards[place].pid);
}

void Communicator::on_stalled(const exec::Run& run) {
  agreement_.on_stalled(run);
  if (run.running()) standstill_.probe(run);
}

void Communicator::on_late(const exec::Run& run) {
  standstill_.probe(run);
  if (run.running()) standstill_.ask(run);
}

void Communicator::notify(int32_t to, Notice notice, std::span<const std::byte> body) {
  if (membership_.messenger == nullptr) return;
  std::vector<std::byte> message(1 + body.size());
  Writer(message).u8(static_cast<uint8_t>(notice)).bytes(body);
  membership_.messenger->send(*this, to, message);
}

// Whoever fails first tells the others, so that nobody waits for a rank that has given up.
void Communicator::on_failed(const Status& why) {
  process_.log().info(Subsystem::coll, "communicator {:#x} rank {} failed: {}", membership_.id, rank(), why.text());
  if (!std::exchange(told_, true)) tell_others(why);
  if (drift_ != nullptr) drift_->on_failed(why);
}

void Communicator::tell_others(const Status& why) {
  const std::string text = why.text().substr(0, kMaxNoticeText);
  std::vector<std::byte> body(16 + text.size());
  Writer writer(body);
  writer.u8(static_cast<uint8_t>(why.code())).i32(why.origin_rank()).sized_text(text);
  body.resize(writer.written());
  for (int32_t other = 0; other < ranks(); ++other) {
    if (other != rank()) notify(other, Notice::failed, body);
  }
}

void Communicator::on_rank_dead(int32_t dead, const std::string& why) {
  told_ = true;  // everybody hears of it
  if (dead == rank()) return fail(remote_error(fmt::format("the other ranks have given up this one, rank {}: {}", dead, why), dead));
  const Status gone = remote_error(fmt::format("{} is gone: {}", name_of_rank(dead), why), dead);
  if (state().ok()) process_.engine().condemn(*endpoint_, dead, gone);
}

void Communicator::on_message(int32_t from, std::span<const std::byte> body) {
  Reader reader(body);
  const auto notice = static_cast<Notice>(reader.u8());
  if (notice == Notice::account) return agreement_.on_account(from, reader.bytes(reader.remaining()));
  if (notice == Notice::drift) return drift_ == nullptr ? void() : drift_->on_message(from, reader.bytes(reader.remaining()));
  if (notice == Notice::standstill) return standstill_.on_message(from, reader.bytes(reader.remaining()));
  const uint8_t code = reader.u8();
  const int32_t origin = reader.i32();
  const std::string text = reader.sized_text(kMaxNoticeText);
  if (!reader.finished() || notice != Notice::failed) return;
  told_ = true;
  // A mismatch elsewhere is a mismatch of the communicator; everything else is a remote failure from here.
  const bool mismatch = code == static_cast<uint8_t>(Code::invalid_usage);
  const std::string told = fmt::format("rank {} reports: {}", from, text);
  fail(mismatch ? invalid_usage(told, origin >= 0 ? origin : from) : remote_error(told, origin >= 0 ? origin : from));
}

void Communicator::fail(const Status& why) {
  if (!closed()) process_.engine().fail(*endpoint_, why);
}

Status Communicator::check(Request& request) const {
  if (finalized_) return invalid_usage("the communicator was finalized: only ncclCommDestroy may follow");
  const bool transfer = request.collective == Collective::sendrecv;
  constexpr uint64_t kMany = uint64_t{1} << 24;  // so many elements on so many ranks are not too many
  if (request.count >= kMany || ranks() >= static_cast<int32_t>(kMany) || is_rooted(request.collective) || transfer) {
    ISTHMUS_TRY(check_numbers(request));
  }
  // Most calls are in order at a glance; check_buffers() has all the rules, and the words.
  const Extent extent = extent_of(request.collective, static_cast<uint64_t>(ranks()));
  const uint64_t block = request.count * size_of(request.type);
  const auto in = reinterpret_cast<uintptr_t>(request.in), out = reinterpret_cast<uintptr_t>(request.out);
  const bool usual = in != 0 && out != 0 && ((in | out) & (size_of(request.type) - 1)) == 0;
  if (usual && !transfer) {
    request.in_place = request.collective == Collective::allreduce && in == out;
    if (request.in_place || in + extent.in * block <= out || out + extent.out * block <= in) return {};
  }
  return check_buffers(request);
}

Status Communicator::check_numbers(const Request& request) const {
  const uint64_t blocks = is_by_rank(request.collective) ? static_cast<uint64_t>(ranks()) : 1;
  constexpr uint64_t kMostBytes = uint64_t{1} << 60;
  if (request.count > kMostBytes / size_of(request.type) / blocks) {
    return invalid_argument(fmt::format("{} of {} elements of {} on {} ranks: more bytes than any memory has", name_of(request.collective),
                                        request.count, name_of(request.type), ranks()));
  }
  const bool rooted = is_rooted(request.collective) || request.collective == Collective::sendrecv;
  if (rooted && (request.root < 0 || request.root >= ranks())) {
    return invalid_argument(fmt::format("{} {} is not a rank of this communicator, which has ranks 0 to {}",
                                        request.collective == Collective::sendrecv ? "peer" : "root", request.root, ranks() - 1));
  }
  return {};
}

Status Communicator::check_buffers(Request& request) const {
  request.in_place = in_place(request);
  if (request.count == 0) return {};
  const bool is_root = request.root == rank();
  const bool transfer = request.collective == Collective::sendrecv;
  const bool uses_in = transfer ? request.is_send : request.collective != Collective::broadcast || is_root;
  const bool uses_out = transfer ? !request.is_send : request.collective != Collective::reduce || is_root;
  const std::string_view name = transfer ? (request.is_send ? "send" : "recv") : name_of(request.collective);
  if (uses_in && request.in == nullptr) return invalid_argument(fmt::format("{}: the send buffer is NULL", name));
  if (uses_out && request.out == nullptr) return invalid_argument(fmt::format("{}: the receive buffer is NULL", name));
  const size_t element = size_of(request.type);
  for (const void* buffer : {uses_in ? request.in : nullptr, uses_out ? static_cast<const void*>(request.out) : nullptr}) {
    if (reinterpret_cast<uintptr_t>(buffer) % element != 0) {
      return invalid_argument(fmt::format("{}: buffer {} is not aligned to its elements of {} bytes", name, buffer, element));
    }
  }
  if (!uses_in || !uses_out || transfer || request.in_place) return {};
  const Extent extent = extent_of(request.collective, static_cast<uint64_t>(ranks()));
  const uint64_t block = request.count * element;
  if (overlap(static_cast<const std::byte*>(request.in), extent.in * block, static_cast<std::byte*>(request.out), extent.out * block)) {
    if (!may_be_in_place(request.collective)) {
      return invalid_argument(fmt::format("{}: send and receive buffer overlap; it has no in-place form", name));
    }
    return invalid_argument(fmt::format("{}: send and receive buffer overlap, but not as an in-place call does", name));
  }
  return {};
}

bool Communicator::in_place(const Request& request) const {
  const auto* in = static_cast<const std::byte*>(request.in);
  const auto* out = static_cast<const std::byte*>(request.out);
  const uint64_t own = static_cast<uint64_t>(rank()) * request.count * size_of(request.type);
  if (in == nullptr || out == nullptr || !may_be_in_place(request.collective)) return false;
  switch (request.collective) {
    case Collective::reduce_scatter:
      return out == in + own;
    case Collective::allgather:
      return in == out + own;
    case Collective::broadcast:
    case Collective::reduce:
      return request.root == rank() && in == out;
    default:
      return in == out;
  }
}

// Everything but count and codec that decides how a call is carried out.
uint64_t Communicator::rest_of(const Request& request) {
  const int32_t root = is_rooted(request.collective) ? request.root : -1;
  return static_cast<uint64_t>(root) << 32 | static_cast<uint64_t>(request.type) << 16 | static_cast<uint64_t>(request.op.op) << 8 |
         uint64_t{request.op.scaled} << 1 | uint64_t{request.in_place};
}

void Communicator::fill(const Request& request, exec::Call& call) {
  call.in = static_cast<const std::byte*>(request.in);
  call.out = static_cast<std::byte*>(request.out);
  if (request.op.scaled) call.scalar = request.op.scalar;
}

exec::Call* Communicator::recall(const Request& request) {
  Manner& manner = manners_[static_cast<size_t>(request.collective)];
  if (request.wish != nullptr || !compression_.idle() || manner.codec != nullptr) return nullptr;
  if (manner.call.program == nullptr || manner.count != request.count || manner.rest != rest_of(request)) return nullptr;
  fill(request, manner.call);
  return &manner.call;
}

Result<exec::Call*> Communicator::form(const Request& request) {
  if (exec::Call* call = recall(request); call != nullptr) return call;
  Manner& manner = manners_[static_cast<size_t>(request.collective)];
  const int32_t root = is_rooted(request.collective) ? request.root : -1;
  const uint64_t rest = rest_of(request);
  CodecWish wish;
  if (request.wish != nullptr || !compression_.idle()) {
    ISTHMUS_ASSIGN(wish, wish_of(request));
  }
  const bool known = manner.call.program != nullptr && manner.count == request.count && manner.rest == rest && manner.codec == wish.codec &&
                     manner.algorithm == wish.algorithm;
  if (!known) {
    manner = {.count = request.count, .rest = rest, .codec = wish.codec, .algorithm = wish.algorithm, .call = {}};
    ISTHMUS_TRY(wish.given() ? plan_compressed(request, wish, manner.call) : plan_call(request, root, manner.call));
  }
  if (wish.given()) {
    compression_.use(*wish.codec, manner.call.how);
    manner.call.coding.residual = wish.residual;
  }
  fill(request, manner.call);
  return &manner.call;
}

uint64_t Communicator::larger_buffer_bytes(Collective collective, DataType type, uint64_t count) const {
  const Extent extent = extent_of(collective, static_cast<uint64_t>(ranks()));
  return count * size_of(type) * std::max(extent.in, extent.out);
}

// Chooses the algorithm, gets the plan.
Status Communicator::plan_call(const Request& request, int32_t root, exec::Call& call) {
  const uint64_t bytes = larger_buffer_bytes(request.collective, request.type, request.count);
  ISTHMUS_ASSIGN(const collectives::Decision decision, choices_.decide(request.collective, bytes));
  say_once(request.collective, decision);
  const collectives::Choice& choice = decision.choice;
  const plan::Shape shape{.collective = request.collective,
                          .group = {.ranks = {}, .size = ranks(), .position = rank()},
                          .root = root,
                          .in_place = request.in_place,
                          .op = request.op.op,
                          .map_in = request.op.scaled,
                          .segments = choice.segments,
                          .sites = membership_.divisions,
                          .leaders = choice.leaders,
                          .across = choice.across};
  const exec::PlanKey key{.algorithm = choice.algorithm,
                          .group = choice.algorithm->needs.by_site ? hash_bytes(std::as_bytes(std::span(membership_.divisions))) : 0,
                          .position = rank(),
                          .size = ranks(),
                          .root = root,
                          .segments = choice.segments,
                          .leaders = choice.leaders,
                          .across = choice.across,
                          .op = shape.op,
                          .in_place = request.in_place,
                          .map_in = shape.map_in};
  ISTHMUS_ASSIGN(auto program, process_.plans().get(key, shape));
  call.signature = {.collective = request.collective,
                    .type = request.type,
                    .op = is_reducing(request.collective) ? request.op.op : ReduceOp::sum,
                    .scaled = request.op.scaled,
                    .root = root,
                    .count = request.count};
  const uint64_t variant = (static_cast<uint64_t>(choice.across) << 32) | choice.leaders;
  call.plan_tag = Hasher(kRegistryVersion).add(hash_text(choice.algorithm->name)).add(choice.segments).add(variant).value();
  call.kind_key = call.signature.kind_key(membership_.id, call.plan_tag);
  call.how = choice.algorithm->name;
  call.choices = choices_number_;
  call.scale_in = request.op.scaled;
  call.program = std::move(program);
  return {};
}

void Communicator::follow(collectives::Choices choices, std::string plan) {
  choices_ = std::move(choices);
  ++choices_number_;
  plan_ = std::move(plan);
  manners_ = {};
  said_.clear();
}

void Communicator::say_once(Collective collective, const collectives::Decision& decision) {
  if (!said_.insert({collective, decision.min_bytes}).second) return;  // which looks before it allocates
  process_.log().info(Subsystem::tuning, "communicator {:#x} rank {}: {} of {} bytes{} by {}, chosen by {}", membership_.id, rank(),
                      name_of(collective), decision.min_bytes,
                      decision.max_bytes == UINT64_MAX ? " and more" : fmt::format(" to {}", decision.max_bytes),
                      topology::text_of(decision.choice), collectives::name_of(decision.origin));
}

Result<CodecWish> Communicator::wish_of(const Request& request) {
  return compression_.decide(request.wish != nullptr ? *request.wish : CodecWish(),
                             {.collective = request.collective,
                              .type = request.type,
                              .op = request.op.op,
                              .scaled = request.op.scaled,
                              .bytes = larger_buffer_bytes(request.collective, request.type, request.count)},
                             process_.log());
}

// As plan_call, with a codec.
Status Communicator::plan_compressed(const Request& request, const CodecWish& wish, exec::Call& call) {
  const codec::Named& named = *wish.codec;
  plan::Shape shape{.collective = request.collective,
                    .group = {.ranks = {}, .size = ranks(), .position = rank()},
                    .in_place = request.in_place,
                    .op = request.op.op,
                    .map_in = request.op.scaled,
                    .codec = named.codec,
                    .sites = membership_.sites};
  const uint64_t elements = request.count * extent_of(request.collective, static_cast<uint64_t>(ranks())).in;
  ISTHMUS_ASSIGN(const collectives::Choice choice,
                 collectives::choose_compressed(request.collective, *named.codec, ranks(), shape.sites, elements, wish.algorithm));
  shape.segments = choice.segments;
  const exec::PlanKey key{.algorithm = choice.algorithm,
                          .group = hash_bytes(std::as_bytes(std::span(membership_.sites))),
                          .position = rank(),
                          .size = ranks(),
                          .segments = choice.segments,
                          .op = shape.op,
                          .in_place = request.in_place,
                          .map_in = shape.map_in,
                          .codec = named.codec};
  ISTHMUS_ASSIGN(auto program, process_.plans().get(key, shape));
  call.signature = {.collective = request.collective,
                    .type = request.type,
                    .op = request.op.op,
                    .scaled = request.op.scaled,
                    .count = request.count,
                    .coding = named.text};
  call.plan_tag = Hasher(kRegistryVersion).add(hash_text(choice.algorithm->name)).add(choice.segments).add(named.hash).value();
  call.kind_key = call.signature.kind_key(membership_.id, call.plan_tag);
  call.how = choice.algorithm->name;
  call.scale_in = request.op.scaled;
  call.program = std::move(program);
  call.coding = {.seed = membership_.id, .report = &compression_.calls()};
  return {};
}

Status Communicator::add(const Request& request, exec::Launch& launch) {
  if (closed()) return ended_;
  ISTHMUS_ASSIGN(exec::Call * call, form(request));
  exec::Launch::Item& item = launch.add();
  item.endpoint = endpoint_;
  item.call = *call;
  call->coding.residual.reset();
  return {};
}

Status Communicator::begin(const Request& request, exec::Ticket& ticket) {
  exec::Call* call = recall(request);
  if (call == nullptr) [[unlikely]] {
    ISTHMUS_ASSIGN(call, form(request));
  }
  call->ticket = &ticket;
  call->caller = &ticket;  // it waits for nothing else
  Status refused = process_.engine().submit(*endpoint_, *call);
  call->ticket = nullptr;
  call->caller = nullptr;
  if (call->coding.residual != nullptr) call->coding.residual.reset();
  if (!refused.ok()) fail(refused);  // nobody shall wait for a call that this rank could not begin
  return refused;
}

Status Communicator::add_transfers(std::span<const Request> requests, exec::Launch& launch) {
  if (closed()) return ended_;
  std::vector<plan::Transfer> transfers;
  transfers.reserve(requests.size());
  for (const Request& request : requests) {
    transfers.push_back({.peer = request.root, .is_send = request.is_send, .bytes = request.count * size_of(request.type)});
  }
  plan::Plan plan;
  plan::Binding binding;
  ISTHMUS_TRY(plan::build_send_recv(rank(), ranks(), transfers, plan, binding));

  exec::Launch::Item& item = launch.add();
  item.endpoint = endpoint_;
  item.call.program = std::make_shared<const exec::Program>(std::move(plan));
  item.call.signature = {.collective = Collective::sendrecv, .type = DataType::uint8};
  item.call.plan_tag = kRegistryVersion;
  for (const Request& request : requests) {
    // Plans never write the buffer of a send (the symbolic checker proves it).
    item.user_buffers.push_back(static_cast<std::byte*>(request.is_send ? const_cast<void*>(request.in) : request.out));
    item.user_bytes.push_back(request.count * size_of(request.type));
    item.user_signatures.push_back({.collective = Collective::sendrecv, .type = request.type, .count = request.count});
  }
  return {};
}

Result<int> Communicator::create_operator(const Operator& op, DataType type) {
  const int number = next_operator_++;
  operators_.emplace(number, UserOperator{.op = op, .type = type});
  return number;
}

Status Communicator::destroy_operator(int number) {
  if (operators_.erase(number) == 0) return invalid_argument(fmt::format("{} is not an operator of this communicator", number));
  return {};
}

Status Communicator::find_own_operator(int number, DataType type, Operator& op) const {
  const auto found = operators_.find(number);
  if (found == operators_.end()) return invalid_argument(fmt::format("{} is not a reduction operator of this communicator", number));
  if (found->second.type != type) {
    return invalid_argument(fmt::format("operator {} was made for {}, not for {}", number, name_of(found->second.type), name_of(type)));
  }
  op = found->second.op;
  return {};
}

}  // namespace isthmus::comm
