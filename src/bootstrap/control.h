// SPDX-License-Identifier: Apache-2.0
// The control plane: what keeps watch over a communicator's ranks after the rendezvous, over the links that it left behind. A hub in
// the root's process and one member per rank form a star. It alone decides that a rank is dead (its link closed without a farewell,
// or was silent beyond the limit), and tells everybody; it floods aborts and carries opaque messages from rank to rank.
// docs/decisions/0005-control-star.md says why a star and until when.
//
// Both are state machines without threads or clocks, used by one thread at a time: call poll(now) when a descriptor of waits() is ready
// or due() has come, from the rendezvous to finished(), independently of whether the program calls anything. Nothing here fails; what
// goes wrong with a peer is an event.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/link.h"
#include "bootstrap/rendezvous.h"
#include "transport/interface.h"

namespace isthmus::bootstrap {

struct ControlOptions {
  TimeNs heartbeat_ns = kSecondNs;          ///< each side says something at least so often
  TimeNs peer_timeout_ns = 60 * kSecondNs;  ///< and is dead after so long a silence
};

/// An opaque message may be this long.
inline constexpr size_t kMaxControlBytes = 16 << 10;
/// Texts are cut here.
inline constexpr size_t kMaxControlTextBytes = 1024;

/// What a member learns, each at most once per rank except on_message. Called inside ControlMember::poll(); may call the member's
/// abort(), send() and leave(), but not destroy it.
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  /// `rank` is dead. My own rank: the others have taken me for dead, `why` says why.
  virtual void on_dead(int32_t rank, const std::string& why) = 0;
  /// `rank` has aborted the communicator and says why.
  virtual void on_abort(int32_t rank, const std::string& text) = 0;
  /// `rank` has left cleanly; its silence from now on means nothing.
  virtual void on_left(int32_t rank) = 0;
  virtual void on_message(int32_t from, std::span<const std::byte> body) = 0;
  /// The hub is gone without anybody's death (its rank left first, or it had none). Nobody will be told of deaths and aborts any more.
  virtual void on_unwatched(const std::string& why) = 0;
};

/// One rank's end.
class ControlMember {
 public:
  /// `link` is Member::take_link()'s, `hub_rank` Table::hub_rank; `sink` outlives the member.
  ControlMember(Link link, int32_t rank, int32_t ranks, int32_t hub_rank, const ControlOptions& options, ControlSink& sink, TimeNs now);

  /// True if anything was received.
  bool poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }

  /// Tells all other ranks that this one gives the communicator up. Any time before leave(); later calls than the first do nothing.
  void abort(std::string_view text);
  /// Carries `body` to another rank, in order per pair. Lost without notice when that rank is dead, has left, or reads too slowly.
  /// invalid_argument: no such rank, or longer than kMaxControlBytes; invalid_usage: after leave() or once finished().
  Status send(int32_t to, std::span<const std::byte> body);
  /// Says farewell; no more events come. Then poll() until finished(), at most about a second, so that the hub has surely heard it.
  void leave();
  /// The hub has heard the farewell, or is gone: no more poll() is needed and no more events come.
  [[nodiscard]] bool finished() const { return !link_.has_value(); }

 private:
  void say(uint8_t type, int32_t rank, std::span<const std::byte> body);
  Status receive_all(TimeNs now);
  Status on_message(const Message& message);
  void on_hub_lost(const Status& why, TimeNs now);

  std::optional<Link> link_;
  int32_t rank_, ranks_, hub_rank_;
  ControlOptions options_;
  ControlSink& sink_;
  TimeNs heard_at_, beat_at_, due_at_;
  TimeNs leave_by_ = kNever;
  bool received_ = false, leaving_ = false, aborted_ = false, hub_rank_left_ = false;
};

/// The middle of the star. Lives in the root's process from the rendezvous until finished(), which outlasts that process's own ranks:
/// while it is polled the others stay watched.
class ControlHub {
 public:
  /// `links` are Root::take_links()'s; an absent one is a rank that died meanwhile.
  ControlHub(std::vector<std::optional<Link>> links, const ControlOptions& options, const Logger& log, TimeNs now);

  /// True if anything was received.
  bool poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }
  /// Every rank has left or is dead.
  [[nodiscard]] bool finished() const { return present_ == 0; }
  /// Opaque messages that were not carried because their receiver reads too slowly.
  [[nodiscard]] uint64_t dropped_messages() const { return dropped_messages_; }

 private:
  struct Seat {
    std::optional<Link> link;  ///< absent: left or dead
    TimeNs heard_at = 0;
    bool aborted = false;
    std::string lost;  ///< why it must be declared dead; "": it need not
  };

  Status serve(int32_t rank, TimeNs now);
  Result<bool> hear(int32_t rank);
  Status on_message(int32_t from, const Message& message);
  void flood(uint8_t type, int32_t about, std::span<const std::byte> body);
  void carry(int32_t from, int32_t to, std::span<const std::byte> body);
  void beat();
  void bury_the_lost();
  Seat& seat(int32_t rank) { return seats_[static_cast<size_t>(rank)]; }

  std::vector<Seat> seats_;  ///< by rank
  ControlOptions options_;
  const Logger& log_;
  int32_t present_ = 0;
  TimeNs beat_at_, due_at_;
  bool received_ = false;
  uint64_t dropped_messages_ = 0;
};

}  // namespace isthmus::bootstrap
