// SPDX-License-Identifier: Apache-2.0
// Which kernels run here: the targets of this build that the CPU supports, and the choice among them. Cannot fail: scalar is always there.
#include <array>

#include "base/sanitizers.h"
#include "kernels/targets.h"

namespace isthmus::kernels {
namespace {

struct TargetList {
  Target wide{};
  std::array<const Target*, 4> targets{};
  size_t count = 0;

  TargetList() {
    add(kScalarTarget);
#if defined(ISTHMUS_X86_TARGETS)
    const CpuFeatures cpu = detect_cpu();
    if (cpu.sse4) add(kSse4Target);
    if (cpu.avx2) add(kAvx2Target);
    if (cpu.avx512) {
      // The codecs' AVX-512 kernels have been compiled but not run since they were written anew: those of AVX2 stand in for them.
      wide = kAvx512Target;
      wide.thc = kAvx2Target.thc;
      wide.baseline = kAvx2Target.baseline;
      add(wide);
    }
#endif
  }
  void add(const Target& target) { targets[count++] = &target; }
};

}  // namespace

std::span<const Target* const> available_targets() {
  static const TargetList kList;
  return std::span(kList.targets).first(kList.count);
}

const Target& select_target(std::string_view name) {
  const auto targets = available_targets();
  for (const Target* target : targets) {
    if (target->name == name) return *target;
  }
  // Sanitizers watch the scalar target only.
  return kSanitized ? kScalarTarget : *targets.back();
}

}  // namespace isthmus::kernels
