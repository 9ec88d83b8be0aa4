// SPDX-License-Identifier: Apache-2.0
// The *_perf programs as users run them: alone, with threads, under `isthmus run`; what they print, and that they fail when they
// must. Usage: test_sweeps ISTHMUS DIRECTORY, the latter holding the programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/proc/job.h"

namespace {

using isthmus::proc::Ended;
using isthmus::proc::run_program;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr const char* kPrograms[] = {"all_reduce_perf", "reduce_scatter_perf", "all_gather_perf", "broadcast_perf",
                                     "reduce_perf",     "alltoall_perf",       "sendrecv_perf"};

std::string g_isthmus, g_directory;  // set once by main

/// The words that run a sweep; `options` is split at blanks.
Words sweep(const std::string& program, const std::string& options, Words before = {}) {
  before.push_back(g_directory + "/" + program);
  for (std::string_view word : isthmus::split(options, ' ')) before.emplace_back(word);
  return before;
}
Words launched(int ranks, const std::string& program, const std::string& options) {
  return sweep(program, options, {g_isthmus, "run", "-n", std::to_string(ranks), "--grace", "20", "--"});
}

/// Lines of the table's body.
size_t rows(const std::string& output) {
  size_t count = 0;
  for (std::string_view line : isthmus::split(output, '\n')) count += line.find_first_of("0123456789") == 0 ? 1U : 0U;
  return count;
}

/// Runs the words with -J, and gives the document; null if there is none.
nlohmann::json document_of(Words words, Ended& ended) {
  const std::string path = testing::TempDir() + "isthmus_sweeps_" + std::to_string(getpid()) + ".json";
  words.insert(words.end(), {"-J", path});
  ended = run_program(words);
  std::ifstream file(path);
  nlohmann::json document = nlohmann::json::parse(file, nullptr, false);
  unlink(path.c_str());
  return document;
}

TEST(Sweeps, EveryTypeOperatorAndRootInOneProcess) {
  for (const char* program : kPrograms) {
    const Ended ended = run_program(sweep(program, "-g 3 -b 0 -e 3000 -i 1499 -n 1 -w 0 -d all -o all -r -1"));
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("# Out of bounds values : 0 OK"));
    EXPECT_THAT(ended.output, HasSubstr(std::string("# Collective test concluded: ") + program));
    EXPECT_GE(rows(ended.output), 3U * 12);
  }
}

TEST(Sweeps, ThreadsStreamsGroupsAndOddAddresses) {
  for (const char* program : kPrograms) {
    for (const char* how :
         {"-t 2 -g 2", "-t 2 -p 1", "-g 2 -y 0", "-g 2 -m 3", "-g 2 -z 1 -u 3", "-g 2 -R 1 --host-buffers malloc --reuse-buffers"}) {
      const Ended ended = run_program(sweep(program, std::string(how) + " -b 1000 -e 100000 -f 10 -n 2 -c 2 -o avg"));
      EXPECT_EQ(ended.exit_code, 0) << program << " " << how << "\n" << ended.output;
      EXPECT_EQ(rows(ended.output), 3U) << ended.output;
    }
  }
}

TEST(Sweeps, SeveralProcesses) {
  for (const char* program : kPrograms) {
    const Ended ended = run_program(launched(3, program, "-b 8 -e 100K -f 16 -n 2 -d all"));
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("# Processes: 3 (isthmus run) on 1 host\n"));
    EXPECT_EQ(rows(ended.output), 4U * 12) << ended.output;
  }
}

TEST(Sweeps, OneWrongElementIsFoundAndFails) {
  for (const char* program : kPrograms) {
    const Ended ended = run_program(sweep(program, "-g 2 -b 4K -e 4K -n 1 --inject-wrong"));
    EXPECT_EQ(ended.exit_code, 7) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("# Out of bounds values : 1 FAILED"));
  }
  EXPECT_EQ(run_program(launched(2, "all_reduce_perf", "-b 4K -e 4K -n 1 --inject-wrong")).exit_code, 7);
}

TEST(Sweeps, BandwidthBelowTheLimitFails) {
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "-g 2 -b 4K -e 4K", {"/usr/bin/env", "NCCL_TESTS_MIN_BW=1e9"})).exit_code, 7);
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "-g 2 -b 4K -e 4K", {"/usr/bin/env", "NCCL_TESTS_MIN_BW=1e-9"})).exit_code, 0);
}

TEST(Sweeps, MistakesHaveTheirExitCodes) {
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "--no-such-option")).exit_code, 255);
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "-b 10Q")).exit_code, 255);
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "-G 1")).exit_code, 5);
  EXPECT_EQ(run_program(sweep("reduce_perf", "-r 3 -g 2 -b 8 -e 8")).exit_code, 6);
  EXPECT_EQ(run_program(sweep("all_reduce_perf", "--help")).exit_code, 0);
  EXPECT_THAT(run_program(sweep("all_reduce_perf", "--help")).output, HasSubstr("6 the\nprocesses or ranks do not fit"));
  const Ended differing = run_program(
      {g_isthmus, "run", "-n", "2", "--", "sh", "-c", "exec " + g_directory + "/all_reduce_perf -b 8 -e 8 -n $((ISTHMUS_RUN_RANK + 1))"});
  EXPECT_EQ(differing.exit_code, 6);
  EXPECT_THAT(differing.output, HasSubstr("process 1 was started with other arguments"));
}

TEST(Sweeps, OneRankOfAJobSaysWhatIsWrongWithTheCommandLine) {
  const Ended ended = run_program(launched(3, "all_reduce_perf", "--no-such-option"));
  EXPECT_EQ(ended.exit_code, 255);
  const size_t first = ended.output.find("--no-such-option");
  EXPECT_NE(first, std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find("--no-such-option", first + 1), std::string::npos) << ended.output;
}

TEST(Sweeps, WhatTheLibrarySaysIsNotPrecededByWhereToLookForIt) {
  const Ended ended = run_program(sweep("all_reduce_perf", "-g 2 -b 8 -e 8", {"/usr/bin/env", "ISTHMUS_PEER_TIMEOUT=soon"}));
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.output, HasSubstr("soon"));
  EXPECT_THAT(ended.output, Not(HasSubstr("run with NCCL_DEBUG")));
}

TEST(Sweeps, FailsWhereItsOutputDoesNotFit) {
  for (const char* words : {"--help", "-g 2 -b 8 -e 8 -n 1"}) {
    const Ended ended =
        run_program({"/bin/sh", "-c", "\"$0\" " + std::string(words) + " 2>&1 >/dev/full", g_directory + "/all_reduce_perf"});
    EXPECT_EQ(ended.exit_code, 1) << words;
    EXPECT_THAT(ended.output, HasSubstr("standard output could not be written")) << words;
  }
}

TEST(Sweeps, JsonHoldsEveryRow) {
  Ended ended;
  const nlohmann::json document = document_of(launched(2, "all_gather_perf", "-b 64 -e 4K -f 8 -n 5 -I 1 -K 1"), ended);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["config"]["devices"].size(), 2U);
  EXPECT_EQ(document["results"].size(), 3U);
  for (const auto& row : document["results"]) {
    EXPECT_EQ(row["in_place_per_iter"]["times_us"].size(), 4U);
    EXPECT_EQ(row["in_place_per_iter"]["per_process_max_times_us"].size(), 2U);
    EXPECT_GT(row["out_of_place"]["cpu_us_per_op"], 0);
  }
}

/// A small sweep with a codec over all that it serves.
void expect_all_served(const char* program, const std::string& how, const std::string& codec) {
  const Ended ended = run_program(sweep(program, how + " -b 0 -e 60000 -i 29999 -n 2 -w 1 -c 2 -d all -o all --codec " + codec));
  EXPECT_EQ(ended.exit_code, 0) << program << " " << codec << " " << how << "\n" << ended.output;
  EXPECT_EQ(rows(ended.output), 3U * 3 * 3) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("# Note: of -d all, what codecs serve"));
}

TEST(Codecs, EveryTypeAndOperatorInOneProcess) {
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf"}) {
    for (const char* codec : {"thc:b=4", "thc:b=8", "thc:b=2,g=3", "bf16", "int8", "int4", "none"})
      expect_all_served(program, "-g 3", codec);
  }
}

TEST(Codecs, ThreadsStreamsGroupsAndOddAddresses) {
  for (const char* how :
       {"-g 2 -y 0", "-g 2 -m 3", "-g 2 -u 3 -z 1", "-t 2 -g 2 --data usual", "-t 2 -p 1 -R 1", "-g 2 --host-buffers malloc"}) {
    for (const char* program : {"all_reduce_perf", "reduce_scatter_perf"}) expect_all_served(program, how, "thc:b=4");
  }
}

TEST(Codecs, SeveralProcesses) {
  for (const int ranks : {2, 4}) {
    for (const char* program : {"all_reduce_perf", "reduce_scatter_perf"}) {
      for (const std::string codec : {"thc:b=4", "bf16"}) {
        Ended ended;
        const auto document = document_of(launched(ranks, program, "-b 1M -e 1M -n 3 --codec " + codec), ended);
        ASSERT_EQ(ended.exit_code, 0) << ended.output;
        EXPECT_THAT(ended.output, HasSubstr("# Codec: " + codec + "; elements: gaussian"));
        const auto& row = document["results"][0];
        EXPECT_THAT(row["codec"].get<std::string>(), testing::StartsWith(codec.substr(0, 3)));
        EXPECT_NE(row["codec_algorithm"], "");
        EXPECT_GT(row["nmse"], codec == "bf16" ? 1e-8 : 1e-4);
        EXPECT_LT(row["nmse"], codec == "bf16" ? 1e-4 : 0.05);
        // Of 32 bits an element, twice in an allreduce, to or from all others.
        const double exact = (std::string(program) == "all_reduce_perf" ? 2.0 : 1.0) * (ranks - 1) / ranks * (1 << 20);
        EXPECT_LT(row["wire_bytes"], exact * (codec == "bf16" ? 0.51 : 0.3));
        EXPECT_GT(row["wire_bytes"], exact * (codec == "bf16" ? 0.49 : 0.1));
        for (const char* half : {"out_of_place", "in_place"}) {
          EXPECT_EQ(row[half]["nwrong"], 0);
          EXPECT_GT(row[half]["exact_time"], 0);
          EXPECT_GT(row[half]["exact_bus_bw"], 0);
          EXPECT_DOUBLE_EQ(row[half]["speedup"], row[half]["exact_time"].get<double>() / row[half]["time"].get<double>());
        }
        // Out of place and in place: one before timing, the timed ones, and the verified one, which no exact call accompanies.
        ASSERT_EQ(document["calls"].size(), 2U);
        EXPECT_EQ(document["calls"][0]["calls"], 2 * (1 + 3));
        EXPECT_EQ(document["calls"][1]["calls"], 1 + 2 * (1 + 3 + 1));
        EXPECT_EQ(document["calls"][1]["coded"], true);
      }
    }
  }
}

TEST(Codecs, ExactCallsStayExactWhateverTheEnvironmentAsksFor) {
  Ended ended;
  const auto document = document_of(
      sweep("all_reduce_perf", "-g 2 -b 1M -e 1M -n 1 --codec none", {"/usr/bin/env", "ISTHMUS_COMPRESSION=int4 min=0"}), ended);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_TRUE(document["results"][0]["wire_bytes"].is_null());
  EXPECT_LT(document["results"][0]["nmse"], 1e-12);
}

TEST(Codecs, ExactCallsMayBeLeftOut) {
  Ended ended;
  const auto document = document_of(sweep("all_reduce_perf", "-g 2 -b 64K -e 64K -n 2 --codec thc --no-exact"), ended);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("      N/A     N/A      N/A\n"));
  EXPECT_EQ(document["calls"].size(), 1U);
  EXPECT_FALSE(document["results"][0]["in_place"].contains("exact_time"));
}

TEST(Codecs, WhatIsWrongIsFoundAndSaid) {
  for (const char* program : {"all_reduce_perf", "reduce_scatter_perf"}) {
    const Ended ended = run_program(sweep(program, "-g 2 -b 64K -e 64K -n 1 --codec thc --inject-wrong"));
    EXPECT_EQ(ended.exit_code, 7) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("# Wrong: 65536 bytes of float, sum, out of place: nmse "));
    EXPECT_THAT(ended.output, HasSubstr(" FAILED"));
  }
  EXPECT_THAT(run_program(launched(2, "all_reduce_perf", "-b 64K -e 64K -n 1 --codec thc --inject-wrong")).output,
              HasSubstr("ranks ended with different bits"));
}

TEST(Codecs, MistakesAreRefused) {
  const auto expect = [](const Words& words, int exit_code, const char* text) {
    const Ended ended = run_program(words);
    EXPECT_EQ(ended.exit_code, exit_code) << ended.output;
    const size_t first = ended.output.find(text);
    EXPECT_NE(first, std::string::npos) << text << "\n" << ended.output;
    EXPECT_EQ(ended.output.find(text, first + 1), std::string::npos) << "one rank speaks\n" << ended.output;
  };
  expect(launched(2, "all_reduce_perf", "-b 8 -e 8 --codec zip"), 255, "'zip' is no codec");
  expect(launched(2, "all_reduce_perf", "-b 8 -e 8 --codec thc:b=5"), 255, "an index has 2, 3, 4 or 8 bits");
  expect(launched(2, "all_reduce_perf", "-b 8 -e 8 --codec thc --codec-algorithm zigzag"), 255, "'zigzag' is no algorithm");
  expect(sweep("all_reduce_perf", "-g 2 -b 8 -e 8 --codec thc:ef=on"), 255, "isthmusFeedback_t");
  expect(sweep("all_reduce_perf", "-b 8 -e 8 --codec thc"), 6, "one rank sends nothing");
  expect(sweep("all_gather_perf", "-g 2 -b 8 -e 8 --codec thc"), 255, "use all_reduce_perf or reduce_scatter_perf");
  expect(sweep("all_reduce_perf", "-g 2 -b 8 -e 8 --codec thc -d int8"), 255, "-d int8: codecs serve");
}

TEST(Sweeps, AWarmUpThatDoesNotEndIsGivenUp) {
  const Ended ended = run_program({g_isthmus, "run", "-n", "2", "--grace", "0.1", "--", g_directory + "/all_reduce_perf", "-b", "8", "-e",
                                   "8", "-w", "1000000000", "-T", "1"});
  EXPECT_EQ(ended.exit_code, 4) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("Test timeout (1s)"));
}

TEST(Sweeps, AMeasurementThatHangsIsGivenUp) {
  // Rank 1 stops itself once the sweep is under way; rank 0 waits until -T. On a busy machine the first stop may come during set-up,
  // which outlives it.
  const std::string rank_1 = "(for i in 1 2 3 4; do sleep 1; kill -STOP $$ || exit; sleep 6; kill -CONT $$ || exit; done) & ";
  const Ended ended =
      run_program({g_isthmus, "run", "-n", "2", "--grace", "0.1", "--", "sh", "-c",
                   "if [ $ISTHMUS_RUN_RANK = 1 ]; then " + rank_1 + "fi; exec " + g_directory + "/all_reduce_perf -b 8 -e 8 -N 0 -T 2"});
  EXPECT_EQ(ended.exit_code, 4) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("Test timeout (2s)"));
  EXPECT_LT(ended.seconds, 60);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;
  g_isthmus = argv[1];
  g_directory = argv[2];
  return RUN_ALL_TESTS();
}
