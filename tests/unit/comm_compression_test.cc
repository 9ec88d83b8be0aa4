// SPDX-License-Identifier: Apache-2.0
// Which calls are compressed: the rules' grammar, who goes before whom, and what is refused, counted and said.
#include "comm/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::comm {
namespace {

using testing::HasSubstr;
using Reason = Compression::Reason;

class CommCompression : public testing::Test {
 protected:
  Compression make(std::string_view rules, std::string_view name = "", bool crossing = true, bool must = false, int32_t ranks = 4) {
    auto made = Compression::make(rules, must, codecs, ranks, name, crossing);
    EXPECT_TRUE(made.ok()) << made.status().text();
    return made.ok() ? std::move(*made) : Compression();
  }
  CodecWish wish(std::string_view codec) { return {.codec = codecs.get(codec, 4).value()}; }
  /// The codec that a call goes through; "": none.
  static std::string decided(Compression& compression, const CodecQuestion& question, const CodecWish& own = {}) {
    auto wish = compression.decide(own, question, Logger::silent());
    EXPECT_TRUE(wish.ok()) << wish.status().text();
    return wish.ok() && wish->given() ? wish->codec->text : "";
  }
  codec::Codecs codecs;
};

constexpr CodecQuestion kLarge = {.bytes = 8 << 20};

TEST_F(CommCompression, RulesSelectBySizeTypeNameAndSites) {
  const char* rules = "none name=loss*; thc:b=8 type=half,bfloat16; bf16 min=1K max=64K; int8 name=?rad crossing; thc min=4M";
  Compression plain = make(rules);
  EXPECT_EQ(decided(plain, kLarge), "thc");
  EXPECT_EQ(decided(plain, {.bytes = 2 << 20}), "");
  EXPECT_EQ(decided(plain, {.bytes = 64 << 10}), "bf16");
  EXPECT_EQ(decided(plain, {.type = DataType::float16, .bytes = 1 << 20}), "thc:b=8");
  EXPECT_EQ(decided(plain, {.type = DataType::float16, .bytes = (1 << 20) - 1}), "") << "1M is the least unless the rule says otherwise";
  EXPECT_EQ(decided(plain, {.collective = Collective::broadcast, .bytes = 8 << 20}), "");
  Compression loss = make(rules, "loss_sum"), grad = make(rules, "grad"), near = make(rules, "grad", false);
  EXPECT_EQ(decided(loss, kLarge), "");
  EXPECT_EQ(decided(grad, kLarge), "int8");
  EXPECT_EQ(decided(near, kLarge), "thc");
}

TEST_F(CommCompression, WrongRulesSayWhere) {
  const auto fault = [&](const char* rules) { return std::string(Compression::make(rules, false, codecs, 4, "", false).status().text()); };
  EXPECT_THAT(fault("int5"), HasSubstr("ISTHMUS_COMPRESSION: 'int5'"));
  EXPECT_THAT(fault("thc size=4"), HasSubstr("min=BYTES"));
  EXPECT_THAT(fault("thc min=4X"), HasSubstr("'min=4X' in the rule"));
  EXPECT_THAT(fault("thc type=int8"), HasSubstr("float, half and bfloat16"));
  EXPECT_THAT(fault("thc name="), HasSubstr("name=PATTERN"));
  EXPECT_THAT(fault("thc min=4M max=1M"), HasSubstr("for no size"));
  EXPECT_THAT(fault("thc:ef=on"), HasSubstr("no place to keep"));
  EXPECT_EQ(fault(""), "");
  EXPECT_EQ(fault(" ; ;"), "");
}

TEST_F(CommCompression, TheCallGoesBeforeTheCommunicatorBeforeTheRules) {
  Compression compression = make("thc");
  EXPECT_FALSE(compression.idle());
  compression.set_wish(wish("int8"));
  EXPECT_EQ(decided(compression, kLarge), "int8");
  EXPECT_EQ(decided(compression, kLarge, wish("bf16")), "bf16");
  EXPECT_EQ(decided(compression, kLarge, wish("none")), "");
  compression.set_wish(wish("none"));
  EXPECT_EQ(decided(compression, kLarge), "");
  compression.set_wish({});
  EXPECT_EQ(decided(compression, kLarge), "thc");
  EXPECT_TRUE(make("").idle());
}

TEST_F(CommCompression, RefusalsAreCountedByReason) {
  Compression compression = make("");
  CodecWish least = wish("thc");
  least.min_bytes = 1 << 20;
  EXPECT_EQ(decided(compression, {.type = DataType::int32, .bytes = 8 << 20}, least), "");
  EXPECT_THAT(compression.refusal(), HasSubstr("not int32"));
  EXPECT_EQ(decided(compression, {.op = ReduceOp::max, .bytes = 8 << 20}, least), "");
  EXPECT_EQ(decided(compression, {.op = ReduceOp::max, .bytes = 8 << 20}, least), "");
  EXPECT_EQ(decided(compression, {.bytes = 100}, least), "");
  EXPECT_THAT(compression.refusal(), HasSubstr("100 bytes"));
  least.residual = std::make_shared<float>(0.0F);
  EXPECT_EQ(decided(compression, {.scaled = true, .bytes = 8 << 20}, least), "");
  EXPECT_EQ(compression.refused(), (std::array<uint64_t, 4>{1, 3, 1, 0}));
  Compression alone = make("", "", false, false, 1);
  EXPECT_EQ(decided(alone, kLarge, {.codec = codecs.get("thc", 1).value()}), "");
  EXPECT_EQ(alone.refused()[static_cast<size_t>(Reason::ranks)], 1U);
}

TEST_F(CommCompression, WhatMustBeCompressedFails) {
  Compression compression = make("thc min=0", "", true, true);
  const auto refused = compression.decide({}, {.op = ReduceOp::prod, .bytes = 1000}, Logger::silent());
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_THAT(refused.status().text(), HasSubstr("allreduce of float is not compressed with thc: it serves sum and avg, not prod"));
}

TEST_F(CommCompression, EachKindOfRefusalIsSaidOnce) {
  std::vector<std::string> lines;
  const Logger log({.sink = [&](std::string_view line) { lines.emplace_back(line); }});
  Compression compression = make("");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(compression.decide(wish("thc"), {.type = DataType::int32, .bytes = 8 << 20}, log).ok());
    EXPECT_TRUE(compression.decide(wish("thc"), {.op = ReduceOp::min, .bytes = 8 << 20}, log).ok());
  }
  EXPECT_EQ(lines.size(), 2U);
}

}  // namespace
}  // namespace isthmus::comm
