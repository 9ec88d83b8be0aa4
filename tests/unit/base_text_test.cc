// SPDX-License-Identifier: Apache-2.0
// text.h: units, limits, spelling.
#include <gtest/gtest.h>

#include <array>

#include "base/text.h"

namespace isthmus {
namespace {

TEST(Text, SplitsAndTrims) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(split(" a, b c ,,d,", ','), (std::vector<std::string_view>{"a", "b c", "d"}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(lines_of("a \n\nb"), (std::vector<std::string_view>{"a ", "", "b"}));
  EXPECT_EQ(lines_of("\na\n"), (std::vector<std::string_view>{"", "a"})) << "the last line's end ends no other";
  EXPECT_TRUE(lines_of("").empty());
  EXPECT_EQ(join(split("a,b,c", ','), " + "), "a + b + c");
  EXPECT_EQ(lower("NCCL_Debug-9"), "nccl_debug-9");
  EXPECT_EQ(upper("warn"), "WARN");
}

TEST(Text, Durations) {
  EXPECT_EQ(parse_duration("60s").value(), 60 * kSecondNs);
  EXPECT_EQ(parse_duration("500ms").value(), 500 * kMillisecondNs);
  EXPECT_EQ(parse_duration("2m").value(), 120 * kSecondNs);
  EXPECT_EQ(parse_duration("1 h").value(), 3600 * kSecondNs);
  EXPECT_EQ(parse_duration("7us").value(), 7 * kMicrosecondNs);
  EXPECT_EQ(parse_duration("9").value(), 9 * kSecondNs);
  EXPECT_EQ(parse_duration("0").value(), 0);
  for (const char* bad : {"", "s", "-1s", "1.5s", "10 parsecs", "9223372036854775807s", "99999999999999999999", "1s2"}) {
    EXPECT_EQ(parse_duration(bad).status().code(), Code::invalid_argument) << bad;
  }
}

TEST(Text, Bytes) {
  EXPECT_EQ(parse_bytes("256K").value(), 256u << 10);
  EXPECT_EQ(parse_bytes("1m").value(), 1u << 20);
  EXPECT_EQ(parse_bytes("64MiB").value(), 64u << 20);
  EXPECT_EQ(parse_bytes("3 GB").value(), 3ull << 30);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), UINT64_MAX);
  for (const char* bad : {"", "K", "-1", "1X", "16777216T", "0x10"}) EXPECT_FALSE(parse_bytes(bad).ok()) << bad;
}

TEST(Text, BooleansAndNumbers) {
  for (const char* yes : {"1", "true", "YES", "on"}) EXPECT_TRUE(parse_bool(yes).value()) << yes;
  for (const char* no : {"0", "False", "no", "OFF"}) EXPECT_FALSE(parse_bool(no).value()) << no;
  EXPECT_FALSE(parse_bool("2").ok());
  EXPECT_FALSE(parse_bool("").ok());
  EXPECT_EQ(parse_unsigned("65535", 65535).value(), 65535u);
  for (const char* bad : {"65536", "", "1 ", "+1", "-0", "1e3"}) EXPECT_FALSE(parse_unsigned(bad, 65535).ok()) << bad;
}

TEST(Text, NumbersForMessages) {
  EXPECT_EQ(number_ranges(std::vector<int32_t>{}), "");
  EXPECT_EQ(number_ranges(std::vector<int32_t>{2, 5, 7, 8, 9}), "2,5,7-9");
  std::vector<int32_t> odd;
  for (int32_t i = 1; i < 101; i += 2) odd.push_back(i);
  EXPECT_EQ(number_ranges(odd), "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,...");
  EXPECT_EQ(duration_text(30 * kSecondNs), "30 s");
  EXPECT_EQ(duration_text(1500 * kMillisecondNs), "1.5 s");
  EXPECT_EQ(duration_text(250 * kMillisecondNs), "250 ms");
}

TEST(Text, NearestName) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("DEBUG", "DEBGU"), 1u) << "a swap is one slip of the fingers";
  constexpr std::array<std::string_view, 3> kNames = {"TIMEOUT", "PEER_TIMEOUT", "DEBUG"};
  EXPECT_EQ(nearest("TIMEOT", kNames), "TIMEOUT");
  EXPECT_EQ(nearest("PEERTIMEOUT", kNames), "PEER_TIMEOUT");
  EXPECT_EQ(nearest("PEER_TIMEOUT_VALUE", kNames), "PEER_TIMEOUT") << "a third of its characters may be wrong";
  EXPECT_EQ(nearest("PEER_TIMEOUTS_VALUE", kNames), "");
  EXPECT_EQ(nearest("COMPRESSION", kNames), "");
}

}  // namespace
}  // namespace isthmus
