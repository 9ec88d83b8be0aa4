// SPDX-License-Identifier: Apache-2.0
// The one table of settings: name, default, parser, documentation. Read once per process by Process and by the tools; printed by
// `isthmus settings`, generated into docs/settings.md. The only place that reads the environment. Parsing fails with the
// variable's name, the offending text and what is accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace isthmus {

/// Every setting, typed, at its default. Add a member here and a row in settings.cc, nowhere else.
struct Settings {
  // time limits
  TimeNs setup_timeout_ns = 30 * kSecondNs;
  TimeNs peer_timeout_ns = 60 * kSecondNs;
  TimeNs warn_after_ns = 10 * kSecondNs;
  TimeNs operation_timeout_ns = 0;  ///< 0: none
  // identity and trust
  std::string host_id;  ///< "" : boot id and namespaces
  std::string secret_file;
  std::string auth = "psk";  ///< psk, none
  std::string comm_id;       ///< NCCL_COMM_ID
  // network
  std::string socket_ifname;
  std::string socket_family;
  uint16_t port_first = 0, port_last = 0;  ///< 0: any
  uint32_t tcp_streams = 1;
  // choice of algorithm
  std::string algorithm;  ///< "" : by rules; "allreduce:ring,broadcast:binomial"
  std::string rules_file;
  bool deterministic = false;
  bool check_plans = false;
  // engine
  uint64_t eager_bytes = 256 << 10;  ///< credit per communicator and peer
  uint64_t plan_cache_bytes = 64 << 20;
  uint64_t offer_bytes = 8 << 10;  ///< messages from this size are offered for reading in place where possible
  bool shm_disable = false;
  bool cma_disable = false;
  std::string simd;
  std::string progress_cpus;
  // logs
  std::string debug;
  std::string debug_file;
  std::string debug_subsys;
};

/// One row, for printing. `value` is the current text, `source` who set it.
struct SettingRow {
  std::string_view name, default_text, doc;
  std::string value;
  std::string source;  ///< "default", "environment", "/etc/nccl.conf", ...
};

struct SettingsReport {
  std::vector<SettingRow> rows;
  std::vector<std::string> warnings;  ///< unknown ISTHMUS_* names with the nearest match, ignored NCCL_* names
};

/// How to look a variable up; tests and the simulator pass their own.
using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

/// Parses all rows. `names` lists every variable of the source so that unknown ones can be reported.
Result<Settings> parse_settings(const Lookup& lookup, std::span<const std::string> names, SettingsReport* report = nullptr);
/// From the environment, then NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (the environment wins). Ignores everything when the
/// process runs with elevated privileges (AT_SECURE).
Result<Settings> settings_from_environment(SettingsReport* report = nullptr);
/// docs/settings.md.
std::string settings_markdown();

}  // namespace isthmus
