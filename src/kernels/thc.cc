// SPDX-License-Identifier: Apache-2.0
// Groups as wholes, the same for every target: scales, zero and not-a-number groups, residuals; thc_group.h has the numbers.
// Called by exec/ and tests; the loops over elements are the targets'. Nothing can fail.
#include "kernels/thc.h"

#include <cstring>

#include "kernels/targets.h"
#include "kernels/thc_group.h"

namespace isthmus::kernels {
namespace {

/// Ranks whose dither lies before this one's; 0 where the ranks' dither has nothing in common.
uint32_t ranks_before(const ThcNumbers& thc, const CodecKey& key, const ThcPlace& place) {
  if (!has_strata(thc, key)) return 0;
  const uint32_t mine = strata_number(key, place);
  uint32_t before = 0;
  for (uint32_t four = 0; 4 * four < key.ranks; ++four) before += strata_before(key, place, mine, four);
  return before;
}

/// What the encoding of (in + residual) does not hold of it.
void keep_residual(const Target& target, float* residual, const uint8_t* src, uint32_t room, const CodecInput& in, const codec::Thc& thc,
                   const CodecKey& key, const ThcPlace& place, float scale, float* work) {
  const CodecOutput out = {.data = residual, .type = DataType::float32, .stride = in.stride, .count = in.count};
  alignas(64) float decoded[codec::kMaxGroup];
  target.thc.levels(decoded, src, room, 1, place.elements, thc);
  target.thc.unrotate(decoded, key, place, decode_factor(numbers_of(thc), place.elements, scale, 1, 1));
  target.thc.load(work, in, place.elements);
  for (uint32_t i = 0; i < place.elements; ++i) work[i] = work[i] - decoded[i];
  target.thc.store(out, work);
}

/// The input's elements: where they are, or loaded into `work`.
const float* elements_of(const Target& target, const CodecInput& in, uint32_t elements, float* work) {
  const auto* from = static_cast<const float*>(in.data);
  const bool direct = in.type == DataType::float32 && in.stride == 1 && in.count == elements && in.residual == nullptr;
  if (direct && reinterpret_cast<uintptr_t>(from) % alignof(float) == 0) return from;
  target.thc.load(work, in, elements);
  return work;
}

}  // namespace

float thc_measure(const Target& target, const CodecInput& in, uint32_t elements, float* work) {
  const float* from = elements_of(target, in, elements, work);
  const float sum = target.thc.squares(from, elements);
  const auto at = [from](uint32_t i) { return from[i]; };
  return scale_of(is_doubtful(sum) ? wide_sum_of_squares(at, elements) : double{sum}, elements);
}

void thc_encode(const Target& target, void* dst, uint32_t room, const CodecInput& in, float* residual, const codec::Thc& thc,
                const CodecKey& key, const ThcPlace& place, const ThcScales& scales, float* work) {
  const float scale = scales.joined;
  auto* to = static_cast<uint8_t*>(dst);
  const size_t bytes = size_t{place.elements} / 8 * thc.width(room);
  if (is_nan(scale) || scale == 0) {
    std::memset(to, 0, bytes);
    // Nothing is lost of zeros, and nothing can make up for what is no number.
    for (size_t i = 0; residual != nullptr && i < in.count; ++i) residual[i * in.stride] = 0;
    return;
  }
  const float* from = elements_of(target, in, place.elements, work);
  const ThcNumbers numbers = numbers_of(thc);
  const uint32_t before = ranks_before(numbers, key, place);
  target.thc.encode(to, room, from, work, thc, key, place, quantiser(numbers, key, place.elements, before, scales.own, scale), in.next);
  if (residual != nullptr) keep_residual(target, residual, to, room, in, thc, key, place, scale, work);
}

void thc_decode(const Target& target, const CodecOutput& out, const void* src, uint32_t room, uint32_t summands, uint32_t multiplier,
                const codec::Thc& thc, const CodecKey& key, const ThcPlace& place, float scale, float* work) {
  if (is_nan(scale) || scale == 0) {
    for (uint32_t i = 0; i < place.elements; ++i) work[i] = scale;
    return target.thc.store(out, work);
  }
  auto* direct = static_cast<float*>(out.data);
  const bool whole = out.type == DataType::float32 && out.stride == 1 && out.count == place.elements &&
                     reinterpret_cast<uintptr_t>(direct) % alignof(float) == 0;
  target.thc.decode(whole ? direct : work, work, static_cast<const uint8_t*>(src), room, summands, thc, key, place,
                    decode_factor(numbers_of(thc), place.elements, scale, summands, multiplier), whole && out.past_caches);
  if (!whole) target.thc.store(out, work);
}

}  // namespace isthmus::kernels
