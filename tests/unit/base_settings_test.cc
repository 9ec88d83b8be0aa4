// SPDX-License-Identifier: Apache-2.0
// settings.h: the table's own consistency, sources and their order, NCCL's names, reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/settings.h"
#include "base/settings_table.h"

namespace isthmus {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Variables = std::map<std::string, std::string, std::less<>>;

Result<Settings> parse(Variables variables, SettingsReport* report = nullptr) {
  const SettingSource source = {.name = "environment", .variables = std::move(variables)};
  return parse_settings(std::span(&source, 1), report);
}

std::string error_of(Variables variables) { return parse(std::move(variables)).status().text(); }

const SettingRow& row_of(const SettingsReport& report, std::string_view name) {
  return *std::find_if(report.rows.begin(), report.rows.end(), [&](const SettingRow& row) { return row.name == name; });
}

TEST(SettingsTable, DefaultTextsAreTheDefaults) {
  Variables all;
  for (const SettingDefinition& row : setting_definitions()) all.emplace(row.name, row.default_text);
  auto settings = parse(all);
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(*settings, Settings{});
  EXPECT_EQ(parse({}).value(), Settings{});
}

TEST(SettingsTable, EveryRowSetsSomethingAndHasADocument) {
  std::set<std::string_view> names;
  for (const SettingDefinition& row : setting_definitions()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is defined twice";
    EXPECT_FALSE(row.doc.empty()) << row.name;
    bool sets = false;
    for (const char* text : {"0", "1", "2", "2s", "AF_INET", "none", "4000-4001", "ring", "WARN", "ALL"}) {
      Settings changed;
      std::vector<std::string> notes;
      sets = sets || (row.parse(text, changed, notes).ok() && !(changed == Settings{}));
    }
    EXPECT_TRUE(sets) << row.name << " changes no member";
  }
}

TEST(SettingsTable, UnusedNamesAreSortedAndNotDefined) {
  const auto unused = unused_nccl_names();
  EXPECT_TRUE(std::is_sorted(unused.begin(), unused.end()));
  for (const SettingDefinition& row : setting_definitions()) {
    EXPECT_FALSE(std::binary_search(unused.begin(), unused.end(), row.nccl_name)) << row.nccl_name;
  }
}

TEST(Settings, ParsesUnits) {
  auto settings = parse({{"ISTHMUS_SETUP_TIMEOUT", "500ms"},
                         {"ISTHMUS_PEER_TIMEOUT", " 2m "},
                         {"ISTHMUS_EAGER_BYTES", "1M"},
                         {"ISTHMUS_PORT_RANGE", "4000-4100"},
                         {"ISTHMUS_AUTH", "None"},
                         {"ISTHMUS_DETERMINISTIC", "on"},
                         {"ISTHMUS_TCP_STREAMS", "8"},
                         {"TMPDIR", "/scratch"}});
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->setup_timeout_ns, 500 * kMillisecondNs);
  EXPECT_EQ(settings->peer_timeout_ns, 120 * kSecondNs);
  EXPECT_EQ(settings->eager_bytes, 1u << 20);
  EXPECT_EQ(settings->port_first, 4000);
  EXPECT_EQ(settings->port_last, 4100);
  EXPECT_EQ(settings->auth, "none");
  EXPECT_TRUE(settings->deterministic);
  EXPECT_EQ(settings->tcp_streams, 8u);
  EXPECT_EQ(settings->temp_dir, "/scratch");
  EXPECT_EQ(parse({{"ISTHMUS_PORT_RANGE", "4000"}})->port_last, 4000);
}

TEST(Settings, BadValuesOfOursFailWithNameValueAndWhatIsAccepted) {
  EXPECT_THAT(error_of({{"ISTHMUS_SETUP_TIMEOUT", "soon"}}),
              AllOf(HasSubstr("ISTHMUS_SETUP_TIMEOUT"), HasSubstr("soon"), HasSubstr("environment"), HasSubstr("30s")));
  EXPECT_THAT(error_of({{"ISTHMUS_AUTH", "tls"}}), HasSubstr("psk, none"));
  for (const char* bad : {"0", "4100-4000", "4000-", "-4000", "70000", "a-b"}) {
    EXPECT_THAT(error_of({{"ISTHMUS_PORT_RANGE", bad}}), HasSubstr("4000-4100")) << bad;
  }
  EXPECT_THAT(error_of({{"ISTHMUS_TCP_STREAMS", "0"}}), HasSubstr("1 to 64"));
  EXPECT_THAT(error_of({{"ISTHMUS_SOCKET_FAMILY", "AF_UNIX"}}), HasSubstr("AF_INET6"));
  EXPECT_THAT(error_of({{"ISTHMUS_DEBUG", "LOUD"}}), HasSubstr("TRACE"));
  EXPECT_THAT(error_of({{"ISTHMUS_DEBUG_SUBSYS", "INIT,NOISE"}}), HasSubstr("NOISE"));
  EXPECT_THAT(error_of({{"ISTHMUS_ALGO", "gossip:ring"}}), HasSubstr("allreduce:ring"));
}

TEST(Settings, NcclNamesMeanTheSameAndYieldToOurs) {
  SettingsReport report;
  auto settings = parse({{"NCCL_DEBUG", "info"},
                         {"NCCL_SOCKET_IFNAME", "=eth0"},
                         {"NCCL_SHM_DISABLE", "1"},
                         {"NCCL_COMM_ID", "127.0.0.1:4000"},
                         {"NCCL_HOSTID", "a"},
                         {"ISTHMUS_HOSTID", "b"}},
                        &report);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->debug, "INFO");
  EXPECT_EQ(settings->socket_ifname, "=eth0");
  EXPECT_TRUE(settings->shm_disable);
  EXPECT_EQ(settings->comm_id, "127.0.0.1:4000");
  EXPECT_EQ(settings->host_id, "b");
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_EQ(row_of(report, "ISTHMUS_DEBUG").source, "environment (NCCL_DEBUG)");
  EXPECT_EQ(row_of(report, "ISTHMUS_HOSTID").source, "environment");
  EXPECT_EQ(row_of(report, "ISTHMUS_AUTH").source, "default");
  EXPECT_EQ(row_of(report, "ISTHMUS_AUTH").value, "psk");
}

TEST(Settings, BadNcclValuesAreIgnoredLoudly) {
  SettingsReport report;
  auto settings = parse({{"NCCL_DEBUG", "LOUD"}, {"NCCL_SHM_DISABLE", "maybe"}}, &report);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(*settings, Settings{});
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("NCCL_SHM_DISABLE=maybe (environment) is ignored"), HasSubstr("NCCL_DEBUG=LOUD")));
}

TEST(Settings, UnknownNamesAreReportedWithTheNearest) {
  SettingsReport report;
  ASSERT_TRUE(
      parse({{"ISTHMUS_PEER_TIMEOT", "1s"}, {"ISTHMUS_ZZZZZZZZ", "1"}, {"NCCL_SOCKET_IFNAM", "x"}, {"UNRELATED", "1"}}, &report).ok());
  EXPECT_THAT(report.warnings,
              ElementsAre(AllOf(HasSubstr("ISTHMUS_PEER_TIMEOT (environment)"), HasSubstr("did you mean ISTHMUS_PEER_TIMEOUT?")),
                          AllOf(HasSubstr("ISTHMUS_ZZZZZZZZ"), ::testing::Not(HasSubstr("did you mean"))),
                          HasSubstr("did you mean NCCL_SOCKET_IFNAME?")));
}

TEST(Settings, NcclNamesWithoutMeaningAreListedOnce) {
  SettingsReport report;
  ASSERT_TRUE(parse({{"NCCL_PROTO", "LL"}, {"NCCL_IB_HCA", "mlx5"}}, &report).ok());
  EXPECT_THAT(report.warnings, ElementsAre(AllOf(HasSubstr("NCCL_PROTO"), HasSubstr("NCCL_IB_HCA"), HasSubstr("ignored"))));
}

TEST(Settings, AlgorithmsByCollective) {
  EXPECT_EQ(parse({{"ISTHMUS_ALGO", "allreduce:Ring, broadcast:binomial"}})->algorithm, "allreduce:ring,broadcast:binomial");
  EXPECT_EQ(parse({{"ISTHMUS_ALGO", "ring,allreduce:Direct/8"}})->algorithm, "ring,allreduce:direct/8");
  EXPECT_EQ(parse({{"ISTHMUS_ALGO", "allreduce:direct,ring"}})->algorithm, "ring");
}

TEST(Settings, NcclAlgoIsTranslated) {
  SettingsReport report;
  EXPECT_EQ(parse({{"NCCL_ALGO", "Ring;allreduce:nvls,tree;ReduceScatter:Tree"}}, &report)->algorithm,
            "allreduce:halving_doubling,reduce_scatter:ring,allgather:ring,broadcast:chain,reduce:chain");
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("'nvls' is not used"), HasSubstr("'Tree' is not used")));
  EXPECT_EQ(parse({{"NCCL_ALGO", "^tree"}}, &report)->algorithm, "");
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("only excludes")));
  EXPECT_EQ(parse({{"NCCL_ALGO", "sendrecv:ring"}}, &report)->algorithm, "");
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("names no collective")));
}

TEST(Settings, FirstSourceWins) {
  const std::vector<SettingSource> sources = {
      {.name = "environment", .variables = {{"ISTHMUS_HOSTID", "from the environment"}}},
      parse_conf("/etc/nccl.conf", "# comment\n ISTHMUS_HOSTID = file \nNCCL_DEBUG=WARN\r\nnonsense\n#NCCL_HOSTID=x\nNCCL_DEBUG=INFO\n")};
  SettingsReport report;
  auto settings = parse_settings(sources, &report);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->host_id, "from the environment");
  EXPECT_EQ(settings->debug, "WARN");
  EXPECT_EQ(row_of(report, "ISTHMUS_DEBUG").source, "/etc/nccl.conf (NCCL_DEBUG)");
  EXPECT_THAT(report.warnings, IsEmpty());
}

TEST(Settings, EnvironmentIsRead) {
  ASSERT_EQ(setenv("ISTHMUS_SIMD", "scalar", 1), 0);
  ASSERT_EQ(setenv("NCCL_CONF_FILE", "/nonexistent/file", 1), 0);
  SettingsReport report;
  auto settings = settings_from_environment(&report);
  unsetenv("ISTHMUS_SIMD");
  unsetenv("NCCL_CONF_FILE");
  ASSERT_TRUE(settings.ok()) << settings.status().text();
  EXPECT_EQ(settings->simd, "scalar");
  EXPECT_THAT(report.warnings, Contains(HasSubstr("/nonexistent/file")));
}

TEST(Settings, PageIsTheOneInDocs) {
  std::ostringstream page;
  page << std::ifstream(ISTHMUS_SOURCE_ROOT "/docs/settings.md").rdbuf();
  EXPECT_EQ(page.str(), settings_markdown()) << "write it anew: isthmus settings --markdown > docs/settings.md";
}

TEST(Settings, MarkdownListsEveryRow) {
  const std::string text = settings_markdown();
  for (const SettingDefinition& row : setting_definitions()) {
    EXPECT_THAT(text, HasSubstr("| `" + std::string(row.name) + "` |"));
    EXPECT_EQ(row.doc.find('|'), std::string_view::npos) << "would break the table";
  }
}

}  // namespace
}  // namespace isthmus
