// SPDX-License-Identifier: Apache-2.0
// What one call is predicted to take, and in which words one profile and plan differ from the next. Used by comm/drift. A forecast is the
// cost walk's price at the powers of two around the size, so that programs whose sizes change are forecast, too, without a walk each.
// Making one fails where the profile has no facts; the rest is pure.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "topology/planner/plan_file.h"

namespace isthmus::topology {

class Forecast {
 public:
  static Result<std::unique_ptr<Forecast>> make(Layout layout, Profile profile);
  /// For a call whose larger buffer has `bytes`. Some milliseconds for a choice and a power of two that are new.
  Result<TimeNs> of(const collectives::Choice& choice, uint64_t bytes);

  /// Use make().
  explicit Forecast(Scene scene);

 private:
  Scene scene_;
  Pricer pricer_;
};

/// What the later profile says otherwise by more than a fifth: "site0 -> site1: latency 5.02 ms, now 20.10 ms"; "": nothing.
std::string profile_changes(const Profile& before, const Profile& after);
/// Which sizes are to be done otherwise: "allreduce from 65536 bytes: hierarchy, now ring"; "": none.
std::string plan_changes(const PlanFile& before, const PlanFile& after);

}  // namespace isthmus::topology
