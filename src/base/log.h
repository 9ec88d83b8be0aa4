// SPDX-License-Identifier: Apache-2.0
// Log lines in NCCL's format, so that scripts which read NCCL's logs read ours:
//   host:pid:tid [dev] NCCL INFO ISTHMUS text
// One Logger per Process, handed down by reference; there is no global one. Any thread may log. Nothing here fails: a log file that
// cannot be opened is reported on the replacement. A line that is switched off costs one comparison, and its text is not made.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/settings.h"
#include "base/status.h"

namespace isthmus {

/// NCCL_DEBUG. Each level includes those before it.
enum class LogLevel : uint8_t { none, version, warn, info, trace };
/// "VERSION", "WARN", "INFO", "TRACE" or "NONE" in any case; "ABORT" is NCCL's spelling of the most.
Result<LogLevel> parse_log_level(std::string_view text);

/// NCCL_DEBUG_SUBSYS: what INFO and TRACE lines are about, one bit each, numbered as in NCCL.
enum class Subsystem : uint32_t {
  init = 1 << 0,
  coll = 1 << 1,
  p2p = 1 << 2,
  shm = 1 << 3,
  net = 1 << 4,
  graph = 1 << 5,
  tuning = 1 << 6,
  env = 1 << 7,
  alloc = 1 << 8,
  call = 1 << 9,
  bootstrap = 1 << 12,
  reg = 1 << 13,
  profile = 1 << 14,
  ras = 1 << 15,
  destroy = 1 << 16,
};
inline constexpr uint32_t kDefaultSubsystems =
    static_cast<uint32_t>(Subsystem::init) | static_cast<uint32_t>(Subsystem::bootstrap) | static_cast<uint32_t>(Subsystem::env);
/// "INIT,NET", "ALL", "^COLL" (all but); NCCL's names without meaning here are accepted. "" gives the default.
Result<uint32_t> parse_subsystems(std::string_view text);

class Logger {
 public:
  /// Takes whole texts, each one or more lines with their line ends, from any thread.
  using Sink = std::function<void(std::string_view lines)>;

  struct Options {
    LogLevel level = LogLevel::warn;
    uint32_t subsystems = kDefaultSubsystems;
    std::string hostname;  ///< up to the first dot
    int pid = 0;
    int device = 0;
    bool timestamps = false;  ///< before WARN lines, as NCCL does; off where time is virtual
    Sink sink;
  };

  explicit Logger(Options options) : options_(std::move(options)) {}

  /// As the settings say: NCCL_DEBUG unset means warnings only and to stderr, because a library that replaces another must not write
  /// into a program's output unasked; else to stdout or NCCL_DEBUG_FILE (%h host, %p pid). `hostname` may be qualified.
  static Logger from_settings(const Settings& settings, std::string_view hostname, int pid);
  /// Says nothing.
  static Logger silent() { return Logger(Options{.level = LogLevel::none}); }

  [[nodiscard]] bool enabled(LogLevel level, Subsystem about) const {
    return level <= options_.level && (options_.subsystems & static_cast<uint32_t>(about)) != 0;
  }

  /// Something the user should act on. Warnings belong to no subsystem.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (options_.level >= LogLevel::warn) write(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void info(Subsystem about, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::info, about)) write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void trace(Subsystem about, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::trace, about)) write(LogLevel::trace, fmt::format(format, std::forward<Args>(args)...));
  }
  /// The bare line that names the library, from level VERSION on.
  void version(std::string_view text) const;

 private:
  void write(LogLevel level, std::string_view text) const;

  Options options_;
};

/// A file's name with %h (host), %p (process) and %% filled in.
std::string expand_file_name(std::string_view pattern, std::string_view hostname, int pid);

/// True for the 1st, 2nd, 4th, 8th, ... of a kind: keeps what strangers can provoke from filling the log.
constexpr bool worth_logging(uint64_t occurrence) { return (occurrence & (occurrence - 1)) == 0; }

}  // namespace isthmus
