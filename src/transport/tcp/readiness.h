// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: streams and listeners get a bounded turn when the system says that they changed (edge-triggered epoll), when a
// turn ended with work left, or when somebody asks. Simulated streams have no descriptor and get a turn every time. Used by Tcp;
// fails only where the system refuses an epoll descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/fifo.h"
#include "base/status.h"
#include "base/types.h"
#include "transport/interface.h"

namespace isthmus::transport {

class Readiness;

/// Something that moves bytes on one descriptor. Its turn ends when its budget is used up or both flags are down.
class Served {
 public:
  Served() = default;
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  virtual ~Served();

  /// One turn. True if anything moved.
  virtual bool serve(TimeNs now) = 0;
  /// Another turn would find something without a new event.
  [[nodiscard]] virtual bool ready() const = 0;

 protected:
  /// For the destructors of classes that own the descriptor: it must be forgotten before they close it, since another thread may be
  /// given its number at once.
  void leave();

  bool readable_ = true;  ///< cleared when a read found nothing
  bool writable_ = true;  ///< cleared when a write was refused
  bool hung_up_ = false;  ///< the peer has closed: reads must go on until they say so

 private:
  friend class Readiness;
  Readiness* readiness_ = nullptr;
  int fd_ = -1;
  bool queued_ = false;
  bool patient_ = false;
};

/// `later`: may wait a moment (newcomers). While nobody is in a hurry the system is asked seldom, since asking costs more than a
/// small call between the ranks of this host.
enum class Hurry : uint8_t { now, later };

class Readiness {
 public:
  Readiness() = default;
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  /// Gives `served` a turn now and whenever `fd` changes (-1: at every collect()), until it is destroyed or forgotten. The descriptor must
  /// stay open that long.
  Status watch(Served& served, int fd, Hurry hurry = Hurry::now);
  void forget(Served& served);
  /// True while neither collect() nor take_turns() would do anything.
  [[nodiscard]] bool quiet(TimeNs now) const { return turns_.empty() && blind_.empty() && impatient_ == 0 && now < next_look_ns_; }
  /// Asks for a turn in the next take_turns().
  void ask_turn(Served& served);
  /// Asks the system who changed; those get a turn, and so do all without a descriptor.
  void collect(TimeNs now);
  /// One turn for everybody whose turn it is. True if anything moved.
  bool take_turns(TimeNs now);

  /// True when nobody's turn is due; then `waits` has a descriptor that becomes ready when one is.
  bool arm(std::vector<Wait>& waits);

 private:
  void ask_system();

  Fd epoll_;
  TimeNs next_look_ns_ = INT64_MIN;
  size_t impatient_ = 0;  ///< of those watched
  std::vector<Served*> watched_;
  std::vector<Served*> blind_;  ///< without a descriptor
  Fifo<Served*> turns_;         ///< null: has gone since
};

}  // namespace isthmus::transport
