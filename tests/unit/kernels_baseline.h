// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of whole vectors with the codecs that rotate nothing, for tests/unit/kernels_baseline*_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/codec.h"
#include "kernels/baseline.h"
#include "kernels/reduce.h"

namespace isthmus::kernels {

using ByteVector = std::vector<uint8_t>;

struct PieceWork {
  alignas(64) float data[codec::kPieceElements];
};

inline ByteVector encoded(const Target& target, const codec::Codec& codec, const CodecInput& in, const CodecKey& key, uint64_t position,
                          float* residual = nullptr) {
  PieceWork work;
  ByteVector bytes(codec.encoded_bytes(codec, in.count, 1));
  baseline_encode(target, codec, bytes.data(), in, residual, key, position, work.data);
  return bytes;
}

inline ByteVector encoded(const Target& target, const codec::Codec& codec, const std::vector<float>& values, const CodecKey& key = {},
                          uint64_t position = 0) {
  return encoded(target, codec, {.data = values.data(), .type = DataType::float32, .count = values.size()}, key, position);
}

inline std::vector<float> decoded(const Target& target, const codec::Codec& codec, const ByteVector& bytes, size_t count) {
  PieceWork work;
  std::vector<float> values(count, -7);
  baseline_decode(target, codec, {.data = values.data(), .type = DataType::float32, .count = count}, bytes.data(), work.data);
  return values;
}

}  // namespace isthmus::kernels
