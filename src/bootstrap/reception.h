// SPDX-License-Identifier: Apache-2.0
// Where others come in: listeners, and the strangers who have knocked but not proved anything yet. Used by whoever is reached by many
// (the rendezvous' root, the aggregator), who decides whom to admit. Strangers (port scans, HTTP, wrong secrets) never make it fail: they
// raise counters, are logged at most a logarithm of times, and are dropped after 2 s without progress; at most 128 are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bootstrap/link.h"
#include "bootstrap/surroundings.h"
#include "transport/interface.h"
#include "wire/handshake.h"

namespace isthmus::bootstrap {

class Reception {
 public:
  /// What happened at the door.
  struct Counters {
    uint64_t accepted = 0;    ///< connections
    uint64_t refused = 0;     ///< spoke another protocol, did not know the secret, or closed before proving it
    uint64_t withdrawn = 0;   ///< closed without a word, or because another connection of their rank came first
    uint64_t timed_out = 0;   ///< no progress for 2 s
    uint64_t evicted = 0;     ///< silent, and their place was needed
    uint64_t unaccepted = 0;  ///< the system would not accept (no descriptors, no memory)
  };
  /// Who decides. Called inside poll() and close().
  class Host {
   public:
    virtual ~Host() = default;
    /// The key by which a claim is checked, or none: refused.
    [[nodiscard]] virtual wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const = 0;
    /// Has proved to know the key. What it claims may still be refused.
    virtual void admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) = 0;
    /// This rank of this process was admitted, and is still here.
    [[nodiscard]] virtual bool has_come(int32_t rank, const transport::ProcessId& process) const = 0;
  };

  /// `name` is the host's in the log ("the root"); `host` outlives this.
  Reception(const Surroundings& surroundings, Host& host, std::string name)
      : surroundings_(surroundings), host_(host), name_(std::move(name)) {}

  /// Listens at as many of the addresses as work, at most `most` (port 0: any; family 0 is skipped); fails when none works.
  Status open(std::span<const transport::Address> listen_at, size_t most);
  [[nodiscard]] std::vector<transport::Address> addresses() const;
  void poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  /// Strangers are inside, whose time may end soon: poll() within kBusyTickNs.
  [[nodiscard]] bool busy() const { return !strangers_.empty(); }
  /// Nobody is let in any more; who is in the middle of its proof is gone.
  void close();
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Why the system last would not accept; empty if it always did.
  [[nodiscard]] const std::string& last_unaccepted() const { return last_unaccepted_; }
  /// Counts, and logs now and then, that `who` was `what` ("refused").
  void note(uint64_t& counter, std::string_view what, const transport::Address& who, const Status& why) const;

  static constexpr TimeNs kBusyTickNs = 50 * kMillisecondNs;
  static constexpr size_t kMaxStrangers = 128;

 private:
  /// Has not proved anything yet.
  struct Stranger {
    std::unique_ptr<transport::Stream> stream;
    wire::Handshake handshake;
    TimeNs came_at = 0, heard_at = 0;
    size_t wanted = 0;  ///< of the handshake when it last moved
    bool silent = true;
  };
  /// Closed after its claim and before its proof.
  struct Departure {
    int32_t rank = 0;
    transport::ProcessId process{};
    transport::Address from;
    Status why;
    TimeNs until = 0;  ///< then it counts as refused
  };

  void accept(TimeNs now);
  bool make_room(TimeNs now);
  Status receive(std::unique_ptr<transport::Stream> stream, TimeNs now);
  /// True when the stranger is dealt with and gone.
  bool serve(Stranger& stranger, TimeNs now);
  void depart(const Stranger& stranger, const Status& why, TimeNs now);
  void judge_departures(TimeNs now);

  Surroundings surroundings_;
  Host& host_;
  std::string name_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<Stranger> strangers_;  ///< oldest first
  std::vector<Departure> departures_;
  TimeNs accept_again_at_ = 0;
  Counters counters_;
  std::string last_unaccepted_;
};

/// Links whose peers were told something last; kept until they have surely read it, at most 2 s.
class Farewells {
 public:
  void add(Link link, TimeNs now);
  void poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] bool empty() const { return links_.empty(); }
  void clear() { links_.clear(); }

 private:
  struct Leaving {
    Link link;
    TimeNs until = 0;
  };
  std::vector<Leaving> links_;
};

}  // namespace isthmus::bootstrap
