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

#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/cost.h"

namespace isthmus::collectives {
namespace {

using plan::Algorithm;
using plan::Shape;

/// Evaluates a formula: + - * /, juxtaposition, parentheses, ceil lg min, and the page's letters.
class Formula {
 public:
  Formula(std::string_view text, int32_t ranks, double bytes) : rest_(text), ranks_(ranks), bytes_(bytes) {}

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
    if (take("P")) return ranks_;
    if (take("N")) return bytes_;
    if (take("K")) return std::bit_floor(static_cast<uint32_t>(ranks_));
    if (take("F")) return std::has_single_bit(static_cast<uint32_t>(ranks_)) ? 0 : 1;
    size_t length = 0;
    const double number = std::stod(std::string(rest_), &length);
    rest_.remove_prefix(length);
    return number;
  }

  std::string_view rest_;
  double ranks_, bytes_;
};

TEST(Formulas, Evaluate) {
  EXPECT_EQ(Formula("2N(P-1)/P", 4, 100).value(), 150);
  EXPECT_EQ(Formula("ceil(lg P) + F", 5, 0).value(), 4);
  EXPECT_EQ(Formula("N(K lg K + 2(P-K))/P", 6, 3).value(), 6);
  EXPECT_EQ(Formula("2 min(1, P-1)", 1, 0).value(), 0);
}

/// "up to ..." is a bound, else the formula is exact.
void expect_steps(std::string_view formula, uint32_t steps, int32_t ranks, double bytes) {
  constexpr std::string_view kBound = "up to ";
  if (!formula.starts_with(kBound)) {
    EXPECT_EQ(steps, Formula(formula, ranks, bytes).value());
    return;
  }
  const double bound = Formula(formula.substr(kBound.size()), ranks, bytes).value();
  EXPECT_LE(steps, bound);
  EXPECT_GE(steps + 1, bound) << "the bound is loose";
}

class FormulaTest : public testing::TestWithParam<const Algorithm*> {};

TEST_P(FormulaTest, AgreesWithThePlans) {
  const Algorithm& algorithm = *GetParam();
  const plan::CostModel model = {.link = [](int, int) { return plan::LinkCost{.latency_ns = 1000, .rate_bytes_per_s = 1e9}; }};
  for (int32_t ranks = 1; ranks <= 33; ++ranks) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const bool by_rank = algorithm.collective == Collective::reduce_scatter || algorithm.collective == Collective::allgather;
    const uint64_t count = by_rank ? 32 : algorithm.collective == Collective::barrier ? 1 : 32 * static_cast<uint64_t>(ranks);
    Shape shape = {
        .collective = algorithm.collective, .group = {.ranks = {}, .size = ranks}, .root = is_rooted(algorithm.collective) ? 0 : -1};
    std::vector<plan::Plan> world;
    for (shape.group.position = 0; shape.group.position < ranks; ++shape.group.position) {
      auto built = plan::build(algorithm, shape);
      ASSERT_TRUE(built.ok()) << built.status().text();
      world.push_back(std::move(*built));
    }
    const auto cost = plan::cost(world, count, 4, model);
    ASSERT_TRUE(cost.ok()) << cost.status().text();
    const double bytes = 4.0 * static_cast<double>(count) * (by_rank ? ranks : 1);
    double sent = 0;
    for (uint64_t rank_sent : cost->sent_bytes) sent += static_cast<double>(rank_sent);
    expect_steps(algorithm.steps_formula, cost->longest_chain, ranks, bytes);
    EXPECT_NEAR(sent / ranks, Formula(algorithm.bytes_formula, ranks, bytes).value(), 1e-6 * bytes);
  }
}

std::string test_name(const testing::TestParamInfo<const Algorithm*>& info) {
  return fmt::format("{}_{}", name_of(info.param->collective), info.param->name);
}

INSTANTIATE_TEST_SUITE_P(Registry, FormulaTest, testing::ValuesIn(registry().begin(), registry().end()), test_name);

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(ISTHMUS_SOURCE_ROOT "/") + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
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
