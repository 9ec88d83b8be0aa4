// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's mathematics: quantiles, tables, widths, groups, the pre-scale, the text form, what ranks must agree on.
#include "codec/thc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "codec/normal.h"

namespace isthmus::codec {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

double clamp_at(double p) { return inverse_normal_tail(p / 2); }

std::unique_ptr<const Thc> made(const ThcConfig& config, uint32_t ranks) {
  auto thc = make_thc(config, ranks);
  EXPECT_TRUE(thc.ok()) << thc.status().text();
  return std::move(thc).value();
}

TEST(CodecNormal, QuantilesOfThePublishedTables) {
  const std::pair<double, double> known[] = {{16, 1.862732},  {32, 2.153875},  {64, 2.417559},  {128, 2.660067},
                                             {256, 2.885635}, {512, 3.097269}, {1024, 3.297193}};
  for (const auto& [inverse, t] : known) EXPECT_NEAR(clamp_at(1 / inverse), t, 1e-6);
  for (double p = 0.4999; p > 1e-12; p *= 0.7) EXPECT_NEAR(normal_tail(inverse_normal_tail(p)) / p, 1, 1e-13);
  EXPECT_EQ(inverse_normal_tail(0.75), -inverse_normal_tail(0.25));
}

TEST(CodecNormal, LloydMaxLevels) {
  // Sixteen levels: each becomes the mean of its cell, whose bounds lie halfway, until nothing moves.
  std::vector<double> level;
  level.reserve(8);
  for (int i = 0; i < 8; ++i) level.push_back(0.1 + 0.35 * i);
  for (int round = 0; round < 5000; ++round) {
    double low = 0;
    for (size_t i = 0; i < level.size(); ++i) {
      const double high = i + 1 < level.size() ? (level[i] + level[i + 1]) / 2 : 40;
      level[i] = (normal_density(low) - normal_density(high)) / (normal_tail(low) - normal_tail(high));
      low = high;
    }
  }
  const double known[] = {0.1284, 0.3880, 0.6568, 0.9423, 1.2562, 1.6180, 2.0690, 2.7326};
  for (size_t i = 0; i < level.size(); ++i) EXPECT_NEAR(level[i], known[i], 6e-5);
}

TEST(CodecThc, ErrorOfClamping) {
  const std::pair<double, double> known[] = {{16, 0.017157},  {32, 0.007267},  {64, 0.003151},  {128, 0.001390},
                                             {256, 0.000622}, {512, 0.000281}, {1024, 0.000128}};
  for (const auto& [inverse, error] : known) EXPECT_NEAR(clamp_error(clamp_at(1 / inverse)), error, 6e-7);
}

TEST(CodecThc, LeastErrorOfRounding) {
  struct Known {
    uint32_t granularity;
    double inverse, error;
  };
  for (const Known& k :
       {Known{30, 32, 0.013063}, {15, 512, 0.028370}, {15, 32, 0.013319}, {51, 32, 0.012013}, {255, 512, 0.019497}, {30, 512, 0.022906}}) {
    const double t = clamp_at(1 / k.inverse);
    EXPECT_NEAR(rounding_error(best_table(16, k.granularity, t, false).data(), 16, k.granularity, t), k.error, 6e-7) << k.granularity;
  }
}

TEST(CodecThc, MirroredTablesAreThePublishedOnes) {
  struct Known {
    uint32_t levels, granularity;
    double inverse;
    std::vector<uint8_t> table;
    double error;
  };
  const Known known[] = {{16, 30, 16, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}, 0.009641},
                         {16, 30, 32, {0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30}, 0.013075},
                         {16, 30, 512, {0, 4, 7, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 23, 26, 30}, 0.023513},
                         {16, 34, 512, {0, 4, 7, 9, 11, 13, 15, 16, 18, 19, 21, 23, 25, 27, 30, 34}, 0.022116},
                         {8, 16, 32, {0, 3, 5, 7, 9, 11, 13, 16}, 0.055468},
                         {8, 42, 1024, {0, 10, 15, 19, 23, 27, 32, 42}, 0.099149},
                         {4, 34, 512, {0, 13, 21, 34}, 0.573703}};
  for (const Known& k : known) {
    const double t = clamp_at(1 / k.inverse);
    const auto table = best_table(k.levels, k.granularity, t, true);
    EXPECT_THAT(std::vector<uint8_t>(table.begin(), table.begin() + k.levels), ElementsAreArray(k.table));
    EXPECT_NEAR(rounding_error(table.data(), k.levels, k.granularity, t), k.error, 6e-7);
  }
}

/// The index that the lookups give for v.
uint32_t found(const ThcSearch& search, uint32_t v) {
  if (search.direct) return search.low[v % 16] + (v < 16 ? 0U : search.high[v - 16]);
  const uint32_t cell = v >> search.shift;
  uint32_t index = search.low[cell];
  for (const auto& last : search.last) index += static_cast<int>(v) - 128 > static_cast<int8_t>(last[cell]) ? 1 : 0;
  return index;
}

TEST(CodecThc, EveryTableIsMirroredAndRises) {
  for (const uint32_t bits : {2U, 3U, 4U, 8U}) {
    for (uint32_t ranks = 1; ranks <= 64; ++ranks) {
      const auto thc = made({.bits = bits}, ranks);
      const uint32_t g = thc->config.granularity, last = thc->levels() - 1;
      EXPECT_EQ(thc->table[0], 0);
      EXPECT_EQ(thc->table[last], g);
      for (uint32_t i = 0; i < last; ++i) {
        ASSERT_LT(thc->table[i], thc->table[i + 1]) << to_text(thc->config);
        ASSERT_EQ(thc->table[i] + thc->table[last - i], g) << to_text(thc->config);
        ASSERT_EQ(thc->gap[i], thc->table[i + 1] - thc->table[i]);
        if (thc->levels() > 16 || thc->search.steps > codec::ThcSearch::kMostSteps) continue;
        for (uint32_t v = thc->table[i]; v < thc->table[i + 1]; ++v) ASSERT_EQ(found(thc->search, v), i) << to_text(thc->config);
      }
    }
  }
}

TEST(CodecThc, GranularityByRanks) {
  const std::pair<uint32_t, uint32_t> known[] = {{1, 255}, {2, 127}, {3, 85},  {4, 63},  {5, 51},
                                                 {8, 31},  {16, 15}, {17, 15}, {18, 15}, {300, 15}};
  for (const auto& [ranks, granularity] : known) EXPECT_EQ(made({}, ranks)->config.granularity, granularity);
}

TEST(CodecThc, WidthsHoldTheLargestSumAndNoMore) {
  const auto coarse = made({.granularity = 30}, 64), fine = made({.granularity = 15}, 64);
  const uint32_t known[] = {6, 7, 8, 9, 10, 11};
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(coarse->width(2U << i), known[i]);
    EXPECT_EQ(fine->width(2U << i), known[i] - 1);
  }
  EXPECT_EQ(coarse->width(1), 4U);
  // The published limits of a width, and one more.
  struct Limit {
    uint32_t width, granularity, summands;
  };
  for (const Limit& l : {Limit{8, 15, 17},
                         {8, 30, 8},
                         {8, 34, 7},
                         {8, 42, 6},
                         {8, 51, 5},
                         {9, 15, 34},
                         {9, 255, 2},
                         {10, 30, 34},
                         {16, 15, 4369},
                         {16, 30, 2184},
                         {16, 255, 257}}) {
    const auto thc = made({.granularity = l.granularity}, 2);
    EXPECT_EQ(thc->width(l.summands), l.width);
    EXPECT_EQ(thc->width(l.summands + 1), l.width + 1);
  }
}

TEST(CodecThc, SumsThatNoWidthHoldsAreRefused) {
  EXPECT_TRUE(make_thc({.granularity = 15}, 4369).ok());
  EXPECT_THAT(make_thc({.granularity = 15}, 4370).status().text(), HasSubstr("up to 4369 ranks"));
  EXPECT_TRUE(make_thc({.bits = 8}, 257).ok());
  EXPECT_FALSE(make_thc({.bits = 8}, 258).ok());
  EXPECT_EQ(made({.bits = 8}, 4)->codec.max_summands, 257U);
  EXPECT_FALSE(make_thc({}, 0).ok());
}

TEST(CodecThc, ConfigurationsOutOfRangeAreRefused) {
  EXPECT_THAT(make_thc({.bits = 5}, 2).status().text(), HasSubstr("2, 3, 4 or 8"));
  EXPECT_THAT(make_thc({.granularity = 14}, 2).status().text(), HasSubstr("from 15 to 255"));
  EXPECT_THAT(make_thc({.overflow = 0.2}, 2).status().text(), HasSubstr("1/8"));
  EXPECT_THAT(make_thc({.group = 3000}, 2).status().text(), HasSubstr("power of two"));
  EXPECT_FALSE(make_thc({.group = 16384}, 2).ok());
  EXPECT_FALSE(make_thc({.overflow = std::nan("")}, 2).ok());
}

TEST(CodecThc, PrescaleUndoesClamping) {
  const std::pair<double, double> known[] = {{1, 1.03986}, {0.9, 1.01924}, {0.8, 1.0076}, {0.5, 1.00002}};
  for (const auto& [ratio, factor] : known) EXPECT_NEAR(prescale_factor(clamp_at(1.0 / 32), ratio), factor, 6e-5);
  EXPECT_NEAR(prescale_factor(clamp_at(1.0 / 512), 1), 1.0020, 6e-5);
  EXPECT_EQ(prescale_factor(2, 0), 1);
  const auto thc = made({.overflow = 0.125}, 2);
  const double c = double{thc->prescale[Thc::kPrescaleSteps]};
  EXPECT_NEAR(c * (1 - 2 * normal_tail(thc->clamp / c)), 1, 1e-6);
  EXPECT_EQ(made({.prescale = false}, 2)->prescale[Thc::kPrescaleSteps], 1.0F);
}

TEST(CodecThc, GroupsOfACell) {
  const auto thc = made({.group = 1024}, 2);
  const uint64_t elements = 2 * 1024 + 512 + 128 + 1;  // the last one is padded to 64
  ASSERT_EQ(thc->groups(elements), 5U);
  const Piece known[] = {{0, 0, 1, 1024}, {1024, 1024, 1, 1024}, {2048, 2048, 1, 512}, {2560, 2560, 1, 128}, {2688, 2688, 1, 64}};
  for (uint64_t i = 0; i < 5; ++i) {
    const Piece group = thc->group(elements, i);
    EXPECT_EQ(group.first, known[i].first);
    EXPECT_EQ(group.begin, known[i].begin);
    EXPECT_EQ(group.stride, known[i].stride);
    EXPECT_EQ(group.elements, known[i].elements);
  }
  EXPECT_EQ(thc->groups(0), 0U);
  EXPECT_EQ(thc->codec.scale_bytes(thc->codec, elements), 20U);
  EXPECT_EQ(thc->codec.encoded_bytes(thc->codec, elements, 1), 2752U / 2);
  EXPECT_EQ(thc->codec.encoded_bytes(thc->codec, elements, 2), 2752U);
}

/// Every element of a cell is in exactly one group, in both layouts; encodings follow each other without gaps.
TEST(CodecThc, GroupsCoverEveryElementOnce) {
  for (const ThcLayout layout : {ThcLayout::blocks, ThcLayout::columns}) {
    const auto thc = made({.group = 1024, .layout = layout}, 2);
    for (const uint64_t elements : {1U, 63U, 64U, 65U, 1023U, 1024U, 1025U, 3 * 1024U, 5 * 1024U + 1000U, 4095U}) {
      std::vector<int> seen(elements, 0);
      uint64_t next = 0;
      for (uint64_t g = 0; g < thc->groups(elements); ++g) {
        const Piece group = thc->group(elements, g);
        ASSERT_EQ(group.first, next);
        next += group.elements;
        for (uint64_t i = 0; i < group.elements; ++i) {
          const uint64_t at = group.begin + i * group.stride;
          if (at < elements) ++seen[at];
        }
      }
      EXPECT_EQ(next, (elements + 63) / 64 * 64);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(elements)) << elements;
    }
  }
}

TEST(CodecThc, TextForms) {
  const std::pair<const char*, const char*> known[] = {{"thc", "thc"},
                                                       {"thc:", "thc"},
                                                       {"thc:b=4", "thc"},
                                                       {" thc : b=8 , g=255 ", "thc:b=8,g=255"},
                                                       {"thc:g=30,p=1/32,group=1024,layout=columns,dither=private,prescale=off,ef=off",
                                                        "thc:g=30,p=1/32,group=1024,layout=columns,dither=private,prescale=off"},
                                                       {"thc:ef=on", "thc:ef=on"},
                                                       {"thc:ef=on,prescale=on", "thc:prescale=on,ef=on"},
                                                       {"thc:p=0.03125", "thc:p=1/32"},
                                                       {"thc:p=0.0123", "thc:p=0.0123"}};
  for (const auto& [text, normal] : known) {
    const auto config = parse_thc(text);
    ASSERT_TRUE(config.ok()) << config.status().text();
    EXPECT_EQ(to_text(*config), normal);
    EXPECT_EQ(*parse_thc(normal), *config);
  }
  EXPECT_EQ(made(*parse_thc("thc:ef=on"), 4)->config.overflow, 1.0 / 32);
  EXPECT_EQ(made(*parse_thc("thc"), 4)->config.overflow, 1.0 / 512);
}

TEST(CodecThc, TextsThatAreWrongSayWhatIsAllowed) {
  const std::pair<const char*, const char*> known[] = {{"the", "does not begin with thc"},
                                                       {"thc:b=5", "2, 3, 4 or 8"},
                                                       {"thc:b=", "b="},
                                                       {"thc:q=1", "b, g, p, group, layout, dither, prescale, ef"},
                                                       {"thc:b", "name=value"},
                                                       {"thc:g=256", "255"},
                                                       {"thc:p=1/0", "1/8"},
                                                       {"thc:p=0/0", "1/8"},
                                                       {"thc:p=x", "'x' is no number"},
                                                       {"thc:p=1/2", "1/8"},
                                                       {"thc:group=5000", "power of two from 1024 to 8192"},
                                                       {"thc:layout=rows", "columns or blocks"},
                                                       {"thc:dither=no", "correlated or private"},
                                                       {"thc:ef=maybe", "ef=maybe"}};
  for (const auto& [text, why] : known) {
    const auto config = parse_thc(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.status().text(), HasSubstr(why));
  }
}

TEST(CodecThc, HashesDifferWhereverRanksMustAgree) {
  const ThcConfig usual = {.granularity = 30, .overflow = 1.0 / 64};
  const uint64_t hash = made(usual, 4)->hash;
  EXPECT_EQ(made(usual, 4)->hash, hash);
  std::vector<ThcConfig> others(8, usual);
  others[0].bits = 3;
  others[1].granularity = 31;
  others[2].overflow = 1.0 / 65;
  others[3].group = 2048;
  others[4].layout = ThcLayout::columns;
  others[5].correlated = false;
  others[6].prescale = false;
  others[7].feedback = true;
  for (const ThcConfig& other : others) EXPECT_NE(made(other, 4)->hash, hash) << to_text(other);
  EXPECT_NE(made(usual, 5)->hash, hash);
}

TEST(CodecThc, BaselinesAreFound) {
  for (const char* name : {"bf16", "int8", "int4"}) {
    const Codec* codec = find(name);
    ASSERT_NE(codec, nullptr);
    EXPECT_EQ(codec->name, name);
    EXPECT_EQ(codec->scale_bytes(*codec, 1000), 0U);
  }
  EXPECT_EQ(find("none"), nullptr);
  EXPECT_EQ(find("int4")->encoded_bytes(*find("int4"), 33, 1), 36U);
  EXPECT_EQ(find("int8")->encoded_bytes(*find("int8"), 32, 1), 34U);
  EXPECT_EQ(find("bf16")->encoded_bytes(*find("bf16"), 33, 1), 66U);
}

}  // namespace
}  // namespace isthmus::codec
