// SPDX-License-Identifier: Apache-2.0
// The one table of settings. A row's default text must parse to the member's default (tested).
#include "base/settings_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/log.h"
#include "base/text.h"

namespace isthmus {
namespace {

using Notes = std::vector<std::string>;

template <auto Member>
Status duration(std::string_view text, Settings& settings, Notes&) {
  ISTHMUS_ASSIGN(settings.*Member, parse_duration(text));
  return {};
}

template <auto Member>
Status byte_count(std::string_view text, Settings& settings, Notes&) {
  ISTHMUS_ASSIGN(settings.*Member, parse_bytes(text));
  return {};
}

template <auto Member>
Status yes_or_no(std::string_view text, Settings& settings, Notes&) {
  ISTHMUS_ASSIGN(settings.*Member, parse_bool(text));
  return {};
}

template <auto Member>
Status any_text(std::string_view text, Settings& settings, Notes&) {
  settings.*Member = std::string(text);
  return {};
}

/// One of `words`, in any case, stored as it is spelt in the list.
Status one_of(std::string_view text, std::span<const std::string_view> words, std::string& out) {
  for (const std::string_view word : words) {
    if (lower(text) != lower(word)) continue;
    out = word;
    return {};
  }
  return invalid_argument(fmt::format("one of {} is accepted", join(words, ", ")));
}

Status auth(std::string_view text, Settings& settings, Notes&) {
  static constexpr std::array<std::string_view, 2> kWords = {"psk", "none"};
  return one_of(text, kWords, settings.auth);
}

Status socket_family(std::string_view text, Settings& settings, Notes&) {
  static constexpr std::array<std::string_view, 2> kWords = {"AF_INET", "AF_INET6"};
  settings.socket_family.clear();
  return text.empty() ? Status() : one_of(text, kWords, settings.socket_family);
}

Status ports(std::string_view text, Settings& settings, Notes&) {
  settings.port_first = settings.port_last = 0;
  if (text.empty()) return {};
  const size_t dash = text.find('-');
  const auto first = parse_unsigned(trim(text.substr(0, dash)), UINT16_MAX);
  const auto last = dash == std::string_view::npos ? first : parse_unsigned(trim(text.substr(dash + 1)), UINT16_MAX);
  if (!first.ok() || !last.ok() || *first == 0 || *first > *last)
    return invalid_argument("a range of ports is accepted, such as 4000-4100");
  settings.port_first = static_cast<uint16_t>(*first);
  settings.port_last = static_cast<uint16_t>(*last);
  return {};
}

Status tcp_streams(std::string_view text, Settings& settings, Notes&) {
  const auto streams = parse_unsigned(text, 64);
  if (!streams.ok() || *streams == 0) return invalid_argument("a number of streams from 1 to 64 is accepted");
  settings.tcp_streams = static_cast<uint32_t>(*streams);
  return {};
}

Status drift_percent(std::string_view text, Settings& settings, Notes&) {
  const auto percent = parse_unsigned(text, 1000);
  if (!percent.ok() || (*percent > 0 && *percent < 5)) return invalid_argument("a number of percent from 5 to 1000 is accepted, or 0");
  settings.drift_percent = static_cast<uint32_t>(*percent);
  return {};
}

Status debug(std::string_view text, Settings& settings, Notes&) {
  if (!text.empty()) ISTHMUS_TRY(parse_log_level(text).status());
  settings.debug = upper(text);
  return {};
}

Status debug_subsys(std::string_view text, Settings& settings, Notes&) {
  ISTHMUS_TRY(parse_subsystems(text).status());
  settings.debug_subsys = upper(text);
  return {};
}

// --- choice of algorithm: "allreduce:ring,broadcast:binomial"; a name alone is for every collective ---------------------------

constexpr std::array kChoosable = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::broadcast,
                                   Collective::reduce,    Collective::alltoall,       Collective::barrier};

std::optional<Collective> parse_collective(std::string_view text) {
  for (const Collective collective : kChoosable) {
    std::string name(name_of(collective));
    if (lower(text) == name) return collective;
    name.erase(std::remove(name.begin(), name.end(), '_'), name.end());  // NCCL writes reducescatter
    if (lower(text) == name) return collective;
  }
  return std::nullopt;
}

/// The algorithms chosen: one for all collectives that have it, and for single ones; the last word on a collective counts.
class Choices {
 public:
  void set(Collective collective, std::string_view algorithm_name) { names_[static_cast<size_t>(collective)] = lower(algorithm_name); }
  void set_all(std::string_view algorithm_name) {
    names_ = {};
    for_all_ = lower(algorithm_name);
  }
  [[nodiscard]] std::string text() const {
    std::string out = for_all_;
    for (const Collective collective : kChoosable) {
      const std::string& name = names_[static_cast<size_t>(collective)];
      if (!name.empty()) out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name_of(collective), name);
    }
    return out;
  }

 private:
  std::string for_all_;
  std::array<std::string, kCollectives> names_;
};

Status algorithm(std::string_view text, Settings& settings, Notes&) {
  Choices choices;
  for (const std::string_view piece : split(text, ',')) {
    const size_t colon = piece.find(':');
    if (colon == std::string_view::npos) {
      choices.set_all(piece);
      continue;
    }
    const auto collective = parse_collective(trim(piece.substr(0, colon)));
    const std::string_view name = trim(piece.substr(colon + 1));
    if (!collective || name.empty()) {
      return invalid_argument("a list such as allreduce:ring,broadcast:binomial is accepted, or one name for every collective");
    }
    choices.set(*collective, name);
  }
  settings.algorithm = choices.text();
  return {};
}

/// What NCCL's names mean here, per collective; its ring broadcast is a pipelined chain.
struct NcclAlgorithm {
  Collective collective;
  std::string_view nccl_name, name;
};
constexpr std::array kNcclAlgorithms = {
    NcclAlgorithm{Collective::allreduce, "ring", "ring"},      NcclAlgorithm{Collective::allreduce, "tree", "halving_doubling"},
    NcclAlgorithm{Collective::reduce_scatter, "ring", "ring"}, NcclAlgorithm{Collective::allgather, "ring", "ring"},
    NcclAlgorithm{Collective::broadcast, "ring", "chain"},     NcclAlgorithm{Collective::broadcast, "tree", "binomial"},
    NcclAlgorithm{Collective::reduce, "ring", "chain"},        NcclAlgorithm{Collective::reduce, "tree", "binomial"},
};

/// Takes the first of NCCL's names that means something here, for one collective or, where none is given, for all; the rest go to
/// `notes`.
void choose_nccl(std::string_view names, std::optional<Collective> only, Choices& choices, Notes& notes) {
  bool chosen = false;
  for (const std::string_view name : split(names, ',')) {
    bool means_something = false;
    for (const NcclAlgorithm& known : kNcclAlgorithms) {
      if (known.nccl_name != lower(name) || (only && known.collective != *only)) continue;
      means_something = true;
      if (!chosen) choices.set(known.collective, known.name);
    }
    if (chosen || !means_something) notes.push_back(fmt::format("'{}' is not used", name));
    chosen = chosen || means_something;
  }
}

/// NCCL_ALGO: "ring,tree;allreduce:tree;broadcast:ring". Groups without a collective speak for all; a group that begins with '^' only
/// excludes, which has no counterpart here.
Status nccl_algorithm(std::string_view text, Settings& settings, Notes& notes) {
  Choices choices;
  for (const std::string_view group : split(text, ';')) {
    const size_t colon = group.find(':');
    const std::string_view names = trim(colon == std::string_view::npos ? group : group.substr(colon + 1));
    const auto collective = colon == std::string_view::npos ? std::nullopt : parse_collective(trim(group.substr(0, colon)));
    if (names.starts_with('^')) {
      notes.push_back(fmt::format("'{}' only excludes and is not used", group));
    } else if (colon != std::string_view::npos && !collective) {
      notes.push_back(fmt::format("'{}' names no collective and is not used", group));
    } else {
      choose_nccl(names, collective, choices, notes);
    }
  }
  settings.algorithm = choices.text();
  return {};
}

constexpr std::array kDefinitions = {
    SettingDefinition{"ISTHMUS_SETUP_TIMEOUT", "", "30s",
                      "Making a communicator fails when it takes longer; the error names the missing ranks.",
                      duration<&Settings::setup_timeout_ns>},
    SettingDefinition{"ISTHMUS_PEER_TIMEOUT", "", "60s", "A rank from which nothing was heard for so long is taken for dead.",
                      duration<&Settings::peer_timeout_ns>},
    SettingDefinition{
        "ISTHMUS_WARN_AFTER", "", "10s",
        "An operation in which nothing moves for so long is reported, with who waits for whom, and again whenever the time has "
        "doubled; 0 for never.",
        duration<&Settings::warn_after_ns>},
    SettingDefinition{"ISTHMUS_TIMEOUT", "", "0", "An operation that takes longer fails; 0 for no limit.",
                      duration<&Settings::operation_timeout_ns>},
    SettingDefinition{"ISTHMUS_HOSTID", "NCCL_HOSTID", "",
                      "Which host this is: ranks with equal ids share memory. Empty: the kernel's boot id and namespaces.",
                      any_text<&Settings::host_id>},
    SettingDefinition{"ISTHMUS_SECRET_FILE", "", "",
                      "The file (mode 0600) with the secret that ranks meeting at NCCL_COMM_ID have in common, or both sides of isthmus "
                      "aggregate or isthmus federated run. Empty: made on first use, on loopback only.",
                      any_text<&Settings::secret_file>},
    SettingDefinition{"ISTHMUS_AUTH", "", "psk",
                      "psk: connections prove that they know the job's secret. none: anybody who reaches the ports may join.", auth},
    SettingDefinition{"ISTHMUS_COMM_ID", "NCCL_COMM_ID", "", "host:port of rank 0, instead of an id that the program passes around.",
                      any_text<&Settings::comm_id>},
    SettingDefinition{
        "ISTHMUS_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "",
        "Network interfaces: a list of prefixes; = in front asks for exact names, ^ excludes. Empty: all that others can reach.",
        any_text<&Settings::socket_ifname>},
    SettingDefinition{"ISTHMUS_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "", "AF_INET or AF_INET6. Empty: both.", socket_family},
    SettingDefinition{"ISTHMUS_PORT_RANGE", "", "", "The ports to listen on, such as 4000-4100. Empty: any.", ports},
    SettingDefinition{"ISTHMUS_TCP_STREAMS", "", "1", "Connections to each rank of another host.", tcp_streams},
    SettingDefinition{
        "ISTHMUS_ALGO", "NCCL_ALGO", "",
        "Algorithms by name, such as allreduce:ring/8,broadcast:binomial (/8: in 8 segments; hierarchy/8/2: with 2 leaders "
        "at each site; hierarchy/8/0/ring: with as many as can be, and a ring between sites); a name alone is for every collective that "
        "has it; the last word on a collective counts. Empty: by rules. Of NCCL_ALGO, ring and tree are translated.",
        algorithm, nccl_algorithm},
    SettingDefinition{"ISTHMUS_RULES_FILE", "", "", "A rule table (which algorithm for which size) that goes before the built-in one.",
                      any_text<&Settings::rules_file>},
    SettingDefinition{
        "ISTHMUS_PLAN_FILE", "", "",
        "A plan that `isthmus plan make` wrote: communicators whose ranks are where it says follow it, after the user's rules "
        "and before the built-in ones. The same on all ranks.",
        any_text<&Settings::plan_file>},
    SettingDefinition{"ISTHMUS_PROBE", "", "0",
                      "Measure what lies between the ranks of a communicator when it is made, and choose algorithms by a plan that follows "
                      "from it: of communicators made by ncclCommInitRank and its like whose ranks are on several hosts, not of those "
                      "split from them. Where a plan is named (ISTHMUS_PLAN_FILE) that one counts and nothing is measured. The same on all "
                      "ranks.",
                      yes_or_no<&Settings::probe>},
    SettingDefinition{"ISTHMUS_PROBE_BUDGET", "", "2s",
                      "How long measuring may take; what does not fit is left out. The first look at each kind of link, some ten messages, "
                      "is always taken. 0: as ISTHMUS_PROBE=0.",
                      duration<&Settings::probe_budget_ns>},
    SettingDefinition{"ISTHMUS_DRIFT", "", "20",
                      "By how many percent the collectives of a communicator that was measured (ISTHMUS_PROBE) must take longer than "
                      "predicted, or the prediction longer than they, for a while, for all its ranks to measure and plan again. 0: never. "
                      "Rank 0's counts for all.",
                      drift_percent},
    SettingDefinition{"ISTHMUS_DRIFT_INTERVAL", "", "30s",
                      "How long at least between one such measuring and the next; twice as long after each that has found nothing new.",
                      duration<&Settings::drift_interval_ns>},
    SettingDefinition{"ISTHMUS_DETERMINISTIC", "", "0",
                      "Choose algorithms by size, ranks and topology only, never by measurement: switches ISTHMUS_PROBE off.",
                      yes_or_no<&Settings::deterministic>},
    SettingDefinition{"ISTHMUS_CHECK_PLANS", "", "0", "Prove every plan (result and freedom from deadlock) before its first use.",
                      yes_or_no<&Settings::check_plans>},
    SettingDefinition{
        "ISTHMUS_COMPRESSION", "", "",
        "Which allreduce and reduce-scatter calls of programs that know nothing of it travel compressed: rules between semicolons, the "
        "first that fits a call counts. A rule is a codec (none, bf16, int8, int4, thc, thc:b=4,p=1/32) and, after blanks, min=BYTES "
        "(1M if not given) and max=BYTES of the larger buffer, type=float,half,bfloat16, name=PATTERN of the communicator's name, and "
        "crossing: only where not all ranks are at one site. The same on all ranks. Empty: nothing is compressed.",
        any_text<&Settings::compression>},
    SettingDefinition{"ISTHMUS_COMPRESSION_REQUIRED", "", "0",
                      "What a rule of ISTHMUS_COMPRESSION is for but its codec cannot serve (an operator other than sum and avg, another "
                      "type) fails, instead of going as it is with one warning.",
                      yes_or_no<&Settings::compression_required>},
    SettingDefinition{"ISTHMUS_SITE", "", "",
                      "The name of the building that this process is in: ranks of the same name are close to each other. Empty: what the "
                      "topology file, Slurm, Kubernetes or an address prefix say; where nobody does, every host is a site of its own.",
                      any_text<&Settings::site>},
    SettingDefinition{"ISTHMUS_ZONE", "", "", "The name of the zone (rack, pod, switch) within the building. Empty: as ISTHMUS_SITE.",
                      any_text<&Settings::zone>},
    SettingDefinition{"ISTHMUS_REGION", "", "", "The name of the region that the building is in. Empty: as ISTHMUS_SITE.",
                      any_text<&Settings::region>},
    SettingDefinition{"ISTHMUS_TOPOLOGY_FILE", "", "",
                      "A file that says where hosts are: JSON with patterns of host names or networks, or REGION=, BUILDING= and ZONE= "
                      "lines about this host ([topology](topology.md)). Empty: none.",
                      any_text<&Settings::topology_file>},
    SettingDefinition{"ISTHMUS_TOPOLOGY_LABELS", "", "",
                      "The file to which Kubernetes' downward API writes the pod's labels: topology.kubernetes.io/region is the region, "
                      "topology.kubernetes.io/zone the building. Empty: none.",
                      any_text<&Settings::topology_labels>},
    SettingDefinition{"ISTHMUS_TOPOLOGY_PREFIX", "", "",
                      "Which level the first bits of this host's address tell, such as building=16,zone=24 (IPv4) or building=16/48 (IPv4/"
                      "IPv6). Empty: addresses tell nothing.",
                      any_text<&Settings::topology_prefix>},
    SettingDefinition{
        "ISTHMUS_SLURM_LEVELS", "", "",
        "What the switches in SLURM_TOPOLOGY_ADDR are, from the top to the leaf, such as region,building,zone; - for one that "
        "is no level. Empty: the leaf is the zone, the others are not used.",
        any_text<&Settings::slurm_levels>},
    SettingDefinition{"SLURM_TOPOLOGY_ADDR", "", "", "Set by Slurm: the switches above this host, such as core.leaf3.node17.",
                      any_text<&Settings::slurm_address>},
    SettingDefinition{"SLURM_TOPOLOGY_ADDR_PATTERN", "", "", "Set by Slurm: what the parts of SLURM_TOPOLOGY_ADDR are.",
                      any_text<&Settings::slurm_pattern>},
    SettingDefinition{"ISTHMUS_EAGER_BYTES", "", "256K", "How much a communicator may send to a rank that has not asked for it yet.",
                      byte_count<&Settings::eager_bytes>},
    SettingDefinition{"ISTHMUS_PLAN_CACHE_BYTES", "", "64M", "Memory for plans that may be used again.",
                      byte_count<&Settings::plan_cache_bytes>},
    SettingDefinition{"ISTHMUS_OFFER_BYTES", "", "8K", "Messages from this size on are read by the receiver where they lie, if it can.",
                      byte_count<&Settings::offer_bytes>},
    SettingDefinition{"ISTHMUS_SHM_DISABLE", "NCCL_SHM_DISABLE", "0", "Use no memory shared between processes.",
                      yes_or_no<&Settings::shm_disable>},
    SettingDefinition{"ISTHMUS_CMA_DISABLE", "", "0", "Never read another process's memory directly (process_vm_readv).",
                      yes_or_no<&Settings::cma_disable>},
    SettingDefinition{
        "ISTHMUS_CMA_BYTES", "", "256K",
        "Of messages in memory that is not shared: from this size on they are read with process_vm_readv, smaller ones are copied "
        "through the ring, which is quicker.",
        byte_count<&Settings::cma_bytes>},
    SettingDefinition{
        "ISTHMUS_HUGE_PAGES", "", "1",
        "Move memory that other processes read again and again (as above) into huge pages, where the system lets a program ask for them.",
        yes_or_no<&Settings::huge_pages>},
    SettingDefinition{"ISTHMUS_SIMD", "", "", "The instruction set of the kernels, such as scalar or avx2. Empty: the best this CPU has.",
                      any_text<&Settings::simd>},
    SettingDefinition{"ISTHMUS_PROGRESS_CPUS", "", "", "CPUs of the progress thread, such as 0-3,8. Empty: those the process started with.",
                      any_text<&Settings::progress_cpus>},
    SettingDefinition{"ISTHMUS_DEBUG", "NCCL_DEBUG", "",
                      "NONE, VERSION, WARN, INFO or TRACE. Empty: warnings only, and to stderr instead of stdout.", debug},
    SettingDefinition{"ISTHMUS_DEBUG_FILE", "NCCL_DEBUG_FILE", "", "Where log lines go; %h is the host, %p the process. Empty: stdout.",
                      any_text<&Settings::debug_file>},
    SettingDefinition{"ISTHMUS_DEBUG_SUBSYS", "NCCL_DEBUG_SUBSYS", "",
                      "What INFO and TRACE are about: INIT, COLL, NET, ..., ALL; ^ in front inverts. Empty: INIT,BOOTSTRAP,ENV.",
                      debug_subsys},
    SettingDefinition{"ISTHMUS_RECORDER_FILE", "", "",
                      "Where the latest events of the process are added when an operation takes long or fails; %h is the host, %p the "
                      "process; JSON lines if it ends in .jsonl. Empty: the last few go to the log.",
                      any_text<&Settings::recorder_file>},
    SettingDefinition{"ISTHMUS_TRACE_FILE", "", "",
                      "Where this process's calls and their steps are written in Chrome's trace format (chrome://tracing, Perfetto), the "
                      "first million of them; %h is the host, %p the process. Empty: nowhere.",
                      any_text<&Settings::trace_file>},
    SettingDefinition{"ISTHMUS_CONF_FILE", "NCCL_CONF_FILE", "",
                      "A file of NAME=value lines, read after the environment and before /etc/nccl.conf. Empty: ~/.nccl.conf.",
                      any_text<&Settings::conf_file>},
    SettingDefinition{"XDG_RUNTIME_DIR", "", "", "Where the default secret file is made.", any_text<&Settings::runtime_dir>},
    SettingDefinition{"TMPDIR", "", "/tmp", "Where the default secret file is made if there is no XDG_RUNTIME_DIR.",
                      any_text<&Settings::temp_dir>},
};

}  // namespace

std::span<const SettingDefinition> setting_definitions() { return kDefinitions; }

}  // namespace isthmus
