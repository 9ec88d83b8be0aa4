// SPDX-License-Identifier: Apache-2.0
// Accepting, proving, admitting. An error of one connection never leaves this file except as a line for the log.
#include "transport/tcp/door.h"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::transport {

namespace {

constexpr size_t kMaxStrangers = 128;
constexpr size_t kAcceptedAtOnce = 16;
constexpr TimeNs kHelloNs = 2 * kSecondNs;
// From the hello until the communicator is known here, and from then until the proof: it crosses long links and short partitions, and
// its sender counts on the stream already.
constexpr TimeNs kProofNs = 30 * kSecondNs;
constexpr TimeNs kUndisturbedNs = 100 * kMillisecondNs;  // nobody is sent away sooner, however many knock
constexpr TimeNs kCheckNs = 5 * kMillisecondNs;

}  // namespace

/// One listener.
class Door::Entrance final : public Served {
 public:
  Entrance(Door& door, std::unique_ptr<Listener> listener) : door_(door), listener_(std::move(listener)) {}
  ~Entrance() override { leave(); }
  Entrance(const Entrance&) = delete;
  Entrance& operator=(const Entrance&) = delete;

  [[nodiscard]] const Listener& listener() const { return *listener_; }
  bool serve(TimeNs now) override {
    size_t accepted = 0;
    for (; accepted < kAcceptedAtOnce && door_.make_room(now); ++accepted) {  // without room they wait in the system's queue
      Result<std::unique_ptr<Stream>> stream = listener_->accept();
      readable_ = stream.ok() && *stream != nullptr;
      if (!stream.ok()) door_.on_refused(stream.status().text());
      if (!readable_) break;
      if (const Status received = door_.receive(std::move(*stream), now); !received.ok()) door_.on_refused(received.text());
    }
    return accepted > 0;
  }
  [[nodiscard]] bool ready() const override { return readable_ && door_.strangers_.size() < kMaxStrangers; }

 private:
  Door& door_;
  std::unique_ptr<Listener> listener_;
};

Door::Door(TcpContext& context, KeyLookup lookup, Admit admit) : context_(context), lookup_(std::move(lookup)), admit_(std::move(admit)) {}
Door::~Door() = default;

Status Door::open() {
  ISTHMUS_ASSIGN(const std::vector<Address> local, context_.network.local_addresses());
  Status last = system_error("this host has no address to listen on");
  for (const Address& address : local) {
    Result<std::unique_ptr<Listener>> listener = context_.network.listen(address);
    if (!listener.ok()) {
      last = listener.status();
      continue;
    }
    addresses_.push_back((*listener)->address());
    const int fd = (*listener)->fd();
    entrances_.push_back(std::make_unique<Entrance>(*this, std::move(*listener)));
    ISTHMUS_TRY(context_.readiness.watch(*entrances_.back(), fd, Hurry::later));
  }
  return entrances_.empty() ? last : Status();
}

/// Full of strangers: the oldest goes that has had its time and claims nothing we know.
bool Door::make_room(TimeNs now) {
  if (strangers_.size() < kMaxStrangers) return true;
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(), [&](const auto& stranger) {
    return now - stranger->began_at() >= kUndisturbedNs && (!stranger->introduced() || stranger->awaits_key());
  });
  if (oldest == strangers_.end()) return false;
  refuse(**oldest, remote_error("too many connections at once that prove nothing"), context_.counters.strangers_timed_out);
  strangers_.erase(oldest);
  return true;
}

Status Door::receive(std::unique_ptr<Stream> stream, TimeNs now) {
  wire::Nonce nonce;
  ISTHMUS_TRY(random_bytes(nonce));
  const wire::Hello mine{.rank = 0, .process = context_.options.process};
  const int fd = stream->fd();
  strangers_.push_back(std::make_unique<Greeting>(std::move(stream), wire::Handshake::respond(context_.crypto, mine, lookup_, nonce), now));
  return context_.readiness.watch(*strangers_.back(), fd);
}

void Door::poll(TimeNs now) {
  const bool check = now >= next_check_at_;
  if (check) next_check_at_ = now + kCheckNs;
  for (const auto& entrance : entrances_) {
    if (check) context_.readiness.ask_turn(*entrance);
  }
  for (size_t i = 0; i < strangers_.size();) {
    if (check && strangers_[i]->awaits_key()) context_.readiness.ask_turn(*strangers_[i]);
    if (!settle(i, now)) ++i;
  }
}

bool Door::settle(size_t index, TimeNs now) {
  Greeting& stranger = *strangers_[index];
  if (stranger.done()) {
    context_.readiness.forget(stranger);
    const wire::Hello hello = stranger.peer();
    if (const Status admitted = admit_(hello, stranger.take()); !admitted.ok()) {
      ++context_.counters.strangers_refused;
      on_refused(admitted.text());
    }
  } else if (!stranger.failure().ok()) {
    refuse(stranger, stranger.failure(), context_.counters.strangers_refused);
  } else if (now - stranger.moved_at() > (stranger.introduced() ? kProofNs : kHelloNs)) {
    const char* why = stranger.awaits_key()   ? "its communicator did not become known here"
                      : stranger.introduced() ? "no proof of the key in time"
                                              : "no handshake within 2 s";
    refuse(stranger, remote_error(why), context_.counters.strangers_timed_out);
  } else {
    return false;
  }
  strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

void Door::refuse(const Greeting& stranger, const Status& why, uint64_t& counter) {
  ++counter;
  on_refused(fmt::format("connection from {} refused: {}", to_string(stranger.peer_address()), why.text()));
}

}  // namespace isthmus::transport
