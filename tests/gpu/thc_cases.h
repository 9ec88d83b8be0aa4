// SPDX-License-Identifier: Apache-2.0
// Random cases for the device code of the homomorphic codec, and the comparison of what a device makes of them with the scalar
// kernels' results, bit for bit. Used by the test on a GPU (thc_gpu_test.cc) and by the one that runs the device code on the CPU
// (tests/unit/cuda_thc_test.cc). Needs no test framework. Nothing here can fail but a device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "codec/thc.h"
#include "cuda/thc.h"
#include "kernels/coding.h"

namespace isthmus::cuda {

using Bytes = std::vector<std::byte>;

/// What all ranks of one compressed call have in common, and a cell of it.
struct ThcCase {
  codec::ThcConfig config;
  uint32_t ranks;
  ThcCell cell;
  DataType in, out;
  uint64_t seed, op;
  bool feedback;  ///< what encodings lack is kept, and added to the input
  bool plain;     ///< no group is zero, not finite, tiny or huge on any rank
};

/// Every configuration, layout, type and kind of group has its share. `largest`: groups of more elements are not drawn.
ThcCase random_case(CounterRng& rng, uint32_t largest = codec::kMaxGroup);
std::string to_text(const ThcCase& which);

/// User data of a cell in host memory, one element past the alignment that allocations have.
struct ThcData {
  DataType type;
  Bytes bytes;

  ThcData(DataType of, uint64_t elements);
  [[nodiscard]] void* data() { return bytes.data() + size_of(type); }
  [[nodiscard]] const void* data() const { return bytes.data() + size_of(type); }
};

/// What can run the kernels on host memory: thc.h's calls, finished when they return.
class ThcDevice {
 public:
  virtual ~ThcDevice() = default;
  virtual Status measure(std::vector<float>& scales, const ThcData& in, const std::vector<float>* residual, const codec::Thc& thc,
                         const ThcCell& cell) = 0;
  virtual Status encode(Bytes& to, uint32_t room, const ThcData& in, std::vector<float>* residual, const codec::Thc& thc,
                        const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) = 0;
  virtual Status accumulate(Bytes& to, uint32_t room, const Bytes& a, uint32_t a_room, const Bytes& b, uint32_t b_room,
                            const codec::Thc& thc) = 0;
  virtual Status decode(ThcData& out, const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier, const codec::Thc& thc,
                        const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) = 0;
};

/// The scalar kernels, group by group.
std::unique_ptr<ThcDevice> make_thc_cpu();

/// Runs a whole call of up to three of its ranks on both devices: empty, or what differs first, or what failed.
std::string difference(const ThcCase& which, ThcDevice& device, ThcDevice& expected);

/// A rank's elements for a case.
ThcData make_data(const ThcCase& which, uint32_t rank);

}  // namespace isthmus::cuda
