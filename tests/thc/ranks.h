// SPDX-License-Identifier: Apache-2.0
// A compressed allreduce of ranks that live in one process: the kernels without plans, transports and threads. Called by the
// programs of this folder; nothing can fail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/thc.h"
#include "kernels/reduce.h"

namespace isthmus::thc {

using Vectors = std::vector<std::vector<float>>;

/// In which order, and through which widths, encodings are added.
enum class Order : uint8_t {
  forward,   ///< all into the widest sum, from rank 0
  backward,  ///< from the last rank
  pairs,     ///< neighbours, then pairs of pairs: halving
  ring,      ///< one after the other, each partial sum only as wide as it must be
};

struct Settings {
  codec::ThcConfig config;
  uint64_t seed = 42;
  Order order = Order::forward;
  const kernels::Target* target = &kernels::select_target();
};

class Ranks {
 public:
  Ranks(const Settings& settings, uint32_t ranks);

  /// The average as every rank decodes it. With error feedback, `residuals` (one per rank) are read and written.
  std::vector<float> average(const Vectors& inputs, uint64_t op, Vectors* residuals = nullptr) const;
  [[nodiscard]] const codec::Thc& thc() const { return *thc_; }

 private:
  using Bytes = std::vector<uint8_t>;

  std::vector<Bytes> encode(const Vectors& inputs, uint64_t op, Vectors* residuals, std::vector<float>& scales) const;
  [[nodiscard]] Bytes add(std::span<const Bytes> encodings, size_t elements) const;
  [[nodiscard]] Bytes add_two(const Bytes& a, uint32_t a_count, const Bytes& b, uint32_t b_count, uint32_t room, size_t elements) const;
  [[nodiscard]] Bytes add_pairs(std::span<const Bytes> encodings, size_t elements) const;

  Settings settings_;
  uint32_t ranks_;
  std::unique_ptr<const codec::Thc> thc_;
};

/// ||measured - exact mean||^2 / ||exact mean||^2.
double nmse(const std::vector<float>& measured, const Vectors& inputs);

}  // namespace isthmus::thc
