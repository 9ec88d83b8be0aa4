// SPDX-License-Identifier: Apache-2.0
// The one table of settings: name, default, parser, documentation. Read once per process by Process and by the tools; printed by
// `isthmus settings`, generated into docs/settings.md. The only place that reads the environment. Parsing fails with the
// variable's name, the offending text and what is accepted; a bad value of an NCCL_* name is ignored with a warning instead, because
// it was not written for us.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace isthmus {

/// Every setting, typed, at its default. Add a member here and a row in settings_table.cc, nowhere else.
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
  std::string plan_file;
  bool probe = false;
  TimeNs probe_budget_ns = 2 * kSecondNs;
  uint32_t drift_percent = 20;  ///< 0: links are not measured again
  TimeNs drift_interval_ns = 30 * kSecondNs;
  bool deterministic = false;
  bool check_plans = false;
  // compression
  std::string compression;            ///< rules: "thc:b=4 min=4M crossing; bf16 name=grad*"; "": none
  bool compression_required = false;  ///< what a rule wants compressed but no codec can serve fails
  // where this process is
  std::string site;             ///< the building; "": by the other rungs of the ladder, or the host is a site of its own
  std::string zone, region;     ///< "": likewise
  std::string topology_file;    ///< "": none
  std::string topology_labels;  ///< Kubernetes' labels; "": none
  std::string topology_prefix;  ///< "building=16,zone=24"; "": addresses say nothing
  std::string slurm_levels;     ///< "region,building,zone"; "": the leaf switch is the zone
  std::string slurm_address, slurm_pattern;
  // engine
  uint64_t eager_bytes = 256 << 10;  ///< credit per communicator and peer
  uint64_t plan_cache_bytes = 64 << 20;
  uint64_t offer_bytes = 8 << 10;  ///< messages from this size are offered for reading in place where possible
  bool shm_disable = false;
  bool cma_disable = false;
  uint64_t cma_bytes = 256 << 10;  ///< messages from this size are worth the system's help
  bool huge_pages = true;          ///< for memory that others read again and again
  std::string simd;
  std::string progress_cpus;
  // logs
  std::string debug;
  std::string debug_file;
  std::string debug_subsys;
  std::string recorder_file;  ///< "": the log
  std::string trace_file;     ///< "": no trace
  // where files are
  std::string conf_file;    ///< "": ~/.nccl.conf
  std::string runtime_dir;  ///< XDG_RUNTIME_DIR; "": none
  std::string temp_dir = "/tmp";
  friend bool operator==(const Settings&, const Settings&) = default;

  /// Whether new communicators measure what lies between their ranks.
  [[nodiscard]] bool measures() const { return probe && !deterministic && plan_file.empty() && probe_budget_ns > 0; }
};

/// One row, for printing. `value` is the current text, `source` who set it.
struct SettingRow {
  std::string_view name, default_text, doc;
  std::string_view nccl_name;  ///< "": none
  std::string value;
  std::string source;  ///< "default", "environment", "/etc/nccl.conf", ...
};

struct SettingsReport {
  std::vector<SettingRow> rows;
  std::vector<std::string> warnings;  ///< unknown ISTHMUS_* names with the nearest match, ignored NCCL_* names and values
};

/// Named values from one place; tests and the simulator make their own.
struct SettingSource {
  std::string name;  ///< for messages: "environment", "/etc/nccl.conf"
  std::map<std::string, std::string, std::less<>> variables;
};

/// Parses all rows. Of several sources the first that has a name wins; a row's ISTHMUS_* name wins over its NCCL_* name. Names that
/// begin with neither are looked up (TMPDIR), never reported.
Result<Settings> parse_settings(std::span<const SettingSource> sources, SettingsReport* report = nullptr);
/// The text of a configuration file: NAME=value lines, '#' starts a comment line.
SettingSource parse_conf(std::string name, std::string_view text);
/// Every variable as "NAME=value", for `isthmus run` to hand on to the programs that it starts.
std::vector<std::string> whole_environment();
/// Puts a variable into the environment, for a tool that is about to call the library as a program would. Before there are other threads.
void set_variable(const char* name, const char* value);
/// From the environment, then NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (the environment wins). Ignores everything, with a
/// warning, when the process runs with elevated privileges (AT_SECURE).
Result<Settings> settings_from_environment(SettingsReport* report = nullptr);
/// docs/settings.md.
std::string settings_markdown();

}  // namespace isthmus
