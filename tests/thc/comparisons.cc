// SPDX-License-Identifier: Apache-2.0
// `./dev test thc`, second part: what the homomorphic codec is compared with, on the same kinds of data, against published figures:
// other roundings and rotations of it (as arithmetic in double precision, apart from the kernels), the codecs that rotate nothing, and
// sums in bfloat16. Vectors of 2^18 elements. Fails if any row is outside of its tolerance.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data.h"
#include "ranks.h"
#include "report.h"
#include "rings.h"
#include "rotated.h"

namespace isthmus::thc {
namespace {

constexpr size_t kElements = 1 << 18;

const codec::Codec& bf16() { return *codec::find("bf16"); }
const codec::Codec& int8() { return *codec::find("int8"); }
const codec::Codec& int4() { return *codec::find("int4"); }

struct Column {
  std::string_view name;
  std::vector<float> (*average)(const Vectors& inputs);
};

constexpr size_t kOneScale = 2;
const std::array<Column, 6> kColumns = {
    {{"thc to nearest", [](const Vectors& in) { return rotated_average(in, {.group = 4096, .to_nearest = true}); }},
     {"thc rotated as a whole", [](const Vectors& in) { return rotated_average(in, {.group = kElements}); }},
     {"thc, groups of 1024, one scale", [](const Vectors& in) { return rotated_average(in, {.group = 1024, .one_scale = true}); }},
     {"int4, two shots", [](const Vectors& in) { return two_shots(int4(), in); }},
     {"int4 at random, ring", [](const Vectors& in) { return requantised_ring(in); }},
     {"bfloat16 sums, ring", [](const Vectors& in) { return bf16_ring(in); }}}};

/// What was published, with half a unit of the last digit.
struct Figure {
  double value, half_digit;
};

constexpr Figure f3(double value) { return {value, 0.5e-3}; }
constexpr Figure f4(double value) { return {value, 0.5e-4}; }
constexpr Figure f6(double value) { return {value, 0.5e-6}; }
constexpr Figure f7(double value) { return {value, 0.5e-7}; }

struct Row {
  Data data;
  uint32_t ranks;
  std::array<Figure, 6> figures;
  size_t draws = 1;  ///< of which the middle error counts
};

const std::array<Row, 14> kRows = {{
    {Data::gauss, 1, {f4(0.0139), f4(0.0204), f4(0.0204), f4(0.0094), f3(0.019), f7(2.8e-6)}},
    {Data::gauss, 4, {f4(0.0135), f4(0.0205), f4(0.0205), f4(0.0190), f3(0.048), f6(1.0e-5)}},
    {Data::gauss, 8, {f4(0.0133), f4(0.0204), f4(0.0203), f4(0.0189), f3(0.087), f6(1.6e-5)}},
    {Data::gauss, 16, {f4(0.0131), f4(0.0203), f4(0.0202), f4(0.0191), f3(0.170), f6(2.8e-5)}},
    {Data::gauss_same, 4, {f4(0.0139), f4(0.0106), f4(0.0107), f4(0.0094), f3(0.019), f7(2.8e-6)}},
    {Data::gauss_same, 8, {f4(0.0139), f4(0.0090), f4(0.0091), f4(0.0094), f3(0.019), f6(1.8e-5)}},
    {Data::gauss_same, 16, {f4(0.0139), f4(0.0082), f4(0.0082), f4(0.0094), f3(0.019), f6(6.3e-5)}},
    {Data::half_common, 8, {f4(0.0044), f4(0.0063), f4(0.0062), f4(0.0115), f3(0.062), f6(1.1e-5)}},
    {Data::lognormal1, 8, {f4(0.0119), f4(0.0202), f4(0.0208), f4(0.0398), f3(0.149), f6(1.6e-5)}},
    {Data::lognormal1_same, 8, {f4(0.0134), f4(0.0089), f4(0.0093), f4(0.0246), f3(0.051), f6(1.8e-5)}},
    {Data::lognormal2, 8, {f4(0.0210), f4(0.0213), f3(0.137), f4(0.0154), f3(0.068), f6(9e-6)}},
    {Data::lognormal2, 1, {f4(0.0087), f4(0.0197), f3(0.091), f4(0.0044), f3(0.018), f7(2.7e-6)}, 5},
    {Data::spikes, 8, {f4(0.0157), f4(0.0194), f4(0.0547), f4(0.0003), f3(0.002), f7(2.9e-6)}},
    {Data::layers, 8, {f4(0.0135), f4(0.0198), f3(0.338), f4(0.0190), f3(0.089), f6(1.6e-5)}, 5},
}};

/// Few elements, or with one scale few of 16 layers, have nearly all of the energy.
bool varies(Data data, size_t column) { return is_heavy(data) || (data == Data::layers && column == kOneScale); }

void published_rows(Report& report) {
  report.title("Squared error of the average over that of the exact one, published");
  for (const Row& row : kRows) {
    std::array<std::vector<double>, kColumns.size()> errors;
    for (size_t draw = 0; draw < row.draws; ++draw) {
      const Vectors inputs = make_data(row.data, row.ranks, kElements, 7 + draw);
      for (size_t c = 0; c < kColumns.size(); ++c) errors[c].push_back(nmse(kColumns[c].average(inputs), inputs));
    }
    for (size_t c = 0; c < kColumns.size(); ++c) {
      std::sort(errors[c].begin(), errors[c].end());
      const double measured = errors[c][row.draws / 2];
      const std::string what = fmt::format("{}, {} ranks, {}", name_of(row.data), row.ranks, kColumns[c].name);
      if (varies(row.data, c)) {
        report.within_factor(what, row.figures[c].value, measured, 1.5);
      } else {
        report.row(what, row.figures[c].value, measured, 0.05, row.figures[c].half_digit);
      }
    }
  }
}

/// The mean square of the largest of 32 magnitudes of N(0,1).
double largest_square() {
  double sum = 0;
  constexpr double kStep = 1e-3;
  for (double m = kStep / 2; m < 9; m += kStep) sum += 2 * m * (1 - std::pow(std::erf(m / std::sqrt(2.0)), 32)) * kStep;
  return sum;
}

/// Uniform steps of largest / top, of which bfloat16's rounding up takes 0.27 % on average.
double block_error(double top) { return largest_square() / (top * top) * 1.0054 / 12; }

void analytic_rows(Report& report) {
  report.title("The codecs that rotate nothing on Gaussian data, analytic");
  const Vectors inputs = make_data(Data::gauss, 1, kElements, 8);
  report.row("int8", block_error(127), nmse(one_shot(int8(), inputs[0], 1), inputs), 0.02);
  report.row("int4 (a block's largest is nearly exact)", block_error(7) * 31 / 32, nmse(one_shot(int4(), inputs[0], 1), inputs), 0.03);
  report.row("bf16 over bfloat16 to nearest: rounding at random doubles the square", 2,
             nmse(one_shot(bf16(), inputs[0], 1), inputs) / nmse(bf16_ring(inputs), inputs), 0.02);
  const Vectors eight = make_data(Data::gauss, 8, kElements, 8);
  report.row("int8, 8 ranks, two shots", 2 * block_error(127), nmse(two_shots(int8(), eight), eight), 0.02);
  report.row("bf16, 8 ranks, two shots", 4 * nmse(bf16_ring(inputs), inputs), nmse(two_shots(bf16(), eight), eight), 0.02);
}

/// Rounding errors of independent calls cancel, errors to nearest stay.
void repeated_rows(Report& report) {
  report.title("The mean of 64 results against one: unbiased codecs gain 64 times");
  const Vectors inputs = make_data(Data::lognormal1, 1, 1 << 14, 9);
  for (const codec::Codec* codec : codec::registry()) {
    std::vector<double> sum(inputs[0].size(), 0.0);
    for (uint64_t op = 1; op <= 64; ++op) {
      const auto result = one_shot(*codec, inputs[0], op);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{result[i]};
    }
    std::vector<float> mean(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / 64);
    const double gain = nmse(one_shot(*codec, inputs[0], 1), inputs) / nmse(mean, inputs);
    if (codec == &bf16()) {
      report.row("bf16", 64, gain, 0.1);
    } else {
      report.row(fmt::format("{} (to nearest: control)", codec->name), 1, gain, 0.001);
    }
  }
}

}  // namespace
}  // namespace isthmus::thc

int main() {
  isthmus::thc::Report report;
  isthmus::thc::published_rows(report);
  isthmus::thc::analytic_rows(report);
  isthmus::thc::repeated_rows(report);
  return report.finish();
}
