// SPDX-License-Identifier: Apache-2.0
// Who waits for whom? Before a warning a rank asks those it waits for what they are doing, and the warning repeats their answers. And a
// rank that waits sends a probe along the chain of calls that wait for each other: when it comes back, the ranks stand still for good,
// and the call fails naming them all (docs/decisions/0008). One per communicator; called by it under the driver's lock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "exec/endpoint.h"
#include "exec/run.h"

namespace isthmus::comm {

class Standstill {
 public:
  /// What it stands on; `send` carries a body to another rank, `fail` ends the communicator.
  struct Surroundings {
    std::function<void(int32_t to, std::span<const std::byte> body)> send;
    std::function<void(const Status& why)> fail;
    /// True if calls may begin here that nobody waits to make: they are queued on streams behind others.
    std::function<bool()> has_backlog = [] { return false; };
    /// What calls of other communicators in this process wait for; "" if there are none.
    std::function<std::string()> elsewhere = [] { return std::string(); };
    /// "rank 3 (host h3, pid 17)".
    std::function<std::string(int32_t rank)> name_of;
  };
  Standstill(const exec::Endpoint& endpoint, Surroundings surroundings) : endpoint_(endpoint), surroundings_(std::move(surroundings)) {}

  /// The run waits: does it wait for itself, through others?
  void probe(const exec::Run& run);
  /// Asks the ranks that the run waits for what they are doing.
  void ask(const exec::Run& run);
  /// What they answered since, a line for each.
  [[nodiscard]] std::string answers(const exec::Run& run) const;
  /// Another rank's question, answer or probe.
  void on_message(int32_t from, std::span<const std::byte> body);

 private:
  /// A rank on a probe's way: what it is doing, and what it needs of the next.
  struct Hop {
    int32_t rank = -1;
    exec::Need need;
    std::string text;
  };
  struct Probe {
    uint32_t number = 0;  ///< of the rank that sent it first
    std::vector<Hop> hops;
  };

  void on_question(int32_t from, Reader& reader);
  void on_probe(int32_t from, Reader& reader);
  [[nodiscard]] static bool read_probe(Reader& reader, Probe& probe);
  void send_probe(const Probe& probe, int32_t to) const;
  void go_on(const Probe& probe, const exec::Run& run, std::span<const exec::Need> needs);
  [[nodiscard]] std::string situation(wire::CallClass call_class, uint32_t number) const;
  [[nodiscard]] const exec::Run* held_by() const;
  const exec::Run* needs_before(const exec::Need& asked, int32_t asker, std::vector<exec::Need>& needs) const;
  [[nodiscard]] Status standstill(const Probe& probe) const;

  const exec::Endpoint& endpoint_;
  Surroundings surroundings_;
  uint32_t probes_ = 0;
  std::array<std::pair<int32_t, uint32_t>, 64> passed_on_{};  ///< a ring of the latest probes that came by: first rank, number
  uint64_t passed_ = 0;
  std::map<int32_t, std::string> heard_;  ///< the latest answers
};

}  // namespace isthmus::comm
