// SPDX-License-Identifier: Apache-2.0
// The sweeps' command line, statistics, table, JSON file and meetings of threads, without a library or a launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "sweep/accuracy.h"
#include "sweep/json_report.h"
#include "sweep/options.h"
#include "sweep/table.h"
#include "sweep/team.h"
#include "sweep/watchdog.h"

namespace sweep {
namespace {

using ::testing::HasSubstr;

Parsed parse(std::vector<const char*> words, bool with_codecs = true) {
  words.insert(words.begin(), "/some/where/all_reduce_perf");
  return parse_options("AllReduce", with_codecs, static_cast<int>(words.size()), words.data());
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const Parsed parsed = parse({});
  ASSERT_TRUE(parsed.options);
  const Options& o = *parsed.options;
  EXPECT_EQ(o.min_bytes, 32U << 20);
  EXPECT_EQ(o.max_bytes, 32U << 20);
  EXPECT_EQ(o.step_bytes, 1U << 20);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup_iterations, 1);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.average, Average::mean);
  EXPECT_EQ(o.types, std::vector{ncclFloat32});
  EXPECT_EQ(o.ops, std::vector{Op::sum});
}

TEST(Options, ShortAndLongNames) {
  const Parsed parsed =
      parse({"-g", "4", "-b8", "--maxbytes", "1.5K", "-f", "2", "-d", "all", "-o", "mulsum", "-r", "-1", "-g", "2", "-y", "0"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->ranks_per_thread, 2);  // the last one counts
  EXPECT_EQ(parsed.options->min_bytes, 8U);
  EXPECT_EQ(parsed.options->max_bytes, 1536U);
  EXPECT_EQ(parsed.options->next(8), 16U);
  EXPECT_EQ(parsed.options->types.size(), 12U);
  EXPECT_EQ(parsed.options->ops, std::vector{Op::mulsum});
  EXPECT_EQ(parsed.options->root, -1);
  EXPECT_FALSE(parsed.options->null_stream);
}

TEST(Options, RefusesWithTheRightCode) {
  struct Case {
    std::vector<const char*> words;
    int exit_code;
    const char* text;
  };
  const Case cases[] = {{{"-Q", "1"}, 255, "-Q"},
                        {{"--no-such-thing"}, 255, "--no-such-thing"},
                        {{"-b", "10Q"}, 255, "10Q"},
                        {{"-b", "-4"}, 255, "-4"},
                        {{"-b", "8", "-e", "4"}, 255, "larger"},
                        {{"-b", "0", "-f", "2"}, 255, "-b 0"},
                        {{"-i", "0", "-b", "0"}, 255, "-i 0"},
                        {{"-g", "0"}, 255, "--ngpus"},
                        {{"-o", "median"}, 255, "median"},
                        {{"-d", "quad"}, 255, "quad"},
                        {{"-K", "20"}, 255, "-K"},
                        {{"--percentiles", "-y", "0"}, 255, "--percentiles"},
                        {{"--inject-wrong", "-c", "0"}, 255, "--inject-wrong"},
                        {{"-G", "1"}, 5, "-G"},
                        {{"-D", "1"}, 5, "-D"},
                        {{"-R", "2"}, 5, "-R 2"}};
  for (const Case& c : cases) {
    const Parsed parsed = parse(c.words);
    EXPECT_FALSE(parsed.options) << c.words[0];
    EXPECT_EQ(parsed.exit_code, c.exit_code) << c.words[0];
    EXPECT_THAT(parsed.text, HasSubstr(c.text));
    EXPECT_THAT(parsed.text, HasSubstr("all_reduce_perf: "));
  }
}

TEST(Options, HelpIsNoFailureAndIgnoredOptionsAreSaid) {
  const Parsed help = parse({"--help"});
  EXPECT_FALSE(help.options);
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("--stepfactor"));
  const Parsed ignored = parse({"-x", "1"});
  ASSERT_TRUE(ignored.options);
  EXPECT_THAT(ignored.options->notes, testing::ElementsAre(HasSubstr("-x has no effect")));
}

TEST(Options, WithoutACodecThereIsNothingToChoose) {
  const Parsed plain = parse({});
  ASSERT_TRUE(plain.options);
  EXPECT_FALSE(plain.options->coded());
  EXPECT_EQ(plain.options->data, Data::usual);
  for (const std::vector<const char*>& words :
       {std::vector{"--codec-algorithm", "ring"}, std::vector{"--data", "gaussian"}, std::vector{"--no-exact"}}) {
    const Parsed parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, 255) << words[0];
    EXPECT_THAT(parsed.text, HasSubstr("add --codec")) << words[0];
  }
}

TEST(Options, CodecsAreForSumsOfFloats) {
  const Parsed all = parse({"--codec", "thc:b=4,p=1/32", "--codec-algorithm", "ring", "-d", "all", "-o", "all"});
  ASSERT_TRUE(all.options) << all.text;
  EXPECT_EQ(all.options->codec, "thc:b=4,p=1/32");
  EXPECT_EQ(all.options->codec_algorithm, "ring");
  EXPECT_EQ(all.options->data, Data::gaussian);
  EXPECT_EQ(all.options->types, (std::vector{ncclFloat16, ncclFloat32, ncclBfloat16}));
  EXPECT_EQ(all.options->ops, (std::vector{Op::sum, Op::avg, Op::mulsum}));
  EXPECT_THAT(all.options->notes, testing::ElementsAre(HasSubstr("-d all"), HasSubstr("-o all")));
  EXPECT_EQ(parse({"--codec", "int8", "--data", "usual"}).options->data, Data::usual);

  struct Case {
    std::vector<const char*> words;
    const char* text;
    bool with_codecs = true;
  };
  const Case cases[] = {{{"--codec", "bf16", "-d", "int32"}, "-d int32: codecs serve"},
                        {{"--codec", "bf16", "-o", "max"}, "-o max: codecs serve"},
                        {{"--codec", " "}, "name one"},
                        {{"--codec", "bf16", "--data", "random"}, "--data"},
                        {{"--codec", "bf16"}, "reduce_scatter_perf", false}};
  for (const Case& c : cases) {
    const Parsed parsed = parse(c.words, c.with_codecs);
    EXPECT_FALSE(parsed.options) << c.text;
    EXPECT_EQ(parsed.exit_code, 255) << c.text;
    EXPECT_THAT(parsed.text, HasSubstr(c.text));
  }
}

TEST(Statistics, PercentilesAreTimesThatOccurred) {
  std::vector<double> times;
  for (int at = 100; at >= 1; --at) times.push_back(at);
  const IterationStats stats = statistics(times);
  EXPECT_EQ(stats.min, 1);
  EXPECT_EQ(stats.p50, 50);
  EXPECT_EQ(stats.p95, 95);
  EXPECT_EQ(stats.p99, 99);
  EXPECT_EQ(stats.max, 100);
  EXPECT_DOUBLE_EQ(stats.mean, 50.5);
  EXPECT_NEAR(stats.deviation, 28.866, 1e-3);
  const double one[] = {4};
  EXPECT_EQ(statistics(one).p99, 4);
  EXPECT_EQ(statistics(one).deviation, 0);
}

TEST(Table, NumbersKeepTheirWidth) {
  EXPECT_EQ(fixed_width(1.234, 7), "   1.23");
  EXPECT_EQ(fixed_width(1234.56, 7), "1234.56");
  EXPECT_EQ(fixed_width(12345.67, 7), "12345.7");
  EXPECT_EQ(fixed_width(1234567, 7), "1234567");
  EXPECT_EQ(fixed_width(12345678, 7), "1.2e+07");
  EXPECT_EQ(fixed_width(123.456, 6), "123.46");
  EXPECT_EQ(fixed_width(1234.56, 6), "1234.6");
  EXPECT_EQ(fixed_width(0, 6), "  0.00");
}

/// What a table wrote.
template <typename Write>
std::string written(const Options& options, Write write) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Table table(options, "all_reduce_perf", file);
  write(table);
  std::fclose(file);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Table, RowsHaveNcclTestsColumns) {
  const Options options;
  const Measurement half = {.time_s = 12.5e-6, .algbw = 1.5, .busbw = 2.25, .wrong = 3.0};
  const std::string row = written(options, [&](Table& table) {
    table.begin({.bytes = 1048576, .count = 262144, .type = "float", .op = "sum", .root = -1});
    table.half(&half);
    table.half(nullptr);
    table.end();
  });
  EXPECT_EQ(row,
            "     1048576        262144     float     sum      -1    12.50    1.50    2.25       3      N/A     N/A     N/A     N/A\n");
}

Measurement coded_half(double time_s) {
  Measurement half = {.time_s = time_s, .algbw = 1.5, .busbw = 2.25, .wrong = 0.0};
  half.coded = {.codec = "thc",
                .algorithm = "direct",
                .predicted = 0.02,
                .wire_bytes = 1234567,
                .nmse = 0.0152,
                .nmse_bound = 0.03,
                .exact_time_s = 50e-6,
                .exact_algbw = 0.5,
                .exact_busbw = 0.75,
                .exact_seconds = {50e-6}};
  return half;
}

TEST(Table, ColumnsOfACodecComeAfterNcclTests) {
  Options options;
  options.codec = "thc";
  const Measurement out_of_place = coded_half(12.5e-6), in_place = coded_half(25e-6);
  const std::string text = written(options, [&](Table& table) {
    table.columns();
    table.begin({.bytes = 1048576, .count = 262144, .type = "float", .op = "sum", .root = -1});
    table.half(&out_of_place);
    table.half(&in_place);
    table.end();
  });
  EXPECT_THAT(
      text, HasSubstr("\n     1048576        262144     float     sum      -1    12.50    1.50    2.25       0    25.00    1.50    2.25   "
                      "    0      1234567  1.52e-02    50.00    0.75     4.00  1.52e-02    50.00    0.75     2.00\n"));
  EXPECT_THAT(text, HasSubstr("         wire      nmse    exact   busbw  speedup      nmse    exact   busbw  speedup\n"));
  const size_t names = text.find("#       size"), row = text.find("     1048576");
  EXPECT_EQ(text.find('\n', names) - names, text.find('\n', row) - row) << text;
}

TEST(Table, WhatIsWrongIsSaid) {
  const Options options;
  EXPECT_THAT(written(options, [](Table& table) { table.footer({.wrong = 1, .faults = {"8 bytes: broken"}}, {}, ""); }),
              HasSubstr("# Wrong: 8 bytes: broken\n# Out of bounds values : 1 FAILED\n"));
}

TEST(Table, FooterSaysOkOrFailed) {
  const Options options;
  EXPECT_THAT(written(options, [](Table& table) { table.footer({.wrong = 0, .average_busbw = 1.5}, {}, ""); }),
              HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n"));
  EXPECT_THAT(written(options, [](Table& table) { table.footer({.wrong = 2, .average_busbw = 1, .min_busbw = 2}, {}, "broken"); }),
              HasSubstr("# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 1 FAILED\n#\n# Collective test concluded: "
                        "all_reduce_perf\n# error: broken\n"));
}

TEST(Table, HeaderLinesFitTheColumns) {
  Options options;
  options.per_iteration = options.percentiles = options.cpu_per_op = options.timestamps = true;
  const std::string text = written(options, [](Table& table) { table.columns(); });
  EXPECT_THAT(text, HasSubstr("i_min    i_max    i_p99    i_cv%      p50      p95      p99      cpu"));
}

Origin of_thc(uint64_t elements = 1 << 20) { return {.codec = "thc", .predicted = 0.02, .ranks = 4, .elements = elements}; }

TEST(Accuracy, ThePredictionIsTheMeasure) {
  EXPECT_NEAR(nmse_bound(of_thc()), 0.03, 0.002);
  EXPECT_GT(nmse_bound(of_thc(4096)), nmse_bound(of_thc()));
  EXPECT_EQ(nmse_bound(of_thc(100)), HUGE_VAL) << "chance";
  Origin louder = of_thc();
  louder.op = Op::mulsum;  // 1, 2, 1, 2: the loudest rank's square is 4, the mean square 2.5
  EXPECT_NEAR(nmse_bound(louder) / nmse_bound(of_thc()), 1.6, 1e-6);
}

TEST(Accuracy, CodecsThatPredictNothingHaveFixedBounds) {
  const auto bound = [](std::string_view codec, ncclDataType_t type = ncclFloat32) {
    return nmse_bound({.codec = codec, .predicted = NAN, .type = type, .ranks = 2, .elements = 1 << 20});
  };
  EXPECT_LT(bound("none"), bound("bf16"));
  EXPECT_LT(bound("bf16"), bound("int8"));
  EXPECT_LT(bound("int8"), bound("int4"));
  EXPECT_LT(bound("int4"), 1);
  EXPECT_GT(bound("none"), 0) << "the type itself rounds";
  EXPECT_GT(bound("none", ncclBfloat16), bound("none", ncclFloat16));
  EXPECT_EQ(bound("of tomorrow"), HUGE_VAL);
}

TEST(Accuracy, WhatIsAmissIsFound) {
  EXPECT_THAT(faults({.nmse = 0.03, .bound = 0.03}), testing::IsEmpty());
  EXPECT_THAT(faults({.nmse = 0.031, .bound = 0.03}), testing::ElementsAre(HasSubstr("nmse 0.031 is above 0.03")));
  EXPECT_THAT(faults({.nmse = NAN, .bound = HUGE_VAL}), testing::ElementsAre(HasSubstr("nmse nan")));
  EXPECT_THAT(faults({.nmse = 0, .bound = 1, .alike = false}), testing::ElementsAre(HasSubstr("different bits")));
  EXPECT_THAT(faults({.nmse = 2, .bound = 1, .alike = false, .touched = 3}), testing::SizeIs(3));
}

TEST(Accuracy, FingerprintsDiffer) {
  std::vector<std::byte> bytes(1001, std::byte{7});
  const double whole = fingerprint(bytes);
  EXPECT_EQ(whole, fingerprint(std::vector<std::byte>(bytes)));
  for (const size_t at : {size_t{0}, size_t{500}, size_t{1000}}) {
    std::vector<std::byte> other = bytes;
    other[at] ^= std::byte{1};
    EXPECT_NE(fingerprint(other), whole) << at;
  }
  EXPECT_NE(fingerprint(std::span(bytes).first(1000)), whole);
}

class JsonFile : public testing::Test {
 protected:
  JsonFile() : directory_(testing::TempDir() + "isthmus_json_" + std::to_string(getpid())) { mkdir(directory_.c_str(), 0700); }
  ~JsonFile() override {
    for (const char* name : {"/x.json", "/x.json.0"}) unlink((directory_ + name).c_str());
    rmdir(directory_.c_str());
  }
  std::string directory_;
};

TEST_F(JsonFile, HoldsTheSweepAndNeverOverwrites) {
  Options options;
  options.json_file = directory_ + "/x.json";
  options.per_iteration = true;
  std::ofstream(options.json_file) << "precious";
  const char* argv[] = {"all_reduce_perf", "-J", "x.json"};
  JsonReport report(options, 3, argv, {"NCCL_DEBUG=INFO"});
  report.config(22809, {"Streams: NULL"}, {{.rank = 0, .pid = 12, .host = "h", .slot = "0000:00:00", .cpu = "c"}});
  report.begin({.bytes = 8, .count = 2, .type = "float", .op = "sum", .root = -1});
  const Measurement half = {
      .time_s = 2e-6, .algbw = 1, .busbw = 1, .wrong = 0.0, .cpu_s = 1e-6, .iterations = {1e-6, 3e-6}, .slices = {{}}};
  report.half(false, &half);
  report.half(true, nullptr);
  report.end();
  report.footer({.average_busbw = 1});
  report.finish("");

  std::string precious;
  std::ifstream(options.json_file) >> precious;
  EXPECT_EQ(precious, "precious");
  std::ifstream file(options.json_file + ".0");
  const nlohmann::json document = nlohmann::json::parse(file);
  EXPECT_EQ(document["version"], 3);
  EXPECT_EQ(document["args"].size(), 3U);
  EXPECT_EQ(document["config"]["devices"][0]["pid"], 12);
  const auto& row = document["results"][0];
  EXPECT_EQ(row["root"], "    -1");
  EXPECT_DOUBLE_EQ(row["out_of_place"]["time"], 2);
  EXPECT_EQ(row["out_of_place"]["nwrong"], 0);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["cpu_us_per_op"], 1);
  EXPECT_DOUBLE_EQ(row["out_of_place_per_iter"]["max_us"], 3);
  EXPECT_TRUE(row["in_place"].is_null());
  EXPECT_EQ(document["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(document["average_bus_bandwidth"]["okay"], "unchecked");
  EXPECT_TRUE(document.contains("end_time"));
}

TEST_F(JsonFile, HoldsWhatACodecCosts) {
  Options options;
  options.json_file = directory_ + "/x.json";
  options.codec = "thc";
  const char* argv[] = {"all_reduce_perf"};
  JsonReport report(options, 1, argv, {});
  report.config(22809, {}, {});
  report.begin({.bytes = 8, .count = 2, .type = "float", .op = "sum", .root = -1});
  Measurement first = coded_half(12.5e-6), second = coded_half(25e-6);
  first.coded->nmse = 0.016;
  second.coded->nmse_bound = HUGE_VAL;
  report.half(false, &first);
  report.half(true, &second);
  report.end();
  report.footer({.calls = {{.type = "float", .bytes = 8, .coded = true, .calls = 7}}, .faults = {"broken"}});
  report.finish("");

  std::ifstream file(options.json_file);
  const nlohmann::json document = nlohmann::json::parse(file);
  const auto& row = document["results"][0];
  EXPECT_EQ(document["config"]["codec"], "thc");
  EXPECT_EQ(row["codec"], "thc");
  EXPECT_EQ(row["codec_algorithm"], "direct");
  EXPECT_DOUBLE_EQ(row["nmse"], 0.016) << "the worse half's";
  EXPECT_EQ(row["wire_bytes"], 1234567);
  EXPECT_DOUBLE_EQ(row["in_place"]["nmse"], 0.0152);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["nmse_bound"], 0.03);
  EXPECT_TRUE(row["in_place"]["nmse_bound"].is_null()) << "there is no infinity in JSON";
  EXPECT_DOUBLE_EQ(row["out_of_place"]["exact_time"], 50);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["exact_p50_us"], 50);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["exact_bus_bw"], 0.75);
  EXPECT_DOUBLE_EQ(row["in_place"]["speedup"], 2);
  EXPECT_EQ(document["calls"][0]["calls"], 7);
  EXPECT_EQ(document["calls"][0]["coded"], true);
  EXPECT_EQ(document["faults"][0], "broken");
}

TEST(Team, ThreadsCombineAndMeet) {
  const auto oob = connect_oob({});
  constexpr int kThreads = 4;
  Team team(*oob, kThreads);
  std::atomic<int> wrong = 0;
  const auto member = [&](int number) {
    for (int round = 0; round < 200; ++round) {
      wrong += team.reduce(number + round, Combine::sum) != 6 + 4 * round ? 1 : 0;
      wrong += team.reduce(number, Combine::min) != 0 ? 1 : 0;
      const double values[] = {static_cast<double>(number), static_cast<double>(-number)};
      wrong += team.gather(values, Combine::max) != std::vector<double>{3, 0} ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int number = 0; number < kThreads; ++number) threads.emplace_back(member, number);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Watchdog, ExpiresOnlyWhenNotDisarmed) {
  std::atomic<bool> expired = false;
  Watchdog watchdog(1, [&] { expired = true; });
  watchdog.arm();
  watchdog.disarm();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(expired);
  watchdog.arm();
  for (int at = 0; at < 100 && !expired; ++at) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(expired);
}

}  // namespace
}  // namespace sweep
