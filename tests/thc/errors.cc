// SPDX-License-Identifier: Apache-2.0
// `./dev test thc`: errors of the compressed average on known kinds of data against published figures and analytic ones. One vector
// of 2^18 elements a rank, groups of 4096 with their own scales. Fails if any row is outside of its tolerance.
#include <fmt/format.h>

#include <array>

#include "data.h"
#include "ranks.h"
#include "report.h"

namespace isthmus::thc {
namespace {

constexpr size_t kElements = 1 << 18;

struct Column {
  std::string_view name;
  codec::ThcConfig config;
};

codec::ThcConfig config_of(uint32_t bits, uint32_t granularity, double overflow, bool correlated) {
  return {.bits = bits, .granularity = granularity, .overflow = overflow, .correlated = correlated, .prescale = false};
}

const std::array<Column, 5> kColumns = {{{"g=30 p=1/32", config_of(4, 30, 1.0 / 32, false)},
                                         {"g=30 p=1/512", config_of(4, 30, 1.0 / 512, false)},
                                         {"g=30 p=1/512 correlated", config_of(4, 30, 1.0 / 512, true)},
                                         {"g=15 p=1/32", config_of(4, 15, 1.0 / 32, false)},
                                         {"b=8 g=255 p=1e-4", config_of(8, 255, 1e-4, false)}}};

/// What was published, with half a unit of the last digit.
struct Figure {
  double value, half_digit;
};

struct Row {
  Data data;
  uint32_t ranks;
  std::array<Figure, 5> figures;
};

constexpr Figure f4(double value) { return {value, 0.5e-4}; }
/// With p=1e-4 a vector has some 26 clamped coordinates, whose error, 1e-5 on average, differs by draw as much.
constexpr Figure f6(double value) { return {value, 1e-5}; }

const std::array<Row, 14> kRows = {{
    {Data::gauss, 1, {f4(0.0204), f4(0.0239), f4(0.0239), f4(0.0206), f6(1.66e-4)}},
    {Data::gauss, 4, {f4(0.0202), f4(0.0241), f4(0.0165), f4(0.0205), f6(1.67e-4)}},
    {Data::gauss, 8, {f4(0.0199), f4(0.0241), f4(0.0152), f4(0.0204), f6(1.68e-4)}},
    {Data::gauss, 16, {f4(0.0199), f4(0.0242), f4(0.0146), f4(0.0203), f6(1.69e-4)}},
    {Data::gauss_same, 4, {f4(0.0106), f4(0.0062), f4(0.0018), f4(0.0107), f6(4.9e-5)}},
    {Data::gauss_same, 8, {f4(0.0090), f4(0.0032), f4(0.0007), f4(0.0090), f6(3.0e-5)}},
    {Data::gauss_same, 16, {f4(0.0082), f4(0.0018), f4(0.0004), f4(0.0082), f6(2.1e-5)}},
    {Data::half_common, 8, {f4(0.0060), f4(0.0054), f4(0.0033), f4(0.0060), f6(3.7e-5)}},
    {Data::lognormal1, 8, {f4(0.0195), f4(0.0256), f4(0.0160), f4(0.0201), f6(1.9e-4)}},
    {Data::lognormal1_same, 8, {f4(0.0085), f4(0.0032), f4(0.0006), f4(0.0085), f6(2.3e-5)}},
    {Data::lognormal2, 8, {f4(0.0408), f4(0.0743), f4(0.0432), f4(0.0484), f6(5.5e-4)}},
    {Data::lognormal2, 1, {f4(0.0155), f4(0.0227), f4(0.0228), f4(0.0155), f6(1.6e-4)}},
    {Data::spikes, 8, {f4(0.0304), f4(0.0450), f4(0.0271), f4(0.0344), f6(3.9e-4)}},
    // Few of the 16 layers have nearly all of the energy.
    {Data::layers, 8, {f4(0.0202), f4(0.0241), f4(0.0152), f4(0.0205), {1.8e-4, 3e-5}}},
}};

void published_rows(Report& report) {
  report.title("Squared error of the average over that of the exact one, published");
  for (const Row& row : kRows) {
    const Vectors inputs = make_data(row.data, row.ranks, kElements, 7);
    for (size_t c = 0; c < kColumns.size(); ++c) {
      const Ranks ranks({.config = kColumns[c].config}, row.ranks);
      // Where all ranks have the same, clamped coordinates make most of the error, and one draw has few of them.
      const uint32_t draws = row.data == Data::gauss_same ? 4 : 1;
      double measured = 0;
      for (uint32_t draw = 1; draw <= draws; ++draw) measured += nmse(ranks.average(inputs, draw), inputs) / draws;
      const std::string what = fmt::format("{}, {} ranks, {}", name_of(row.data), row.ranks, kColumns[c].name);
      if (is_heavy(row.data)) {
        report.within_factor(what, row.figures[c].value, measured, 1.5);
      } else {
        report.row(what, row.figures[c].value, measured, 0.05, row.figures[c].half_digit);
      }
    }
  }
}

void analytic_rows(Report& report) {
  report.title("The same, analytic: J(T) + C(t), for Gaussian data");
  const Vectors inputs = make_data(Data::gauss, 1, kElements, 8);
  for (const auto& [bits, granularity, overflow] : {std::tuple{2U, 30U, 1.0 / 512},
                                                    {3U, 30U, 1.0 / 512},
                                                    {4U, 0U, 1.0 / 32},
                                                    {4U, 15U, 1.0 / 512},
                                                    {4U, 51U, 1.0 / 64},
                                                    {8U, 255U, 1.0 / 32}}) {
    const Ranks ranks({.config = config_of(bits, granularity, overflow, false)}, 1);
    report.row(fmt::format("b={} g={} p=1/{:.0f}, 1 rank", bits, ranks.thc().config.granularity, 1 / overflow),
               ranks.thc().predicted_nmse(false), nmse(ranks.average(inputs, 1), inputs), 0.02);
  }
}

/// One scale for everything works where groups take their elements from everywhere; contiguous groups need their own.
void layout_rows(Report& report) {
  report.title("Columns: each group samples the whole vector");
  const Vectors layers = make_data(Data::layers, 8, kElements, 7);
  codec::ThcConfig config = config_of(4, 30, 1.0 / 32, false);
  config.layout = codec::ThcLayout::columns;
  report.row("layers, 8 ranks, columns", 0.0202, nmse(Ranks({.config = config}, 8).average(layers, 1), layers), 0.05);
  config.group = 1024;
  report.row("layers, 8 ranks, columns of 1024", 0.0202, nmse(Ranks({.config = config}, 8).average(layers, 1), layers), 0.05);
}

}  // namespace
}  // namespace isthmus::thc

int main() {
  isthmus::thc::Report report;
  isthmus::thc::published_rows(report);
  isthmus::thc::analytic_rows(report);
  isthmus::thc::layout_rows(report);
  isthmus::thc::multi_round_rows(report);
  isthmus::thc::unbiased_rows(report);
  isthmus::thc::identity_rows(report);
  return report.finish();
}
