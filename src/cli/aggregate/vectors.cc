// SPDX-License-Identifier: Apache-2.0
// vectors.h.
#include "cli/aggregate/vectors.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/float_types.h"
#include "base/rng.h"

namespace isthmus::cli {
namespace {

/// Standard normal numbers, by Box and Muller.
class Normal {
 public:
  Normal(uint64_t seed, uint64_t stream) : rng_(seed, stream) {}
  double next() {
    has_spare_ = !has_spare_;
    if (!has_spare_) return spare_;
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double angle = 2 * std::numbers::pi * rng_.uniform();
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  CounterRng rng_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// The elements of one rank, one after the other.
class Source {
 public:
  Source(const Vectors& vectors, uint32_t rank)
      : draw_(vectors.draw), normal_(vectors.seed, vectors.draw == Draw::same ? 0 : uint64_t{rank} + 1) {}
  float next() {
    const double value = normal_.next();
    if (draw_ != Draw::lognormal) return static_cast<float>(value);
    return static_cast<float>(std::copysign(std::exp(value), normal_.next()));
  }

 private:
  Draw draw_;
  Normal normal_;
};

float at(std::span<const std::byte> elements, DataType type, size_t index) {
  const std::byte* from = elements.data() + index * size_of(type);
  if (type == DataType::float32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return type == DataType::float16 ? Float16{bits}.to_float() : BFloat16{bits}.to_float();
}

void put(std::span<std::byte> elements, DataType type, size_t index, float value) {
  std::byte* to = elements.data() + index * size_of(type);
  if (type == DataType::float32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const uint16_t bits = type == DataType::float16 ? Float16::from_float(value).bits : BFloat16::from_float(value).bits;
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace

Result<Draw> parse_draw(std::string_view text) {
  if (text == "gaussian") return Draw::gaussian;
  if (text == "same") return Draw::same;
  if (text == "lognormal") return Draw::lognormal;
  return invalid_argument(fmt::format("--data {}: there are gaussian, same and lognormal", text));
}

std::vector<std::byte> Vectors::of_rank(uint32_t rank) const {
  std::vector<std::byte> elements(count * size_of(type));
  Source source(*this, rank);
  for (size_t i = 0; i < count; ++i) put(elements, type, i, source.next());
  return elements;
}

std::vector<double> Vectors::average(const federated::RankSet& ranks) const {
  std::vector<double> sum(count);
  for (const int32_t rank : federated::ranks_of(ranks)) {
    const std::vector<std::byte> one = of_rank(static_cast<uint32_t>(rank));
    for (size_t i = 0; i < count; ++i) sum[i] += double{at(one, type, i)};
  }
  for (double& value : sum) value /= static_cast<double>(ranks.count());
  return sum;
}

double nmse(std::span<const std::byte> elements, DataType type, double factor, const std::vector<double>& exact) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double difference = double{at(elements, type, i)} * factor - exact[i];
    error += difference * difference;
    energy += exact[i] * exact[i];
  }
  return energy > 0 ? error / energy : error;
}

}  // namespace isthmus::cli
