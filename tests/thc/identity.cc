// SPDX-License-Identifier: Apache-2.0
// The same bits whatever the order of additions, the widths on the way and the instruction set, for 1 to 33 ranks. Called by errors.cc.
#include <fmt/format.h>

#include <cstring>

#include "data.h"
#include "ranks.h"
#include "report.h"

namespace isthmus::thc {
namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// All orders on all targets give what adding forward on the scalar target gives, and that is near the truth.
bool all_alike(const codec::ThcConfig& config, uint32_t ranks) {
  const Vectors inputs = make_data(Data::half_common, ranks, 2048 + 1024 + 64 + 1, ranks);
  const auto reference = Ranks({.config = config, .target = kernels::available_targets()[0]}, ranks).average(inputs, 5);
  if (!(nmse(reference, inputs) < 0.6)) return false;  // two bits err by 0.3
  for (const kernels::Target* target : kernels::available_targets()) {
    for (const Order order : {Order::forward, Order::backward, Order::pairs, Order::ring}) {
      if (!same_bits(Ranks({.config = config, .order = order, .target = target}, ranks).average(inputs, 5), reference)) return false;
    }
  }
  return true;
}

}  // namespace

void identity_rows(Report& report) {
  report.title("The same bits in every order, through every width, on every instruction set");
  for (const uint32_t bits : {2U, 3U, 4U, 8U}) {
    for (const uint32_t group : {1024U, 2048U}) {
      codec::ThcConfig config = {.bits = bits, .group = group};
      config.layout = group == 1024 ? codec::ThcLayout::columns : codec::ThcLayout::blocks;
      uint32_t good = 0;
      for (uint32_t ranks = 1; ranks <= 33; ++ranks) good += all_alike(config, ranks) ? 1 : 0;
      report.row(fmt::format("{}: of 33 numbers of ranks", codec::to_text(config)), 33, good, 0);
    }
  }
}

}  // namespace isthmus::thc
