// SPDX-License-Identifier: Apache-2.0
// The encoded layouts of the codecs that rotate nothing: bf16 (two bytes an element) and blocks of 32 elements with one bfloat16 scale,
// then 32 codes of 8 or 4 bits. Read by codec.cc; no kernel computes them yet. Nothing here can fail.
#pragma once

#include <cstdint>

namespace isthmus::codec {

inline constexpr uint32_t kBlockElements = 32;

/// Bytes of one block of codes of `bits` bits, its scale among them.
constexpr uint32_t block_stride(uint32_t bits) { return 2 + kBlockElements / 8 * bits; }

}  // namespace isthmus::codec
