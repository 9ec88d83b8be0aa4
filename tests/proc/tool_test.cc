// SPDX-License-Identifier: Apache-2.0
// What `isthmus settings`, `algorithms` and `plan show` print, and how they refuse. Usage: test_tool ISTHMUS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/proc/job.h"

namespace {

using isthmus::proc::Ended;
using isthmus::proc::run_program;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

std::string g_isthmus;  // set once by main

Ended tool(std::vector<std::string> words) {
  words.insert(words.begin(), g_isthmus);
  return run_program(std::move(words));
}

TEST(Tool, SettingsAsTextAndJson) {
  const Ended text = tool({"settings"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.output, HasSubstr("ISTHMUS_PEER_TIMEOUT = 60s"));
  const Ended json = tool({"settings", "--json"});
  const nlohmann::json document = nlohmann::json::parse(json.output, nullptr, false);
  ASSERT_TRUE(document.is_object()) << json.output;
  EXPECT_EQ(document["settings"][0]["source"], "default");
}

TEST(Tool, SettingsRefusesABadValueByItsName) {
  const Ended ended = run_program({"/usr/bin/env", "ISTHMUS_PEER_TIMEOUT=soon", g_isthmus, "settings"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("ISTHMUS_PEER_TIMEOUT"));
  EXPECT_THAT(ended.output, HasSubstr("soon"));
}

TEST(Tool, AlgorithmsAsTableAndJson) {
  const std::string table = tool({"algorithms"}).output;
  EXPECT_THAT(table, ContainsRegex("allreduce +ring +"));
  EXPECT_THAT(table, Not(HasSubstr("|")));
  EXPECT_THAT(tool({"algorithms", "--markdown"}).output, HasSubstr("| allreduce | ring |"));
  const nlohmann::json rows = nlohmann::json::parse(tool({"algorithms", "--json"}).output, nullptr, false);
  ASSERT_TRUE(rows.is_array());
  EXPECT_EQ(rows[0]["collective"], "allreduce");
  EXPECT_TRUE(rows[0]["coding"].is_null());
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row["name"] == "ring" && row["coding"] == "sums"; }), 2);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row["coding"] == "decoding"; }));
}

TEST(Tool, ShowsPlans) {
  const Ended all = tool({"plan", "show", "allreduce:ring", "-n", "3"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, HasSubstr("allreduce/ring rank 2 of 3"));
  EXPECT_THAT(all.output, HasSubstr("recv_reduce"));
  const Ended one = tool({"plan", "show", "chain", "-n", "3", "--rank", "1", "--root", "2"});
  EXPECT_EQ(one.exit_code, 2) << "chain is an algorithm of broadcast and of reduce";
  const Ended coded = tool({"plan", "show", "allreduce:hierarchy", "-n", "4", "--codec", "thc:b=8", "--sites", "2", "--rank", "3"});
  EXPECT_EQ(coded.exit_code, 0) << coded.output;
  EXPECT_THAT(coded.output, HasSubstr("accumulate"));
  EXPECT_THAT(coded.output, HasSubstr("level 1"));
  const Ended exact = tool({"plan", "show", "allreduce:hierarchy", "-n", "8", "--sites", "2", "--rank", "5"});
  EXPECT_EQ(exact.exit_code, 0) << exact.output;
  EXPECT_THAT(exact.output, HasSubstr("recv_reduce from   1 out[1..2) = out[1..2) sum message  #0  slot 3"));
  EXPECT_THAT(exact.output, HasSubstr("level 1"));
  const Ended ring = tool({"plan", "show", "allreduce:hierarchy", "-n", "6", "--sites", "3", "--across", "ring", "--rank", "5"});
  EXPECT_EQ(ring.exit_code, 0) << ring.output;
  EXPECT_THAT(ring.output, HasSubstr("to     1 "));
  EXPECT_THAT(ring.output, Not(HasSubstr("to     3 "))) << "the site before";
  const Ended flat = tool({"plan", "show", "allreduce:ring", "--across", "ring"});
  EXPECT_EQ(flat.exit_code, 2);
  EXPECT_THAT(flat.output, HasSubstr("--across ring: allreduce ring does not run so"));
  EXPECT_THAT(tool({"plan", "show", "allreduce:hierarchy", "--across", "star"}).output, HasSubstr("no way across sites; there are direct"));
  const Ended no_codec = tool({"plan", "show", "two_shot", "--codec", "thc"});
  EXPECT_EQ(no_codec.exit_code, 2);
  EXPECT_THAT(no_codec.output, HasSubstr("needs a codec whose encodings have their own scales, but codec thc is asked for"));
  const Ended dot = tool({"plan", "show", "broadcast:chain", "-n", "3", "--root", "2", "--format", "dot"});
  EXPECT_THAT(dot.output, HasSubstr("digraph"));
  const Ended trace = tool({"plan", "show", "reduce_scatter:ring", "-n", "3", "--format", "trace", "--bytes", "3M"});
  EXPECT_TRUE(nlohmann::json::accept(trace.output)) << trace.output;
}

TEST(Tool, NamesAWrongCommandAndThoseThatThereAre) {
  struct Case {
    std::vector<std::string> words;
    std::string said;
  };
  for (const Case& one :
       {Case{{"nonsense"}, "there is no command 'isthmus nonsense'; known are: run, settings, algorithms, plan"},
        Case{{"rnu", "-n", "2"}, "no command 'isthmus rnu'; did you mean 'run'?"}, Case{{"--bogus"}, "no option '--bogus'"},
        Case{{}, "'isthmus' needs a command; known are: run,"}, Case{{"plan"}, "'isthmus plan' needs a command; known are: make, show;"},
        Case{{"plan", "shwo"}, "no command 'isthmus plan shwo'; did you mean 'show'?"},
        Case{{"help", "setings"}, "did you mean 'settings'?"}, Case{{"plan", "show", "allreduce:rnig"}, "but there is 'allreduce:ring'"}}) {
    const Ended ended = tool(one.words);
    EXPECT_EQ(ended.exit_code, 2) << one.said;
    EXPECT_THAT(ended.output, HasSubstr(one.said));
    EXPECT_THAT(ended.output, Not(HasSubstr("run-node")));
  }
}

TEST(Tool, HelpAndVersionAreCommandsToo) {
  EXPECT_EQ(tool({"help"}).output, tool({"--help"}).output);
  EXPECT_THAT(tool({"help"}).output, HasSubstr("algorithms"));
  EXPECT_EQ(tool({"help", "plan", "show"}).output, tool({"plan", "show", "--help"}).output);
  EXPECT_THAT(tool({"help", "plan", "show"}).output, HasSubstr("--segments"));
  EXPECT_THAT(tool({"version"}).output, StartsWith("isthmus "));
  EXPECT_EQ(tool({"version"}).output, tool({"--version"}).output);
  for (const char* word : {"help", "version", "--help", "-h"}) EXPECT_EQ(tool({word}).exit_code, 0) << word;
}

TEST(Tool, FailsWhereItsOutputDoesNotFit) {
  for (const std::string& words : Words{"settings", "settings --json", "algorithms", "plan show allreduce:ring", "--help", "version",
                                        "help run", "run -n 2 -- echo one", "run -n 2 --tag -- echo one"}) {
    const Ended ended = run_program({"/bin/sh", "-c", "\"$0\" " + words + " 2>&1 >/dev/full", g_isthmus});
    // a rank without --tag writes for itself; echo says so
    EXPECT_EQ(ended.exit_code, 1) << words << ": " << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(words.find("-- echo") == std::string::npos ? "No space left" : "write")) << words;
  }
}

TEST(Tool, RefusesWhatDoesNotExist) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"settings", "--yaml"},
                                             {"plan", "show", "allreduce:magic"},
                                             {"plan", "show", "allreduce:ring", "-n", "0"},
                                             {"plan", "show", "allreduce:ring", "-n", "2", "--rank", "2"},
                                             {"plan", "show", "broadcast:chain", "--root", "2"}}) {
    EXPECT_EQ(tool(words).exit_code, 2) << (words.empty() ? "" : words.back());
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  g_isthmus = argv[1];
  return RUN_ALL_TESTS();
}
