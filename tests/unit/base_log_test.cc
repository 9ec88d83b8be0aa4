// SPDX-License-Identifier: Apache-2.0
// log.h: NCCL's line format, levels, subsystems, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/log.h"

namespace isthmus {
namespace {

using ::testing::MatchesRegex;

struct Captured {
  std::string text;
  Logger logger;
  explicit Captured(LogLevel level, uint32_t subsystems = kDefaultSubsystems)
      : logger(
            {.level = level, .subsystems = subsystems, .hostname = "node7", .pid = 42, .device = 3, .sink = [this](std::string_view lines) {
               text += lines;
             }}) {}
};

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Log, LinesLookLikeNccls) {
  Captured at(LogLevel::trace);
  at.logger.info(Subsystem::init, "rank {} of {}", 1, 4);
  EXPECT_THAT(at.text, MatchesRegex("node7:42:[0-9]+ \\[3\\] NCCL INFO ISTHMUS rank 1 of 4\n"));
  at.text.clear();
  at.logger.warn("{}", "careful");
  EXPECT_THAT(at.text, MatchesRegex("\nnode7:42:[0-9]+ \\[3\\] NCCL WARN ISTHMUS careful\n"));
  at.text.clear();
  at.logger.trace(Subsystem::env, "detail");
  EXPECT_THAT(at.text, MatchesRegex("node7:42:[0-9]+ \\[3\\] NCCL TRACE ISTHMUS detail\n"));
  at.text.clear();
  at.logger.version("Isthmus 1");
  EXPECT_EQ(at.text, "Isthmus 1\n");
}

TEST(Log, LevelsAndSubsystemsFilter) {
  Captured warn(LogLevel::warn);
  warn.logger.info(Subsystem::init, "no");
  EXPECT_EQ(warn.text, "");
  Captured version(LogLevel::version);
  version.logger.warn("no");
  EXPECT_EQ(version.text, "");
  Captured info(LogLevel::info, static_cast<uint32_t>(Subsystem::net));
  info.logger.info(Subsystem::init, "no");
  info.logger.trace(Subsystem::net, "no");
  EXPECT_EQ(info.text, "");
  EXPECT_TRUE(info.logger.enabled(LogLevel::info, Subsystem::net));
  info.logger.warn("always");
  EXPECT_NE(info.text, "");
  Logger::silent().warn("nowhere");
}

TEST(Log, ParsesLevelsAndSubsystems) {
  EXPECT_EQ(parse_log_level("info").value(), LogLevel::info);
  EXPECT_EQ(parse_log_level("ABORT").value(), LogLevel::trace);
  EXPECT_FALSE(parse_log_level("").ok());
  const auto bits = [](auto... about) { return (static_cast<uint32_t>(about) | ...); };
  EXPECT_EQ(parse_subsystems("").value(), kDefaultSubsystems);
  EXPECT_EQ(parse_subsystems("init, NET").value(), bits(Subsystem::init, Subsystem::net));
  EXPECT_EQ(parse_subsystems("^COLL").value(), ~bits(Subsystem::coll));
  EXPECT_EQ(parse_subsystems("ALL").value(), ~uint32_t{0});
  EXPECT_EQ(parse_subsystems("NVLS,PROXY").value(), 0u) << "NCCL's own are accepted";
  EXPECT_FALSE(parse_subsystems("NOISE").ok());
}

TEST(Log, FileNamesAreExpanded) {
  const std::string folder = ::testing::TempDir();
  Settings settings;
  settings.debug = "INFO";
  settings.debug_file = folder + "/isthmus.%h.%p.%%.txt";
  {
    const Logger logger = Logger::from_settings(settings, "node7.example.org", getpid());
    logger.info(Subsystem::init, "hello");
  }
  const std::string path = folder + "/isthmus.node7." + std::to_string(getpid()) + ".%.txt";
  EXPECT_THAT(contents(path), MatchesRegex("node7:[0-9]+:[0-9]+ \\[0\\] NCCL INFO ISTHMUS hello\n"));
  unlink(path.c_str());
}

TEST(Log, UnopenableFileIsReportedOnStdout) {
  Settings settings;
  settings.debug = "WARN";
  settings.debug_file = "/nonexistent/folder/file";
  ::testing::internal::CaptureStdout();
  Logger::from_settings(settings, "node7", 1);
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(out, ::testing::HasSubstr("/nonexistent/folder/file"));
  EXPECT_THAT(out, MatchesRegex("\n\\[[-0-9]+ [:0-9]+\\] node7:1:(.|\n)*")) << "warnings carry the time";
}

TEST(Log, UnaskedWarningsGoToStderr) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Logger logger = Logger::from_settings(Settings{}, "node7", 1);
  logger.info(Subsystem::init, "no");
  logger.warn("yes");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("NCCL WARN ISTHMUS yes\n"));
}

TEST(Log, ConcurrentLinesDoNotMix) {
  const std::string path = ::testing::TempDir() + "/isthmus_log_threads_" + std::to_string(getpid());
  Settings settings;
  settings.debug = "INFO";
  settings.debug_file = path;
  {
    const Logger logger = Logger::from_settings(settings, "n", 1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&logger] {
        for (int i = 0; i < 200; ++i) logger.info(Subsystem::init, "{:>100}", "x");
      });
    for (std::thread& thread : threads) thread.join();
  }
  std::istringstream lines(contents(path));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(line.find("n:1:"), 0u);
    EXPECT_EQ(line.back(), 'x');
    EXPECT_EQ(std::count(line.begin(), line.end(), 'x'), 1);
  }
  EXPECT_EQ(count, 800);
  unlink(path.c_str());
}

TEST(Log, WorthLogging) {
  int logged = 0;
  for (uint64_t i = 1; i <= 1000; ++i) logged += worth_logging(i) ? 1 : 0;
  EXPECT_EQ(logged, 10);
}

}  // namespace
}  // namespace isthmus
