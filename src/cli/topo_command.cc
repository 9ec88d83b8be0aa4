// SPDX-License-Identifier: Apache-2.0
// `isthmus topo`: where this process is and what is in its host; as the ranks of `isthmus run`, the same for the whole job.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/settings.h"
#include "cli/commands.h"
#include "cli/planner/inputs.h"
#include "cli/run/rank_exchange.h"
#include "cli/topo/record.h"
#include "comm/place.h"
#include "topology/discover/host.h"
#include "topology/discover/ucx.h"
#include "transport/tcp/sockets.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kHelp =
    "Shows where this host is (region, building, zone), who says so, and what is in it.\n"
    "\n"
    "Started by 'isthmus run' it shows the whole job: each rank finds out where it is, rank 0 prints the tree.";

constexpr std::string_view kFooter =
    "Nothing is measured, and nobody is asked over the network: who says where a host is are ISTHMUS_REGION, ISTHMUS_SITE and "
    "ISTHMUS_ZONE,\n"
    "a file (ISTHMUS_TOPOLOGY_FILE), Slurm, Kubernetes' labels (ISTHMUS_TOPOLOGY_LABELS) and, if asked for, address prefixes\n"
    "(ISTHMUS_TOPOLOGY_PREFIX), in this order. docs/topology.md says how. What is in the host is hwloc's knowledge; HWLOC_XMLFILE names\n"
    "another host's description. Where UCX is installed, its devices are shown too, and of a job which of them it would take from rank "
    "0's\n"
    "host to the others; UCX_TLS and UCX_NET_DEVICES count.\n"
    "\n"
    "Examples:\n"
    "  isthmus topo\n"
    "  isthmus run -n 4 --hosts a,b -- isthmus topo --svg job.svg";

struct Words {
  bool json = false, inside = false, no_ucx = false;
  std::string svg;
  RankWords rank;
};

using UcxHandle = std::unique_ptr<topology::Ucx>;

/// UCX that does not start, as where it cannot use its devices, is not worth more than a warning.
UcxHandle look_through_ucx(TopoRecord& record) {
  auto opened = topology::Ucx::open();
  if (!opened.ok()) {
    record.warnings.push_back(opened.status().text());
    return nullptr;
  }
  if (*opened == nullptr) return nullptr;
  record.inside->children.push_back((*opened)->devices());
  auto address = (*opened)->address();
  if (address.ok()) {
    record.ucx_address = *address;
  } else {
    record.warnings.push_back(address.status().text());
  }
  return std::move(*opened);
}

void find_ways(const topology::Ucx& ucx, TopoReport& report) {
  for (const int32_t rank : report.ucx_peers()) {
    const TopoRecord& record = report.records[static_cast<size_t>(rank)];
    const auto lanes = ucx.lanes_to(record.ucx_address);
    UcxWay& way = report.ways.emplace_back(UcxWay{.host = record.place.hostname});
    if (lanes.ok()) {
      way.lanes = *lanes;
    } else {
      way.trouble = lanes.status().text();
    }
  }
}

/// This rank's record; with every other rank's where it is rank 0 of a job. Empty on the other ranks.
Result<TopoReport> gather(const Words& words) {
  SettingsReport unread;
  ISTHMUS_ASSIGN(const Settings settings, settings_from_environment(&unread));
  TopoRecord record;
  transport::Sockets sockets({.ifname = settings.socket_ifname, .family = settings.socket_family});
  ISTHMUS_ASSIGN(record.place, comm::find_own_place(settings, read_host_identity(settings), sockets, record.warnings));
  TopoReport report{.records = {}, .ways = {}, .is_job = words.rank.given()};
  UcxHandle ucx;
  if (!report.is_job || words.rank.local_rank == 0) {
    ISTHMUS_ASSIGN(record.inside, topology::read_host());
    if (!words.no_ucx) ucx = look_through_ucx(record);
  }
  if (!report.is_job) {
    report.records.push_back(std::move(record));
    return report;
  }
  ISTHMUS_ASSIGN(const auto texts, exchange_texts(words.rank, encode(record), settings.setup_timeout_ns));
  for (const std::string& text : texts) {
    if (words.rank.rank != 0) break;
    ISTHMUS_ASSIGN(TopoRecord one, decode_record(text));
    report.records.push_back(std::move(one));
  }
  if (ucx != nullptr && words.rank.rank == 0) find_ways(*ucx, report);
  // UCX looks at what it shares with the others: they stay until rank 0 has looked.
  ISTHMUS_TRY(exchange_texts(words.rank, "", settings.setup_timeout_ns).status());
  return report;
}

void print_tree(const TopoReport& report, bool inside) {
  fmt::print("{}", topology::to_text(report.box(inside)));
  if (report.is_job) fmt::print("{}\n", report.sites_text());
  fmt::print("{}", report.ways_text());
  const bool known =
      std::any_of(report.records.begin(), report.records.end(), [](const TopoRecord& one) { return !one.place.claims.empty(); });
  if (!known) fmt::print("Nobody says which building this is; ISTHMUS_SITE=NAME would, and 'isthmus topo --help' names other ways.\n");
}

Status show(const Words& words) {
  ISTHMUS_ASSIGN(const TopoReport report, gather(words));
  if (report.records.empty()) return {};
  const bool inside = words.inside || !report.is_job;
  if (!words.svg.empty()) ISTHMUS_TRY(write_output(words.svg, topology::to_svg(report.box(inside))));
  if (words.json) {
    fmt::print("{}\n", report.json());
    return {};
  }
  for (const std::string& warning : report.warnings()) fmt::print(stderr, "warning: {}\n", warning);
  print_tree(report, inside);
  return {};
}

}  // namespace

void add_rank_options(CLI::App& command, RankWords& rank) {
  const auto from_launcher = [&](const char* option, int& value, const char* variable) {
    command.add_option(option, value)->envname(variable)->group("");
  };
  from_launcher("--rank", rank.rank, "ISTHMUS_RUN_RANK");
  from_launcher("--ranks", rank.size, "ISTHMUS_RUN_SIZE");
  from_launcher("--local-rank", rank.local_rank, "ISTHMUS_RUN_LOCAL_RANK");
  from_launcher("--exchange", rank.descriptor, "ISTHMUS_RUN_FD");
}

void add_topo(CLI::App& app, Outcome& outcome) {
  CLI::App* topo = app.add_subcommand("topo", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  topo->add_flag("--json", words->json, "As JSON");
  topo->add_option("--svg", words->svg, "Also as a drawing, into this FILE");
  topo->add_flag("--inside", words->inside, "Of a job, also what is in each host");
  topo->add_flag("--no-ucx", words->no_ucx, "Leave UCX alone");
  add_rank_options(*topo, words->rank);
  topo->footer(std::string(kFooter));
  topo->callback([words, &outcome] {
    if (const Status shown = show(*words); !shown.ok()) {
      fmt::print(stderr, "isthmus topo: {}\n", shown.text());
      outcome.exit_code = 1;
    }
  });
}

}  // namespace isthmus::cli
