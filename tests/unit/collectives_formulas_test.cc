// SPDX-License-Identifier: Apache-2.0
// What the generated page says about each algorithm is what its plans do: steps and bytes are evaluated from the formulas' text and
// compared with the cost walk. Also pins how short an algorithm is.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "codec/thc.h"
#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/cost.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Shape;

/// What the page's letters stand for.
struct Letters {
  int32_t ranks = 1;                                       ///< P
  double bytes = 0;                                        ///< N
  double index_bytes = 0, sum_bytes = 0, scale_bytes = 0;  ///< I, W, Z

  int32_t sites = 1;  ///< M
  const codec::Codec* codec = nullptr;

  /// W(k)
  [[nodiscard]] double sum_of(int32_t summands) const {
    const auto elements = static_cast<uint64_t>(bytes / 4);
    return static_cast<double>(codec->encoded_bytes(*codec, elements, static_cast<uint32_t>(summands)));
  }
  [[nodiscard]] double ring_sums() const {
    double result = 0;
    for (int32_t summands = 1; summands < ranks; ++summands) result += sum_of(summands) / ranks;
    return result;
  }
  [[nodiscard]] double halving_sums() const {
    double result = 0;
    for (int32_t summands = 1; summands < ranks; summands *= 2) result += sum_of(summands) / (2 * summands);
    return result;
  }
  [[nodiscard]] double staying() const { return staying_of(ranks); }
  [[nodiscard]] double folds() const { return folds_of(ranks); }
  [[nodiscard]] static double staying_of(int32_t number) { return std::bit_floor(static_cast<uint32_t>(number)); }
  [[nodiscard]] static double folds_of(int32_t number) { return std::has_single_bit(static_cast<uint32_t>(number)) ? 0 : 1; }
  [[nodiscard]] double scale_steps() const { return ranks == 1 ? 0 : ranks <= 8 ? 1 : std::ceil(std::log2(ranks)) + folds(); }
  [[nodiscard]] double scales_sent() const {
    const double folded = ranks - staying();
    return ranks <= 8 ? scale_bytes * (ranks - 1) : scale_bytes * (staying() * std::log2(staying()) + 2 * folded) / ranks;
  }
};

/// Evaluates a formula: + - * /, juxtaposition, parentheses, ceil lg min, and the page's letters.
class Formula {
 public:
  Formula(std::string_view text, const Letters& letters) : rest_(text), letters_(letters) {}

  double value() {
    const double result = sum();
    EXPECT_TRUE(rest_.empty()) << "cannot read \"" << rest_ << "\"";
    return result;
  }

 private:
  bool take(std::string_view word) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  double sum() {
    double result = product();
    for (;;) {
      if (take("+")) {
        result += product();
      } else if (take("-")) {
        result -= product();
      } else {
        return result;
      }
    }
  }

  double product() {
    double result = factor();
    for (;;) {
      if (take("/")) {
        result /= factor();
      } else if (starts_factor()) {
        result *= factor();
      } else {
        return result;
      }
    }
  }

  bool starts_factor() {
    take("");
    return !rest_.empty() && std::string_view("+-/),").find(rest_.front()) == std::string_view::npos;
  }

  double factor() {
    if (take("ceil")) return std::ceil(factor());
    if (take("lg")) return std::log2(factor());
    if (take("min(")) {
      const double first = sum();
      EXPECT_TRUE(take(","));
      const double second = sum();
      EXPECT_TRUE(take(")"));
      return std::min(first, second);
    }
    if (take("(")) {
      const double inner = sum();
      EXPECT_TRUE(take(")"));
      return inner;
    }
    if (take("P")) return letters_.ranks;
    if (take("N")) return letters_.bytes;
    if (take("K")) return letters_.staying();
    if (take("F")) return letters_.folds();
    if (take("I")) return letters_.index_bytes;
    if (take("W")) return letters_.sum_bytes;
    if (take("Z")) return letters_.scale_bytes;
    if (take("M")) return letters_.sites;
    if (take("L")) return Letters::staying_of(letters_.sites);
    if (take("G")) return Letters::folds_of(letters_.sites);
    if (take("V")) return letters_.sum_of(letters_.ranks / letters_.sites);
    if (take("R")) return letters_.ring_sums();
    if (take("H")) return letters_.halving_sums();
    if (take("D")) return letters_.scale_steps();
    if (take("X")) return letters_.scales_sent();
    size_t length = 0;
    const double number = std::stod(std::string(rest_), &length);
    rest_.remove_prefix(length);
    return number;
  }

  std::string_view rest_;
  const Letters& letters_;
};

TEST(Formulas, Evaluate) {
  const auto value = [](std::string_view text, const Letters& letters) { return Formula(text, letters).value(); };
  EXPECT_EQ(value("2N(P-1)/P", {.ranks = 4, .bytes = 100}), 150);
  EXPECT_EQ(value("ceil(lg P) + F", {.ranks = 5}), 4);
  EXPECT_EQ(value("N(K lg K + 2(P-K))/P", {.ranks = 6, .bytes = 3}), 6);
  EXPECT_EQ(value("2 min(1, P-1)", {.ranks = 1}), 0);
  EXPECT_EQ(value("X + (I + W)/P", {.ranks = 2, .index_bytes = 4, .sum_bytes = 8, .scale_bytes = 1}), 7);
  EXPECT_EQ(value("D + X", {.ranks = 16, .scale_bytes = 1}), 8);
  EXPECT_EQ(value("L lg L + M + G", {.ranks = 12, .sites = 6}), 15);
}

/// "up to ..." is a bound, else the formula is exact.
void expect_steps(std::string_view formula, uint32_t steps, const Letters& letters) {
  constexpr std::string_view kBound = "up to ";
  if (!formula.starts_with(kBound)) {
    EXPECT_EQ(steps, Formula(formula, letters).value());
    return;
  }
  const double bound = Formula(formula.substr(kBound.size()), letters).value();
  EXPECT_LE(steps, bound);
  const bool two_bounds = formula.find('D') != std::string_view::npos;  // of joining scales, and of what follows
  EXPECT_GE(steps + (two_bounds ? 2 : 1), bound) << "the bound is loose";
}

/// The plans of all ranks.
std::vector<plan::Plan> world_of(const Algorithm& algorithm, Shape shape) {
  std::vector<plan::Plan> world;
  for (shape.group.position = 0; shape.group.position < shape.group.size; ++shape.group.position) {
    auto built = plan::build(algorithm, shape);
    EXPECT_TRUE(built.ok()) << built.status().text();
    if (built.ok()) world.push_back(std::move(*built));
  }
  return world;
}

/// Compares the formulas, those of the shape's way across sites, with the plans for blocks of `count` elements.
void compare(const Algorithm& algorithm, const Shape& shape, uint64_t count, const Letters& letters) {
  plan::Variant formulas = {shape.across, algorithm.steps_formula, algorithm.bytes_formula};
  for (const plan::Variant& variant : algorithm.variants) {
    if (variant.across == shape.across) formulas = variant;
  }
  const std::vector<plan::Plan> world = world_of(algorithm, shape);
  const plan::CostModel model = {.link = [](int, int) { return plan::LinkCost{.latency_ns = 1000, .rate_bytes_per_s = 1e9}; }};
  const auto cost = plan::cost(world, count, 4, model);
  ASSERT_TRUE(cost.ok()) << cost.status().text();
  double sent = 0;
  for (uint64_t rank_sent : cost->sent_bytes) sent += static_cast<double>(rank_sent);
  expect_steps(formulas.steps_formula, cost->longest_chain, letters);
  // Where halves are uneven, partial sums have other sizes than the formula says.
  const bool about = algorithm.needs.coding != plan::Coding::none && algorithm.name == "halving" && letters.folds() == 1;
  const double bytes = Formula(formulas.bytes_formula, letters).value();
  EXPECT_NEAR(sent / letters.ranks, bytes, about ? 0.25 * bytes : 1e-6 * letters.bytes);
}

class FormulaTest : public testing::TestWithParam<const Algorithm*> {};

/// How many sites a formula is tried with: hierarchies are for several, of several ranks each.
std::vector<int32_t> site_counts(const Algorithm& algorithm, int32_t ranks) {
  if (!algorithm.needs.by_site) return {1};
  std::vector<int32_t> counts;
  for (const int32_t sites : {2, 3, 4, 7}) {
    if (ranks % sites == 0 && ranks > sites) counts.push_back(sites);
  }
  return counts;
}

/// Ranks dealt out to sites in turn.
std::vector<int32_t> dealt(int32_t ranks, int32_t sites) {
  std::vector<int32_t> result;
  result.reserve(static_cast<size_t>(ranks));
  for (int32_t position = 0; position < ranks; ++position) result.push_back(position % sites);
  return result;
}

TEST_P(FormulaTest, AgreesWithThePlans) {
  const Algorithm& algorithm = *GetParam();
  for (int32_t ranks = 1; ranks <= 33; ++ranks) {
    for (const int32_t site_count : site_counts(algorithm, ranks)) {
      SCOPED_TRACE(fmt::format("{} ranks at {} sites", ranks, site_count));
      const bool by_rank = is_by_rank(algorithm.collective);
      const uint64_t count = by_rank ? 32 : algorithm.collective == Collective::barrier ? 1 : 32 * static_cast<uint64_t>(ranks);
      const std::vector<int32_t> sites = dealt(ranks, site_count);
      Shape shape = {.collective = algorithm.collective,
                     .group = {.ranks = {}, .size = ranks},
                     .root = is_rooted(algorithm.collective) ? 0 : -1,
                     .sites = sites};
      const Letters letters = {.ranks = ranks, .bytes = 4.0 * static_cast<double>(count) * (by_rank ? ranks : 1), .sites = site_count};
      compare(algorithm, shape, count, letters);
      for (const plan::Variant& variant : algorithm.variants) {
        SCOPED_TRACE(name_of(variant.across));
        shape.across = variant.across;
        compare(algorithm, shape, count, letters);
      }
    }
  }
}

class CompressedFormulaTest : public testing::TestWithParam<const Algorithm*> {};

TEST_P(CompressedFormulaTest, AgreesWithThePlans) {
  const Algorithm& algorithm = *GetParam();
  for (int32_t ranks = 1; ranks <= 33; ++ranks) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const auto thc = codec::make_thc({.group = 1024}, static_cast<uint32_t>(ranks));
    ASSERT_TRUE(thc.ok()) << thc.status().text();
    const codec::Codec& codec = algorithm.needs.coding == plan::Coding::sums ? (*thc)->codec : *codec::find("int8");
    const uint64_t elements = uint64_t{1024} * static_cast<uint64_t>(ranks);
    const bool by_site = algorithm.needs.by_site;
    if (by_site && ranks % 4 != 0) continue;
    const std::vector<int32_t> sites = dealt(ranks, 2);
    const Letters letters = {.ranks = ranks,
                             .bytes = 4.0 * static_cast<double>(elements),
                             .index_bytes = static_cast<double>(codec.encoded_bytes(codec, elements, 1)),
                             .sum_bytes = static_cast<double>(codec.encoded_bytes(codec, elements, static_cast<uint32_t>(ranks))),
                             .scale_bytes = static_cast<double>(codec.scale_bytes(codec, elements)),
                             .sites = by_site ? 2 : 1,
                             .codec = &codec};
    const Shape shape = {.collective = algorithm.collective, .group = {.ranks = {}, .size = ranks}, .codec = &codec, .sites = sites};
    compare(algorithm, shape, is_by_rank(algorithm.collective) ? 1024 : elements, letters);
  }
}

std::string test_name(const testing::TestParamInfo<const Algorithm*>& info) {
  return fmt::format("{}_{}", name_of(info.param->collective), info.param->name);
}

INSTANTIATE_TEST_SUITE_P(Registry, FormulaTest, testing::ValuesIn(registry().begin(), registry().end()), test_name);
INSTANTIATE_TEST_SUITE_P(Registry, CompressedFormulaTest, testing::ValuesIn(compressed_registry().begin(), compressed_registry().end()),
                         test_name);

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(ISTHMUS_SOURCE_ROOT "/") + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Variants, AreOfEveryWayAcrossThatTheTunableAllows) {
  for (const Algorithm* algorithm : registry()) {
    uint32_t others = 0;
    for (const plan::Tunable& tunable : algorithm->tunables) others = tunable.name == "across" ? tunable.max : others;
    ASSERT_EQ(algorithm->variants.size(), others) << name_of(algorithm->collective) << " " << algorithm->name;
    for (uint32_t at = 0; at < others; ++at) EXPECT_EQ(static_cast<uint32_t>(algorithm->variants[at].across), at + 1);
  }
}

TEST(Page, IsTheOneInDocs) { EXPECT_EQ(text_of("docs/algorithms.md"), algorithms_markdown()); }

TEST(Ring, IsShort) {
  const std::string source = text_of("collectives/allreduce/ring.cc");
  const size_t begin = source.find("void emit("), end = source.find("\n}\n", begin);
  ASSERT_NE(end, std::string::npos);
  const auto lines =
      std::count(source.begin() + static_cast<std::ptrdiff_t>(begin), source.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  EXPECT_LE(lines, 25);
}

}  // namespace
}  // namespace isthmus::collectives
