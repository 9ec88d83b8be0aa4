// SPDX-License-Identifier: Apache-2.0
// Codecs by their names: which texts name one, which do not and what is said then.
#include "codec/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::codec {
namespace {

using testing::HasSubstr;

TEST(CodecNamed, OneOfEachKind) {
  Codecs codecs;
  EXPECT_EQ(codecs.get("none", 4).value()->codec, nullptr);
  EXPECT_EQ(codecs.get("bf16", 4).value()->codec, find("bf16"));
  EXPECT_EQ(codecs.get("int8", 4).value()->codec, find("int8"));
  const Named* thc = codecs.get(" thc:b=4 ", 4).value();
  EXPECT_EQ(thc->text, "thc");
  EXPECT_EQ(thc->codec, &thc->thc->codec);
  EXPECT_EQ(thc->hash, thc->thc->hash);
  EXPECT_FALSE(thc->feeds_back());
  EXPECT_TRUE(codecs.get("thc:ef=on", 4).value()->feeds_back());
}

TEST(CodecNamed, MadeOncePerTextAndRanks) {
  Codecs codecs;
  const Named* four = codecs.get("thc", 4).value();
  EXPECT_EQ(codecs.get("thc", 4).value(), four);
  const Named* eight = codecs.get("thc", 8).value();
  EXPECT_NE(eight, four);
  EXPECT_NE(eight->hash, four->hash);
  EXPECT_NE(codecs.get("bf16", 4).value()->hash, codecs.get("int8", 4).value()->hash);
}

TEST(CodecNamed, WrongNamesSayWhatThereIs) {
  Codecs codecs;
  EXPECT_THAT(codecs.get("int5", 4).status().text(), HasSubstr("none, bf16, int8, int4 and thc"));
  EXPECT_THAT(codecs.get("", 4).status().text(), HasSubstr("no codec"));
  EXPECT_THAT(codecs.get("thc:b=5", 4).status().text(), HasSubstr("2, 3, 4 or 8"));
  EXPECT_FALSE(codecs.get("thc:b=8,g=255", 300).ok()) << "the sum of so many needs more than 16 bits";
  for (const char* text : {"none", "bf16", "int4", "thc", "thc:p=1/32"}) EXPECT_TRUE(check_name(text).ok()) << text;
  for (const char* text : {"", "thcx", "bf16:b=4", "thc:q=1"}) EXPECT_FALSE(check_name(text).ok()) << text;
}

}  // namespace
}  // namespace isthmus::codec
