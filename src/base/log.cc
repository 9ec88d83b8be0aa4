// SPDX-License-Identifier: Apache-2.0
// log.h: line format, levels and sinks. stdio does the writing, so our lines keep their order among the program's own and concurrent
// lines do not mix.
#include "base/log.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include "base/text.h"

namespace isthmus {
namespace {

struct SubsystemName {
  std::string_view name;
  uint32_t bits;
};

constexpr uint32_t bit(Subsystem about) { return static_cast<uint32_t>(about); }

constexpr std::array<SubsystemName, 19> kSubsystems = {{
    {"INIT", bit(Subsystem::init)},
    {"COLL", bit(Subsystem::coll)},
    {"P2P", bit(Subsystem::p2p)},
    {"SHM", bit(Subsystem::shm)},
    {"NET", bit(Subsystem::net)},
    {"GRAPH", bit(Subsystem::graph)},
    {"TUNING", bit(Subsystem::tuning)},
    {"ENV", bit(Subsystem::env)},
    {"ALLOC", bit(Subsystem::alloc)},
    {"CALL", bit(Subsystem::call)},
    {"BOOTSTRAP", bit(Subsystem::bootstrap)},
    {"REG", bit(Subsystem::reg)},
    {"PROFILE", bit(Subsystem::profile)},
    {"RAS", bit(Subsystem::ras)},
    {"DESTROY", bit(Subsystem::destroy)},
    {"ALL", ~uint32_t{0}},
    {"PROXY", 0},  // of NCCL, without a counterpart here
    {"NVLS", 0},
    {"ALLOC_HOST", 0},
}};

std::string short_hostname(std::string_view hostname) { return std::string(hostname.substr(0, hostname.find('.'))); }

Logger::Sink sink_to(std::FILE* file) {
  return [file](std::string_view lines) {
    std::fwrite(lines.data(), 1, lines.size(), file);
    std::fflush(file);
  };
}

Logger::Sink sink_to_owned(std::FILE* file) {
  const std::shared_ptr<std::FILE> owned(file, [](std::FILE* closing) { std::fclose(closing); });
  return [owned, write = sink_to(file)](std::string_view lines) { write(lines); };
}

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "[%Y-%m-%d %H:%M:%S] ", &local)};
}

}  // namespace

std::string expand_file_name(std::string_view pattern, std::string_view hostname, int pid) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      path += hostname;
    } else if (next == 'p') {
      path += std::to_string(pid);
    } else if (next == '%') {
      path += '%';
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

Result<LogLevel> parse_log_level(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, LogLevel>, 6> kLevels = {{{"NONE", LogLevel::none},
                                                                                    {"VERSION", LogLevel::version},
                                                                                    {"WARN", LogLevel::warn},
                                                                                    {"INFO", LogLevel::info},
                                                                                    {"ABORT", LogLevel::trace},
                                                                                    {"TRACE", LogLevel::trace}}};
  const std::string word = upper(text);
  for (const auto& [name, level] : kLevels)
    if (name == word) return level;
  return invalid_argument("NONE, VERSION, WARN, INFO or TRACE is accepted");
}

Result<uint32_t> parse_subsystems(std::string_view text) {
  if (trim(text).empty()) return kDefaultSubsystems;
  const bool inverted = trim(text).front() == '^';
  uint32_t chosen = 0;
  for (const std::string_view word : split(inverted ? trim(text).substr(1) : text, ',')) {
    const std::string name = upper(word);
    const auto* found = std::find_if(kSubsystems.begin(), kSubsystems.end(), [&](const SubsystemName& row) { return row.name == name; });
    if (found == kSubsystems.end()) {
      return invalid_argument(
          fmt::format("'{}' is no subsystem; a list of INIT, COLL, NET, ... or ALL is accepted, ^ in front inverts", word));
    }
    chosen |= found->bits;
  }
  return inverted ? ~chosen : chosen;
}

Logger Logger::from_settings(const Settings& settings, std::string_view hostname, int pid) {
  const bool asked = !settings.debug.empty();
  Options options{.hostname = short_hostname(hostname), .pid = pid, .timestamps = true};
  if (auto level = parse_log_level(settings.debug); level.ok()) options.level = *level;
  if (auto subsystems = parse_subsystems(settings.debug_subsys); subsystems.ok()) options.subsystems = *subsystems;
  options.sink = sink_to(asked ? stdout : stderr);
  if (!asked || settings.debug_file.empty()) return Logger(std::move(options));

  const std::string path = expand_file_name(settings.debug_file, options.hostname, pid);
  if (std::FILE* file = std::fopen(path.c_str(), "we"); file != nullptr) {
    options.sink = sink_to_owned(file);
    return Logger(std::move(options));
  }
  const Status why = errno_error(path, errno);
  Logger logger(std::move(options));
  logger.warn("the log file cannot be opened, logging to stdout instead: {}", why.text());
  return logger;
}

void Logger::version(std::string_view text) const {
  if (options_.level >= LogLevel::version && options_.sink) options_.sink(fmt::format("{}\n", text));
}

void Logger::write(LogLevel level, std::string_view text) const {
  if (!options_.sink) return;
  const std::string who = fmt::format("{}:{}:{} [{}]", options_.hostname, options_.pid, gettid(), options_.device);
  switch (level) {
    case LogLevel::warn:
      options_.sink(fmt::format("\n{}{} NCCL WARN ISTHMUS {}\n", options_.timestamps ? timestamp() : "", who, text));
      break;
    case LogLevel::trace:
      options_.sink(fmt::format("{} NCCL TRACE ISTHMUS {}\n", who, text));
      break;
    default:
      options_.sink(fmt::format("{} NCCL INFO ISTHMUS {}\n", who, text));
      break;
  }
}

}  // namespace isthmus
