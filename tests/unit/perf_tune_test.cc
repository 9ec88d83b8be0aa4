// SPDX-License-Identifier: Apache-2.0
// The built-in rules are what perf/tune makes from its committed table, and it makes sensible ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "collectives/registry.h"
#include "perf/tune/tuning.h"

namespace isthmus::tune {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(ISTHMUS_SOURCE_ROOT "/" + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One machine on which a message costs `latency_us` and a byte next to nothing, or the other way round.
std::string table_json(std::string_view machine, std::string_view measured) {
  std::string text = R"({"machines": {"process": M, "host": M, "network": M}, "ranks": [4, 8], "bytes": [1024, 1048576],)";
  for (size_t at; (at = text.find('M')) != std::string::npos;) text.replace(at, 1, machine);
  return text + "\"measured\": [" + std::string(measured) + "]}";
}

constexpr std::string_view kSlowMessages = R"({"link": {"latency_us": 1000, "overhead_us": 0, "gbyte_per_s": 100},
    "port": {"of": "sender", "latency_us": 0, "overhead_us": 0, "gbyte_per_s": 100},
    "reduce_gbyte_per_s": 100, "copy_gbyte_per_s": 100, "step_us": 0, "segments": [1]})";
constexpr std::string_view kSlowBytes = R"({"link": {"latency_us": 0.001, "overhead_us": 0, "gbyte_per_s": 0.1},
    "port": {"of": "sender", "latency_us": 0, "overhead_us": 0, "gbyte_per_s": 0.1},
    "reduce_gbyte_per_s": 100, "copy_gbyte_per_s": 100, "step_us": 0, "segments": [1]})";

/// The algorithm for allreduce over four ranks of one host, for that many bytes.
std::string allreduce_choice(std::string_view json, uint64_t bytes) {
  const auto table = parse_table(json);
  if (!table.ok()) return table.status().text();
  const auto rules = make_rules(*table);
  if (!rules.ok()) return rules.status().text();
  for (const plan::Rule& rule : *rules) {
    const bool matches = rule.collective == Collective::allreduce && rule.reach == plan::Reach::host && rule.max_ranks >= 4;
    if (matches && bytes >= rule.min_bytes && bytes <= rule.max_bytes) return rule.algorithm;
  }
  return "none";
}

TEST(Tune, CommittedRulesComeFromTheCommittedTable) {
  const auto table = parse_table(text_of("perf/tune/table.json"));
  ASSERT_TRUE(table.ok()) << table.status().text();
  const auto rules = make_rules(*table);
  ASSERT_TRUE(rules.ok()) << rules.status().text();
  EXPECT_EQ(to_include_file(*rules), text_of("collectives/default_rules.inc"))
      << "run: build/perf/tune perf/tune/table.json > collectives/default_rules.inc";
}

TEST(Tune, FewStepsWhereMessagesAreDear) { EXPECT_EQ(allreduce_choice(table_json(kSlowMessages, ""), 1024), "one_shot"); }

TEST(Tune, FewBytesWhereBytesAreDear) {
  EXPECT_THAT(allreduce_choice(table_json(kSlowBytes, ""), 1 << 20), testing::AnyOf("direct", "ring", "halving_doubling"));
}

TEST(Tune, MeasurementsDecideTheirPointAlone) {
  const std::string json =
      table_json(kSlowMessages, R"(["allreduce", "host", 4, 1024, "ring", 1, 5], ["allreduce", "host", 4, 1024, "direct", 1, 6])");
  EXPECT_EQ(allreduce_choice(json, 1000), "ring");
  EXPECT_EQ(allreduce_choice(json, 1 << 20), "one_shot");
}

TEST(Tune, ANearlyAsQuickChoiceStays) {
  const std::string json = table_json(kSlowMessages, R"(["allreduce", "host", 4, 1024, "ring", 1, 5],
    ["allreduce", "host", 4, 1048576, "ring", 1, 104], ["allreduce", "host", 4, 1048576, "direct", 1, 100])");
  EXPECT_EQ(allreduce_choice(json, 1 << 20), "ring");
}

TEST(Tune, BadTablesAreRefused) {
  EXPECT_THAT(parse_table("{").status().text(), HasSubstr("tuning table: "));
  EXPECT_THAT(parse_table("{}").status().text(), HasSubstr("machines"));
  EXPECT_THAT(parse_table(table_json(kSlowBytes, R"(["allreduce", "host", 4, 8, "rung", 1, 5])")).status().text(), HasSubstr("rung"));
  EXPECT_THAT(parse_table(table_json(kSlowBytes, R"(["allreduce", "hst", 4, 8, "ring", 1, 5])")).status().text(), HasSubstr("hst"));
}

}  // namespace
}  // namespace isthmus::tune
