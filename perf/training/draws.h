// SPDX-License-Identifier: Apache-2.0
// Random numbers of the training check: pure functions of (seed, stream, index), so that every rank can make any of them by itself, in
// any order. Used by data.cc and model.cc; cannot fail.
#pragma once

#include <Random123/philox.h>

#include <Random123/boxmuller.hpp>
#include <cstdint>
#include <span>

namespace training {

/// What numbers are for. Streams of one seed have nothing in common.
enum class Stream : uint32_t { teacher, inputs, flips, wrong_labels, batches, parameters };

class Draws {
 public:
  Draws(uint64_t seed, Stream stream) : key_({{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}}), stream_(stream) {}

  /// Uniform in 0 .. 2^32 - 1.
  [[nodiscard]] uint32_t word(uint64_t index) const { return four(index / 4)[index % 4]; }
  /// Uniform in [0, below); `below` is far less than 2^32, so that the remainder's bias does not matter.
  [[nodiscard]] uint32_t below(uint64_t index, uint32_t below) const { return static_cast<uint32_t>(uint64_t{word(index)} * below >> 32); }
  /// Uniform in [0, 1).
  [[nodiscard]] double uniform(uint64_t index) const { return word(index) * 0x1p-32; }
  /// out[i] <- N(0, 1) number first + i.
  void normals(uint64_t first, std::span<float> out) const {
    for (size_t at = 0; at < out.size();) {
      const uint64_t index = first + at;
      const auto words = four(index / 4);
      const r123::float2 pairs[2] = {r123::boxmuller(words[0], words[1]), r123::boxmuller(words[2], words[3])};
      const float values[4] = {pairs[0].x, pairs[0].y, pairs[1].x, pairs[1].y};
      for (uint64_t place = index % 4; place < 4 && at < out.size(); ++place) out[at++] = values[place];
    }
  }

 private:
  [[nodiscard]] r123::Philox4x32::ctr_type four(uint64_t counter) const {
    return r123::Philox4x32()({{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream_), 0}},
                              key_);
  }

  r123::Philox4x32::key_type key_;
  Stream stream_;
};

}  // namespace training
