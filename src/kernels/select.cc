// SPDX-License-Identifier: Apache-2.0
// Which kernels run here: the targets of this build that the CPU supports, and the choice among them. Cannot fail: scalar is always there.
#include <array>

#include "kernels/targets.h"

namespace isthmus::kernels {

std::span<const Target* const> available_targets() {
  static constexpr std::array<const Target*, 1> kTargets = {&kScalarTarget};
  return kTargets;
}

const Target& select_target(std::string_view name) {
  const auto targets = available_targets();
  for (const Target* target : targets) {
    if (target->name == name) return *target;
  }
  return *targets.back();
}

}  // namespace isthmus::kernels
