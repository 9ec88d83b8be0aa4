// SPDX-License-Identifier: Apache-2.0
// Draws the data from the counter-based generator: equal on every machine. Nothing can fail.
#include "data.h"

#include <cmath>
#include <numbers>

#include "base/rng.h"

namespace isthmus::thc {
namespace {

class Normal {
 public:
  Normal(uint64_t seed, uint64_t stream) : rng_(seed, stream) {}
  double operator()() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double angle = 2 * std::numbers::pi * rng_.uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }
  CounterRng& rng() { return rng_; }

 private:
  CounterRng rng_;
  double spare_ = 0;
  bool has_spare_ = false;
};

double lognormal(Normal& normal, double sigma) {
  const double magnitude = std::exp(sigma * normal());
  return normal.rng().chance(0.5) ? magnitude : -magnitude;
}

double draw(Data data, Normal& own, double common, double layer) {
  switch (data) {
    case Data::half_common:
      return common + own();
    case Data::lognormal1:
    case Data::lognormal1_same:
      return lognormal(own, 1);
    case Data::lognormal2:
      return lognormal(own, 2);
    case Data::spikes:
      return own.rng().chance(1e-3) ? own() : 1e-4 * own();
    case Data::layers:
      return layer * own();
    default:
      return own();
  }
}

}  // namespace

std::string_view name_of(Data data) {
  constexpr std::string_view kNames[] = {"gauss indep",       "gauss same",         "half-common", "lognormal(1) indep",
                                         "lognormal(1) same", "lognormal(2) indep", "spikes 1e-3", "layers"};
  return kNames[static_cast<size_t>(data)];
}

bool is_heavy(Data data) { return data >= Data::lognormal1 && data <= Data::spikes; }

std::vector<std::vector<float>> make_data(Data data, uint32_t ranks, size_t elements, uint64_t seed) {
  constexpr size_t kLayer = 16 << 10;
  std::vector<std::vector<float>> vectors(ranks, std::vector<float>(elements));
  Normal common(seed, 1000), layers(seed, 1001);
  std::vector<double> shared(elements), layer((elements + kLayer - 1) / kLayer);
  for (double& value : shared) value = common();
  for (double& value : layer) value = std::exp(1.5 * layers());
  const bool same = data == Data::gauss_same || data == Data::lognormal1_same;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Normal own(seed, same ? 0 : rank);
    for (size_t i = 0; i < elements; ++i) vectors[rank][i] = static_cast<float>(draw(data, own, shared[i], layer[i / kLayer]));
  }
  return vectors;
}

}  // namespace isthmus::thc
