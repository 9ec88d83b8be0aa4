// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate`: the command line of the aggregator (aggregate/serve.h) and of its load generator (aggregate/load.h).
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "cli/aggregate/load.h"
#include "cli/aggregate/serve.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/sides.h"
#include "federated/aggregate_messages.h"
#include "federated/group_rules.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kHelp =
    "Sums vectors of many ranks at one place, without ever decoding them.\n"
    "\n"
    "With --listen it is the aggregator: ranks connect, each contributes a vector a round, encoded by the homomorphic codec, and all get\n"
    "the sum of those who came. It adds small integers and touches no float. With --quorum a round goes on without ranks that\n"
    "are missing at the deadline; ranks that come later get the result of the round that they missed, the same bytes as everybody.\n"
    "\n"
    "With --connect it is one such rank, which contributes made-up vectors and checks the results: every rank's vector follows from\n"
    "the seed, so each can compute the exact sum. Programs take part by isthmusAggregatorConnect and isthmusAggregatorSum (isthmus.h).";

constexpr std::string_view kFooter =
    "TIMES are like 500ms, 30s, 2m. SIZES are like 4096, 256K, 64M, 1G (powers of 1024).\n"
    "\n"
    "A round begins with the first rank's call. It takes in all ranks that come before the deadline (or until there is a quorum), then "
    "adds\n"
    "those whose vectors are complete when the deadline has passed since the first one was. Without a quorum at the limit it fails on all\n"
    "its ranks, naming the missing. A rank that is not connected is waited for in one round only, until it is back.\n"
    "\n"
    "Both sides must hold the same secret: a file of mode 0600 with at least 16 bytes, named by --secret-file or ISTHMUS_SECRET_FILE. On\n"
    "loopback addresses this user's own is made by itself, if neither side names a file. What travels is not encrypted.\n"
    "\n"
    "The aggregator prints a line for each round: its elements, the ranks that count, those that took part too late, those that did not\n"
    "come, what was received from all and what each was sent, and the time from the first rank's offer. SIGINT or SIGTERM ends it: the\n"
    "round under way fails on all its ranks. Exit code: 0; with --rounds 1 if a round failed, 128 + the signal if one came before the "
    "last.\n"
    "\n"
    "A rank prints for each round: the ranks that count, whether it does itself, the squared error over that of the exact average beside\n"
    "what is expected of the codec on such data (correlated dither does better), bytes, seconds, and a hash of the result, which is the\n"
    "same on all ranks.\n"
    "Exit code: 0; 1 if a round failed or an error exceeds 1.5 times what is expected.\n"
    "\n"
    "Examples:\n"
    "  (umask 077; head -c 32 /dev/urandom > job.secret)      # once; the same file on all hosts\n"
    "  isthmus aggregate --listen 0.0.0.0:4000 --ranks 4 --quorum 3 --deadline 500ms --secret-file job.secret\n"
    "  isthmus aggregate --connect host:4000 --rank 2 --ranks 4 --count 16M --rounds 10 --secret-file job.secret\n"
    "  isthmus run -n 4 -- isthmus aggregate --connect host:4000 --secret-file job.secret   # rank and number of ranks from the launcher";

struct Words {
  std::string listen, connect;
  MeetingWords meeting;
  ServeWords serve;
  LoadWords load;
};

/// Options that mean nothing without others. Ignored, those of masks would promise a privacy that plain sums do not have.
struct Dependent {
  std::vector<CLI::Option*> masks, cohorts;  ///< of --masked; of that or --cohort
};

Dependent add_cohorts(CLI::App& command, MeetingWords& meeting) {
  constexpr double kMost = std::numeric_limits<float>::max();
  std::vector<CLI::Option*> all = {
      command.add_flag("--cohort", meeting.cohort, "Weighted means of a cohort: one deadline for a round, little memory"),
      command.add_flag("--masked", meeting.masked, "The same such that nobody, the aggregator included, sees more than the mean")};
  Dependent dependent{
      .masks = {command.add_option("--clip", meeting.clip, "Masked: root mean square that groups of elements are scaled down to")
                    ->check(finite_in(0, kMost)),
                command.add_option("--min-cohort", meeting.min_cohort, "Masked: fewer vectors are never added up")->capture_default_str(),
                command.add_option("--neighbours", meeting.neighbours, "Masked: ranks that each shares masks with, even; 0: all")
                    ->capture_default_str()},
      .cohorts = {command.add_option("--largest-weight", meeting.largest_weight, "No rank's weight is beyond it")
                      ->check(finite_in(federated::kWeightUnit, federated::kMostWeight))
                      ->capture_default_str(),
                  command.add_option("--epoch", meeting.epoch, "Of the cohort")->transform(whole_up_to())->capture_default_str()}};
  all.insert(all.end(), dependent.masks.begin(), dependent.masks.end());
  all.insert(all.end(), dependent.cohorts.begin(), dependent.cohorts.end());
  for (CLI::Option* option : all) option->group("Cohorts (docs/secure-sums.md); the same on both sides");
  return dependent;
}

void add_common(CLI::App& command, Words& words) {
  CLI::Option* listen = command.add_option("--listen", words.listen, "Be the aggregator at ADDRESS:PORT (port 0: any)");
  CLI::Option* connect = command.add_option("--connect", words.connect, "Be a rank of the aggregator at HOST:PORT");
  listen->excludes(connect);
  command.add_option("--ranks", words.meeting.ranks, "How many ranks there are")
      ->check(CLI::Range(1U, federated::kMaxContributors))
      ->envname("ISTHMUS_RUN_SIZE")
      ->required();
  command.add_option("--codec", words.meeting.codec,
                     "thc, with options such as thc:b=4,p=1/32 (docs/compression.md); a rank without it takes the aggregator's");
  command.add_option("--secret-file", words.meeting.secret_file, "File of the common secret");
  command.add_option("--auth", words.meeting.auth, "none: without a secret, where every host is trusted")
      ->check(CLI::IsMember({"psk", "none"}));
  command.add_flag("--json", words.meeting.json, "One JSON object a line");
}

std::vector<CLI::Option*> add_serve(CLI::App& command, ServeWords& words) {
  return {command.add_option("--quorum", words.quorum, "Ranks that are enough for a sum (default: all)")
              ->check(CLI::Range(1U, federated::kMaxContributors)),
          command.add_option("--deadline", words.deadline, "TIME that a round waits for more than a quorum")->capture_default_str(),
          command.add_option("--limit", words.limit, "TIME after which a round without a quorum fails")->capture_default_str(),
          command.add_option("--keep", words.keep, "Rounds whose results are kept for late ranks")
              ->check(CLI::Range(1U, 1000U))
              ->capture_default_str(),
          command.add_option("--memory", words.memory, "SIZE for contributions and results; bounds the vectors")->capture_default_str(),
          command.add_option("--chunk", words.chunk, "Elements that travel at once, a multiple of 8192")->capture_default_str()};
}

std::vector<CLI::Option*> add_load(CLI::App& command, LoadWords& words) {
  return {command.add_option("--rank", words.rank, "Which rank this is")->envname("ISTHMUS_RUN_RANK"),
          command.add_option("--count", words.count, "Elements of a vector")->capture_default_str(),
          command.add_option("--type", words.type, "float, half, bfloat16")->capture_default_str(),
          command.add_option("--op", words.op, "avg, sum: of those who came")->capture_default_str(),
          command.add_option("--data", words.data, "gaussian, same (on all ranks), lognormal")->capture_default_str(),
          command.add_option("--seed", words.seed, "Of the data; the same on all ranks")->transform(whole_up_to())->capture_default_str(),
          command.add_option("--weight", words.weight, "This rank's weight in a cohort's mean")
              ->check(finite_in(0, federated::kMostWeight))
              ->capture_default_str(),
          command.add_option("--delay", words.delay, "TIME to wait before each contribution")->capture_default_str(),
          command.add_option("--timeout", words.timeout, "TIME that a sum may take; 0: the aggregator's limits are enough")
              ->capture_default_str(),
          command.add_option("--reach", words.reach, "TIME to reach the aggregator in")->capture_default_str(),
          command.add_flag("!--no-check", words.check, "Do not compute the exact sum")};
}

}  // namespace

void add_aggregate(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("aggregate", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  add_common(*command, *words);
  Dependent dependent = add_cohorts(*command, words->meeting);
  const auto rounds = std::make_shared<uint64_t>(0);
  CLI::Option* rounds_option = command->add_option("--rounds", *rounds, "Rounds, then it ends (default: --listen never, --connect 1)");
  rounds_option->check(CLI::Range(1U, 1'000'000'000U));
  const auto of_serve = add_serve(*command, words->serve);
  const auto of_load = add_load(*command, words->load);
  dependent.cohorts.push_back(command->get_option("--weight"));
  for (CLI::Option* option : of_serve) option->group("With --listen");
  for (CLI::Option* option : of_load) option->group("With --connect");
  command->footer(std::string(kFooter));
  command->callback([command, words, rounds, dependent, limit = command->get_option("--limit"), of_serve, of_load, &outcome] {
    const bool is_cohort = words->meeting.cohort || words->meeting.masked;
    if (!words->meeting.masked) refuse_options(dependent.masks, *command, "--masked");
    if (!is_cohort) refuse_options(dependent.cohorts, *command, "--cohort and --masked");
    words->serve.meeting = words->load.meeting = words->meeting;
    if (!words->listen.empty()) {
      refuse_options(of_load, *command, "--connect");
      if (is_cohort) refuse_options({limit}, *command, "sums without a cohort; a cohort's rounds end at --deadline");
      words->serve.meeting.address = words->listen;
      words->serve.rounds = *rounds;
      outcome.exit_code = serve(words->serve);
    } else if (!words->connect.empty()) {
      refuse_options(of_serve, *command, "--listen");
      if (of_load[0]->count() == 0) throw CLI::RequiredError("--rank");
      words->load.meeting.address = words->connect;
      words->load.rounds = *rounds == 0 ? 1 : *rounds;
      outcome.exit_code = load(words->load);
    } else {
      throw CLI::RequiredError("one of --listen and --connect");
    }
  });
}

}  // namespace isthmus::cli
