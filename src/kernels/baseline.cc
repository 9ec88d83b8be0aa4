// SPDX-License-Identifier: Apache-2.0
// Pieces of the codecs that rotate nothing: conversions of element types, ends of pieces, residuals, the same for every target.
// Called by exec/ and tests; the loops over elements are the targets'. Nothing can fail.
#include "kernels/baseline.h"

#include <cstring>

#include "codec/baseline.h"
#include "kernels/baseline_layout.h"
#include "kernels/float_environment.h"
#include "kernels/targets.h"

namespace isthmus::kernels {
namespace {

constexpr uint32_t kBlock = codec::kBlockElements;
constexpr uint32_t kBf16Bytes = 2;

uint32_t code_bits(const codec::Codec& codec) { return codec.id == codec::kInt8Id ? 8 : 4; }

bool is_float_array(const void* data, DataType type) {
  return type == DataType::float32 && reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
}

void encode_blocks(const Target& target, const codec::Codec& codec, uint8_t* dst, const float* from, uint32_t elements, const CodecKey& key,
                   uint64_t position) {
  if (codec.id != codec::kBf16Id) return target.baseline.encode_blocks(dst, from, elements, code_bits(codec));
  target.baseline.encode_bf16(dst, from, elements, key, position);
}

void decode_blocks(const Target& target, const codec::Codec& codec, float* to, const uint8_t* src, uint32_t elements, bool past_caches) {
  if (codec.id != codec::kBf16Id) return target.baseline.decode_blocks(to, src, elements, code_bits(codec), past_caches);
  target.baseline.decode_bf16(to, src, elements, past_caches);
}

/// Decodes `count` elements to memory for whole blocks.
void decode_padded(const Target& target, const codec::Codec& codec, float* to, const uint8_t* src, uint32_t count, bool past_caches) {
  const uint32_t whole = count / kBlock * kBlock, rest = count - whole;
  decode_blocks(target, codec, to, src, whole, past_caches);
  if (rest == 0) return;
  const uint8_t* last = src + codec.encoded_bytes(codec, whole, 1);
  if (codec.id != codec::kBf16Id) return decode_blocks(target, codec, to + whole, last, kBlock, false);
  uint8_t padded[kBlock * kBf16Bytes] = {};  // bf16 alone has no padding in memory
  std::memcpy(padded, last, size_t{rest} * kBf16Bytes);
  decode_blocks(target, codec, to + whole, padded, kBlock, false);
}

/// work = from - decoded, 0 where there is no such number.
void subtract(float* work, const float* from, const float* decoded, uint32_t count) {
  const DefaultFloatEnvironment environment(true);
  for (uint32_t i = 0; i < count; ++i) {
    const bool finite = (__builtin_bit_cast(uint32_t, decoded[i]) & kMagnitudeBits) < kInfinityBits;
    work[i] = finite ? from[i] - decoded[i] : 0;
  }
}

}  // namespace

void baseline_encode(const Target& target, const codec::Codec& codec, void* dst, const CodecInput& in, float* residual, const CodecKey& key,
                     uint64_t position, float* work) {
  auto* to = static_cast<uint8_t*>(dst);
  const auto count = static_cast<uint32_t>(in.count);
  const uint32_t whole = count / kBlock * kBlock, rest = count - whole;
  const auto* from = static_cast<const float*>(in.data);
  if (rest != 0 || in.residual != nullptr || !is_float_array(in.data, in.type)) {
    target.thc.load(work, in, rest == 0 ? whole : whole + kBlock);
    from = work;
  }
  encode_blocks(target, codec, to, from, whole, key, position);
  if (rest != 0) {
    uint8_t last[kBlock * kBf16Bytes];  // no codec needs more for a block
    encode_blocks(target, codec, last, from + whole, kBlock, key, position + whole);
    const uint64_t begin = codec.encoded_bytes(codec, whole, 1);
    std::memcpy(to + begin, last, codec.encoded_bytes(codec, count, 1) - begin);
  }
  if (residual == nullptr) return;
  alignas(64) float decoded[codec::kPieceElements];
  decode_padded(target, codec, decoded, to, count, false);
  subtract(work, from, decoded, count);
  target.thc.store({.data = residual, .type = DataType::float32, .count = count}, work);
}

void baseline_decode(const Target& target, const codec::Codec& codec, const CodecOutput& out, const void* src, float* work) {
  const auto* from = static_cast<const uint8_t*>(src);
  const auto count = static_cast<uint32_t>(out.count);
  if (count % kBlock == 0 && is_float_array(out.data, out.type)) {
    return decode_blocks(target, codec, static_cast<float*>(out.data), from, count, out.past_caches);
  }
  decode_padded(target, codec, work, from, count, false);
  target.thc.store(out, work);
}

}  // namespace isthmus::kernels
