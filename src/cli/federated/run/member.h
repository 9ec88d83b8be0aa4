// SPDX-License-Identifier: Apache-2.0
// `isthmus federated run --connect`: a process that stands for some clients. Follows the coordinator's calls and plans; a coordinator that
// is lost is looked for again. One thread; waits end by deadlines or a signal. Returns the exit code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/approach.h"
#include "cli/federated/run/chronicle.h"
#include "cli/federated/run/sums.h"

namespace isthmus::cli {

struct MemberWords {
  MeetingWords meeting;
  uint32_t member = 0;
  std::string data, reach = "30s";
};

int take_part(const MemberWords& words);

/// The connection to the coordinator.
class MemberLink {
 public:
  struct Said {
    RunType type = RunType::beat;
    std::vector<std::byte> body;
  };

  MemberLink(const Premises& premises, uint32_t member, TimeNs reach_ns, const Fd& signals);

  /// Until this member is let in. remote_error: refused; timeout: not reached; a signal ends it too: signal().
  Result<RunTerms> join(uint64_t images);
  /// What has been said, once anything has. Fails when the coordinator is lost or silent, or a signal has come.
  Result<std::vector<Said>> hear();
  void say(RunType type, const bootstrap::SharedBytes& body);
  void leave();
  [[nodiscard]] int signal() const { return signal_; }
  /// Of messages, since the last call.
  std::pair<uint64_t, uint64_t> take_bytes() { return {std::exchange(sent_bytes_, 0), std::exchange(received_bytes_, 0)}; }

 private:
  Result<std::optional<RunTerms>> try_to_join(uint64_t images, TimeNs by);
  Status wait(TimeNs by);
  Result<std::vector<Said>> read();

  const Premises& premises_;
  bootstrap::Surroundings surroundings_;
  uint32_t member_;
  TimeNs reach_ns_;
  const Fd& signals_;
  std::optional<bootstrap::Approach> approach_;
  std::optional<bootstrap::Link> link_;
  std::vector<Said> kept_;  ///< said together with the terms
  std::string refused_;     ///< why it was not let in so far
  TimeNs heard_at_ = 0;
  uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  int signal_ = 0;
};

}  // namespace isthmus::cli
