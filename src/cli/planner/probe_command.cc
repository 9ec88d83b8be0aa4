// SPDX-License-Identifier: Apache-2.0
// `isthmus probe`: as the ranks of `isthmus run`, makes a communicator that measures what lies between its ranks, through the library's
// own entry points, and prints what was found.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/settings.h"
#include "cli/commands.h"
#include "cli/planner/inputs.h"
#include "cli/run/rank_exchange.h"
#include "isthmus.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kHelp = "Measures the links between the ranks of a job, as communicators do with ISTHMUS_PROBE=1.";

constexpr std::string_view kFooter =
    "To be started by 'isthmus run', with ranks on several hosts. The profile is what 'isthmus plan make' and 'isthmus explain' read; the\n"
    "plan can be named by ISTHMUS_PLAN_FILE, so that later jobs of the same layout do not measure again. ISTHMUS_PROBE_BUDGET says how "
    "long\n"
    "measuring may take.\n"
    "\n"
    "Examples:\n"
    "  isthmus run -n 4 --hosts a,b -- isthmus probe\n"
    "  isthmus run -n 4 --hosts a,b -- isthmus probe -o profile.json --plan plan.json";

constexpr TimeNs kExchangeNs = 60 * kSecondNs;

struct Words {
  bool json = false;
  std::string output, plan;
  RankWords rank;
};

Status check(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess) return {};
  const std::string text = fmt::format("{}: {}", what, ncclGetLastError(nullptr));
  return result == ncclInvalidUsage ? invalid_usage(text) : remote_error(text);
}

Result<std::string> text_of(ncclResult_t (*read)(ncclComm_t, char*, size_t*), ncclComm_t comm) {
  size_t bytes = 0;
  ISTHMUS_TRY(check(read(comm, nullptr, &bytes), "the communicator's results"));
  std::string text(bytes, '\0');
  ISTHMUS_TRY(check(read(comm, text.data(), &bytes), "the communicator's results"));
  text.pop_back();  // the zero
  return text;
}

/// Rank 0's id on all ranks.
Result<ncclUniqueId> share_id(const RankWords& rank) {
  ncclUniqueId id{};
  Status made;
  if (rank.rank == 0) made = check(ncclGetUniqueId(&id), "making an id");
  const std::string mine = rank.rank == 0 && made.ok() ? std::string(id.internal, sizeof(id.internal)) : std::string();
  ISTHMUS_ASSIGN(const auto texts, exchange_texts(rank, mine, kExchangeNs));
  ISTHMUS_TRY(made);
  if (texts[0].size() != sizeof(id.internal)) return remote_error("rank 0 could not make an id", 0);
  texts[0].copy(id.internal, sizeof(id.internal));
  return id;
}

struct Findings {
  std::string profile, plan;
  double seconds = 0;  ///< that making the communicator took
};

Result<Findings> measure(const RankWords& rank) {
  // What the user has set otherwise is not meant for a command that measures.
  set_variable("ISTHMUS_PROBE", "1");
  set_variable("ISTHMUS_DETERMINISTIC", "0");
  set_variable("ISTHMUS_PLAN_FILE", "");
  ISTHMUS_ASSIGN(const ncclUniqueId id, share_id(rank));
  Findings findings;
  const auto begun = std::chrono::steady_clock::now();
  ncclComm_t comm = nullptr;
  ISTHMUS_TRY(check(ncclCommInitRank(&comm, rank.size, id, rank.rank), "making the communicator"));
  findings.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  Result<std::string> profile = text_of(isthmusCommProfile, comm);
  Result<std::string> plan = text_of(isthmusCommPlan, comm);
  ncclCommDestroy(comm);
  if (profile.status().code() == Code::invalid_usage)
    return invalid_usage("nothing was measured: all ranks are on one host, or ISTHMUS_PROBE_BUDGET=0 forbids it");
  ISTHMUS_ASSIGN(findings.profile, std::move(profile));
  ISTHMUS_ASSIGN(findings.plan, std::move(plan));
  return findings;
}

std::string rate_text(uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? "-" : fmt::format("{:.1f} MB/s", static_cast<double>(bytes_per_s) / 1e6);
}

Status print_table(const Findings& findings) {
  ISTHMUS_ASSIGN(const topology::Profile profile, topology::parse_profile(findings.profile));
  fmt::print("{:<9} {:<18} {:<18} {:>10} {:>10} {:>10} {:>13} {:>13} {:>8}  {}\n", "within", "from", "to", "latency", "jitter", "overhead",
             "stream", "cut", "samples", "known by");
  for (const topology::LinkFacts& link : profile.links) {
    fmt::print("{:<9} {:<18} {:<18} {:>10} {:>10} {:>10} {:>13} {:>13} {:>8}  {}\n", topology::within_name(link.within),
               link.from.empty() ? "any" : link.from, link.to.empty() ? "any" : link.to, topology::time_text(link.latency_ns),
               topology::time_text(link.jitter_ns), topology::time_text(link.overhead_ns), rate_text(link.stream_bytes_per_s),
               rate_text(link.cut_bytes_per_s), link.samples, name_of(link.confidence));
  }
  fmt::print("Sums {}, copies {} (one thread of rank 0's host). Making the communicator took {:.2f} s.\n",
             rate_text(profile.machine.reduce_bytes_per_s), rate_text(profile.machine.copy_bytes_per_s), findings.seconds);
  return {};
}

Status probe(const Words& words) {
  if (!words.rank.given()) {
    return invalid_argument("it measures between the ranks of a job: 'isthmus run -n 4 --hosts a,b -- isthmus probe' starts them");
  }
  ISTHMUS_ASSIGN(const Findings findings, measure(words.rank));
  if (words.rank.rank != 0) return {};
  if (!words.output.empty()) ISTHMUS_TRY(write_output(words.output, findings.profile));
  if (!words.plan.empty()) ISTHMUS_TRY(write_output(words.plan, findings.plan));
  if (words.json) return write_output("", findings.profile);
  return print_table(findings);
}

}  // namespace

void add_probe(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("probe", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  command->add_flag("--json", words->json, "The profile, instead of a table");
  command->add_option("-o,--output", words->output, "The profile also into this FILE");
  command->add_option("--plan", words->plan, "The plan that follows into this FILE");
  add_rank_options(*command, words->rank);
  command->footer(std::string(kFooter));
  command->callback([words, &outcome] {
    if (const Status probed = probe(*words); !probed.ok()) {
      if (words->rank.rank <= 0 || probed.code() != Code::invalid_usage) fmt::print(stderr, "isthmus probe: {}\n", probed.text());
      outcome.exit_code = probed.code() == Code::invalid_argument ? 2 : 1;
    }
  });
}

}  // namespace isthmus::cli
