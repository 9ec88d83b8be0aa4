// SPDX-License-Identifier: Apache-2.0
// Root of rendezvous.h: strangers at the door, arrivals inside, one table at the end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_messages.h"

namespace isthmus::bootstrap {
namespace {

constexpr TimeNs kTickNs = kSecondNs;  // who is missing is told so often; gone ranks are noticed

uint8_t type(RendezvousType value) { return static_cast<uint8_t>(value); }

}  // namespace

Root::Root(const Surroundings& surroundings, const Options& options, const UniqueId& id)
    : surroundings_(surroundings),
      options_(options),
      id_(id),
      key_(rendezvous_key(surroundings.crypto, id_)),
      reception_(surroundings, *this, "the root") {}

Result<std::unique_ptr<Root>> Root::open(const Surroundings& surroundings, const Options& options, const UniqueId& id,
                                         std::span<const transport::Address> listen_at) {
  std::unique_ptr<Root> root(new Root(surroundings, options, id));
  ISTHMUS_TRY(root->reception_.open(listen_at, UniqueId::kRoots));
  const auto addresses = root->reception_.addresses();
  root->id_.roots = {};
  std::copy(addresses.begin(), addresses.end(), root->id_.roots.begin());
  return root;
}

Result<bool> Root::poll(TimeNs now) {
  if (!failure_.ok()) return failure_;
  if (finished_) return true;
  reception_.poll(now);
  farewells_.poll(now);
  const bool tick = now >= next_tick_at_;
  serve_arrivals(tick);
  const auto everybody = [this] { return !arrivals_.empty() && complete_ == static_cast<int32_t>(arrivals_.size()); };
  if (everybody()) serve_arrivals(true);  // somebody may have gone again unnoticed
  if (everybody()) {
    ISTHMUS_TRY(finish());
    return true;
  }
  if (now >= give_up_at_) return give_up();
  if (tick) {
    tell_who_is_missing();
    next_tick_at_ = now + kTickNs;
  }
  due_at_ = std::min(give_up_at_, reception_.busy() || !farewells_.empty() ? now + Reception::kBusyTickNs : next_tick_at_);
  return false;
}

void Root::waits(std::vector<transport::Wait>& waits) const {
  reception_.waits(waits);
  farewells_.waits(waits);
  for (const Arrival& arrival : arrivals_)
    if (arrival.link) arrival.link->waits(waits);
}

std::vector<std::optional<Link>> Root::take_links() {
  std::vector<std::optional<Link>> links;
  for (Arrival& arrival : arrivals_) links.push_back(std::move(arrival.link));
  arrivals_.clear();
  return links;
}

wire::Handshake::KeyAnswer Root::key_for(const wire::Hello& claim) const {
  const bool plausible = claim.communicator == rendezvous_number(id_) && claim.purpose == wire::Purpose::rendezvous && claim.epoch == 0 &&
                         claim.ranks >= 1 && claim.ranks <= kMaxRanks && claim.rank >= 0 && claim.rank < claim.ranks;
  return {.key = plausible ? &key_ : nullptr};
}

bool Root::has_come(int32_t rank, const transport::ProcessId& process) const {
  const auto at = static_cast<size_t>(rank);
  return at < arrivals_.size() && arrivals_[at].link && arrivals_[at].process == process;
}

Root::Counters Root::counters() const {
  Counters counters = counters_;
  static_cast<Reception::Counters&>(counters) = reception_.counters();
  return counters;
}

// --- inside ----------------------------------------------------------------------------------------------------------------------

void Root::admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) {
  if (arrivals_.empty()) {
    arrivals_.resize(static_cast<size_t>(hello.ranks));
    give_up_at_ = later(now, options_.timeout_ns);
  }
  Link link(std::move(stream), kMaxBlobBytes);
  if (hello.ranks != static_cast<int32_t>(arrivals_.size())) {
    turn_away(
        std::move(link),
        fmt::format("rank {} was told that there are {} ranks, but those before it said {}", hello.rank, hello.ranks, arrivals_.size()),
        counters_.misfits, now);
    return;
  }
  Arrival& arrival = arrivals_[static_cast<size_t>(hello.rank)];
  if (arrival.link && arrival.process != hello.process) serve(arrival);  // is the first still there?
  if (arrival.link && arrival.process != hello.process) {
    turn_away(std::move(link),
              fmt::format("rank {} is taken by another process, at {}", hello.rank, transport::to_string(arrival.link->peer_address())),
              counters_.duplicates, now);
    return;
  }
  if (arrival.complete) --complete_;
  arrival = {.link = std::move(link), .process = hello.process, .blob = {}, .has_left = arrival.has_left};
  serve(arrival);
}

void Root::turn_away(Link link, std::string why, uint64_t& counter, TimeNs now) {
  const Status verdict = invalid_usage(std::move(why));
  if (worth_logging(++counter)) {
    surroundings_.log.warn("the root refuses {}: {}", transport::to_string(link.peer_address()), verdict.text());
  }
  link.send(type(RendezvousType::verdict), encode_verdict(verdict));
  farewells_.add(std::move(link), now);
}

void Root::serve_arrivals(bool everybody) {
  for (Arrival& arrival : arrivals_)
    if (arrival.link && (everybody || !arrival.complete)) serve(arrival);
}

void Root::serve(Arrival& arrival) {
  Status broken = arrival.link->flush();
  while (broken.ok()) {
    const auto message = arrival.link->receive();
    if (!message.ok()) {
      broken = message.status();
    } else if (!message->has_value()) {
      return;
    } else if (arrival.complete || (*message)->type != type(RendezvousType::blob)) {
      return lose(arrival, remote_error("it sent something else than one blob"), counters_.malformed);
    } else {
      arrival.blob.assign((*message)->body.begin(), (*message)->body.end());
      arrival.complete = true;
      ++complete_;
    }
  }
  lose(arrival, broken, counters_.left);
}

void Root::lose(Arrival& arrival, const Status& why, uint64_t& counter) {
  reception_.note(counter, "lost a rank at", arrival.link->peer_address(), why);
  if (arrival.complete) --complete_;
  arrival = {.has_left = true};
}

// --- who is missing, and the end -------------------------------------------------------------------------------------------------

void Root::tell_who_is_missing() {
  if (arrivals_.empty()) return;
  std::vector<int32_t> missing;
  for (size_t rank = 0; rank < arrivals_.size(); ++rank)
    if (!arrivals_[rank].complete) missing.push_back(static_cast<int32_t>(rank));
  const Waiting waiting{.missing = static_cast<uint32_t>(missing.size()), .which = number_ranges(missing) + shortage_text()};
  const auto body = std::make_shared<const std::vector<std::byte>>(encode(waiting));
  for (Arrival& arrival : arrivals_) {
    if (!arrival.link || arrival.link->unsent_bytes() > 0) continue;
    arrival.link->send(type(RendezvousType::waiting), body);
    if (const Status flushed = arrival.link->flush(); !flushed.ok()) lose(arrival, flushed, counters_.left);
  }
}

/// Ranks that knock in vain see closed connections only: what the system refuses here is told by the root.
std::string Root::shortage_text() const {
  const uint64_t unaccepted = reception_.counters().unaccepted;
  if (unaccepted == 0) return "";
  return fmt::format("; the root could not accept connections {} times: {}", unaccepted, reception_.last_unaccepted());
}

std::string Root::missing_text() const {
  std::vector<int32_t> missing, gone;
  for (size_t rank = 0; rank < arrivals_.size(); ++rank) {
    if (arrivals_[rank].complete) continue;
    missing.push_back(static_cast<int32_t>(rank));
    if (arrivals_[rank].has_left && !arrivals_[rank].link) gone.push_back(static_cast<int32_t>(rank));
  }
  std::string text = fmt::format("{} of {} ranks did not arrive within {}: {}", missing.size(), arrivals_.size(),
                                 duration_text(options_.timeout_ns), number_ranges(missing));
  if (!gone.empty()) text += fmt::format("; of these, {} came and went away again", number_ranges(gone));
  text += shortage_text();
  const uint64_t refused = reception_.counters().refused;
  if (refused > 0) text += fmt::format("; {} connections were refused (NCCL_DEBUG=INFO tells why)", refused);
  return text += kSameIdQuestion;
}

Status Root::finish() {
  ISTHMUS_TRY(surroundings_.random(table_.session));
  for (size_t rank = 0; rank < arrivals_.size(); ++rank) {
    if (table_.hub_rank < 0 && arrivals_[rank].process == surroundings_.process) table_.hub_rank = static_cast<int32_t>(rank);
    table_.blobs.push_back(std::move(arrivals_[rank].blob));
  }
  const auto body = std::make_shared<const std::vector<std::byte>>(encode(table_));
  for (Arrival& arrival : arrivals_) {
    arrival.link->send(type(RendezvousType::table), body);
    if (!arrival.link->flush().ok()) arrival.link.reset();  // its rank is dead; the control plane says so to the others
  }
  reception_.close();
  farewells_.clear();
  finished_ = true;
  due_at_ = kNever;
  surroundings_.log.info(Subsystem::bootstrap, "Bootstrap: all {} ranks have arrived", arrivals_.size());
  return {};
}

Status Root::give_up() {
  reception_.close();
  failure_ = timeout_error(missing_text());
  const auto body = std::make_shared<const std::vector<std::byte>>(encode_verdict(failure_));
  for (Arrival& arrival : arrivals_) {
    if (!arrival.link) continue;
    arrival.link->send(type(RendezvousType::verdict), body);
    if (!arrival.link->flush().ok()) arrival.link.reset();
  }
  return failure_;
}

}  // namespace isthmus::bootstrap
