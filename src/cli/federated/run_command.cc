// SPDX-License-Identifier: Apache-2.0
// `isthmus federated run`: the command line of the coordinator (run/coordinator.h) and of its members (run/member.h).
#include <fmt/format.h>

#include <memory>

#include "cli/checks.h"
#include "cli/ending.h"
#include "cli/federated/commands.h"
#include "cli/federated/run/coordinator.h"
#include "cli/federated/run/member.h"
#include "cli/sides.h"

namespace isthmus::cli {
namespace {

constexpr std::string_view kHelp =
    "Trains models for clients whose data drift, with real processes that come and go.\n"
    "\n"
    "With --listen it is the coordinator: it waits for its members, then leads them through rounds. With --connect it is a member, which\n"
    "stands for some clients with images of digits; it trains their clusters' models on them, and shows neither the images nor, with\n"
    "--masked, what it trained. `isthmus federated simulate` does the same in one process, to compare methods.";

constexpr std::string_view kFooter =
    "TIMES are like 500ms, 30s, 2m.\n"
    "\n"
    "A round: the coordinator calls its members. Each takes in what has changed of its clients' data by the scenario, and reports what "
    "has\n"
    "drifted by more than noise: a few numbers a client. The coordinator moves those clients to the nearest cluster, or clusters all anew\n"
    "when clusters themselves have moved (docs/federated.md). Each member trains the models of its clients' clusters, and takes part in "
    "one\n"
    "weighted sum for each of them: encoded by a homomorphic codec, added up as integers, with --masked such that nobody sees more than\n"
    "the sum of at least --min-cohort members (docs/secure-sums.md). All of a cluster's members then have the same model, bit for bit.\n"
    "\n"
    "The round has --deadline: a quarter of it is for reports, sums have half of it from the first vector, and all ends with it. Who is "
    "not\n"
    "through by then, or was killed, is left out; a cluster in which less than the quorum of members is there makes no sum, and its\n"
    "members train by themselves until it does. A member that is started again with its number is taken back in the next round and gets\n"
    "the models; the others notice nothing. What is late for its round is refused and counted (stale).\n"
    "\n"
    "With --masked a cluster with fewer than --min-cohort members cannot be summed without showing too much: they train alone, unless\n"
    "--plain-small allows sums without masks there.\n"
    "\n"
    "Scenarios and what clients report: label (which digits they see; shares of labels), rotation (images turned by quarters; the mean\n"
    "image), concept (digits called differently; direction of a probe's gradient; the probe is made by --warm-up rounds of one cluster),\n"
    "dirichlet (each client its own shares of digits; shares of labels). Models: softmax (64 -> 10), mlp (64 -> 32 -> 10).\n"
    "\n"
    "Both sides must hold the same secret: a file of mode 0600 with at least 16 bytes, named by --secret-file or ISTHMUS_SECRET_FILE.\n"
    "On loopback addresses this user's own is made by itself, if neither side names a file. The coordinator listens at PORT for\n"
    "members, and at the ports behind it for the sums of clusters (--k, or --k-max, of them; with --plain-small twice as many); port 0:\n"
    "any ports.\n"
    "\n"
    "Standard output has a line for each round, with --json an object; standard error has who came and who went. Of the coordinator:\n"
    "what the update did, for each cluster survivors of members, accuracy (mean over members' clients, each of its model on its task;\n"
    "'-', as JSON null, if no member answered), bytes of all messages that members sent and received; as JSON also tau, theta,\n"
    "silhouette, sizes, het, and for each sum its weight and a hash of the model. Moves count a client twice that moves to the nearest\n"
    "cluster before all are clustered anew. Why they are (clustered, as JSON cause): first, centres moved, spread grew, small cohort,\n"
    "empty cohort. SIGINT or SIGTERM ends it; members end with it. A member that loses the coordinator looks for it for --reach.\n"
    "\n"
    "Exit code: 0 after the last round; 1 if it ended before, or something could not be read or reached; 2 if the command line is wrong;\n"
    "128 + the signal.\n"
    "\n"
    "Examples:\n"
    "  (umask 077; head -c 32 /dev/urandom > job.secret)      # once; the same file on all hosts\n"
    "  isthmus federated run --listen 0.0.0.0:4000 --members 4 --scenario label --masked --secret-file job.secret --json\n"
    "  isthmus federated run --connect host:4000 --member 2 --secret-file job.secret\n"
    "  isthmus run -n 4 -- isthmus federated run --connect host:4000 --secret-file job.secret   # the member's number from the launcher";

struct Words {
  std::string listen, connect;
  MeetingWords meeting;
  RunRules rules;
  MemberWords member;
  std::string scenario = "label", model = "softmax", k_rule = "split", deadline = "10s", wait = "60s";
  std::optional<uint32_t> big_drift, warm_up;
};

void add_common(CLI::App& command, Words& words) {
  CLI::Option* listen = command.add_option("--listen", words.listen, "Be the coordinator at ADDRESS:PORT");
  CLI::Option* connect = command.add_option("--connect", words.connect, "Be a member of the coordinator at HOST:PORT");
  listen->excludes(connect);
  command.add_option("--secret-file", words.meeting.secret_file, "File of the common secret");
  command.add_option("--auth", words.meeting.auth, "none: without a secret, where every host is trusted")
      ->check(CLI::IsMember({"psk", "none"}));
  command.add_flag("--json", words.meeting.json, "One JSON object a line");
}

std::vector<CLI::Option*> add_scenario(CLI::App& command, Words& words) {
  RunRules& rules = words.rules;
  EpisodeRules& episode = rules.episode;
  episode.rounds = 20;
  return {
      command.add_option("--clients", rules.clients_each, "Clients of each member")->check(CLI::Range(1U, 4096U))->capture_default_str(),
      command.add_option("--samples", episode.samples, "Images of each client")->check(CLI::Range(2U, 10000U))->capture_default_str(),
      command.add_option("--scenario", words.scenario, "How clients differ: label, rotation, concept, dirichlet")->capture_default_str(),
      command.add_option("--alpha", episode.alpha, "dirichlet: how even clients' shares are")
          ->check(finite_in(0.001, 1000))
          ->capture_default_str(),
      command.add_option("--rounds", episode.rounds, "Rounds")->check(CLI::Range(1U, 10000U))->capture_default_str(),
      command.add_option("--drift-every", episode.drift_every, "Rounds from one drift to the next")
          ->check(CLI::Range(1U, 100000U))
          ->capture_default_str(),
      command.add_option("--drift-share", episode.drift_share, "Share of clients that change their group then")
          ->check(finite_in(0, 1))
          ->capture_default_str(),
      command.add_option(
          "--big-drift", words.big_drift,
          "Round of the big drift, a multiple of --drift-every; 0: none (default: the last before the middle, if there is one)"),
      command.add_option("--model", words.model, "softmax, mlp")->capture_default_str(),
      command.add_option("--lr", rules.train.lr, "Learning rate")->check(finite_in(1e-6, 100))->capture_default_str(),
      command.add_option("--batch", rules.train.batch, "Images of a step")->check(CLI::Range(1U, 10000U))->capture_default_str(),
      command.add_option("--epochs", rules.train.epochs, "Times that each image is used in a round")
          ->check(CLI::Range(1U, 1000U))
          ->capture_default_str(),
      command.add_option("--seed", rules.seed, "Of data, drift, training, clustering")->transform(whole_up_to())->capture_default_str(),
      command.add_option("--k", rules.k, "Clusters (default: found by --k-rule; 0 too)")->check(CLI::Range(0U, 64U)),
      command.add_option("--k-rule", words.k_rule, "How clusters are counted: split, silhouette")->capture_default_str(),
      command.add_option("--k-max", rules.k_max, "At most so many are found")->check(CLI::Range(1U, 64U))->capture_default_str(),
      command.add_option("--tau", rules.tau, "Re-cluster above this rho (default: 1/3)")->check(finite_in(0, 100)),
      command.add_option("--warm-up", words.warm_up, "Rounds of one cluster to begin with (default: concept 3, else 0)")
          ->check(CLI::Range(0U, 1000U))};
}

/// Without masks these would promise a privacy that plain sums do not have.
std::vector<CLI::Option*> add_masks(CLI::App& command, RunRules& rules) {
  return {command.add_option("--clip", rules.clip, "Masked: root mean square that groups of elements of an update are scaled down to")
              ->check(finite_in(1e-6, 1e6))
              ->capture_default_str(),
          command.add_option("--min-cohort", rules.min_cohort, "Masked: fewer members' updates are never added up")
              ->check(CLI::Range(2U, federated::kMaxContributors))
              ->capture_default_str(),
          command.add_option("--neighbours", rules.neighbours, "Masked: members that each shares masks with, even; 0: all")
              ->capture_default_str(),
          command.add_flag("--plain-small", rules.plain_small, "Masked: clusters too small for it are summed without masks")};
}

std::vector<CLI::Option*> add_rounds(CLI::App& command, Words& words) {
  RunRules& rules = words.rules;
  return {
      command.add_option("--members", rules.members, "How many members there are, with numbers from 0")
          ->check(CLI::Range(1U, federated::kMaxContributors))
          ->envname("ISTHMUS_RUN_SIZE"),
      command.add_option("--deadline", words.deadline, "TIME of a round")->capture_default_str(),
      command.add_option("--quorum", rules.quorum, "Share of a cluster's members that makes a mean")
          ->check(finite_in(0, 1))
          ->capture_default_str(),
      command.add_option("--wait", words.wait, "TIME to wait for members: all before the first round, then the quorum's share")
          ->capture_default_str(),
      command.add_option("--codec", rules.codec, "thc, with options such as thc:b=4,p=1/32 (docs/compression.md)")->capture_default_str(),
      command.add_flag("--masked", rules.masked, "Sums that nobody can look into")};
}

std::vector<CLI::Option*> add_member(CLI::App& command, Words& words) {
  return {command.add_option("--member", words.member.member, "Which member this is")
              ->check(CLI::Range(0U, federated::kMaxContributors - 1))
              ->envname("ISTHMUS_RUN_RANK"),
          command.add_option("--data", words.member.data, "FILE of images, as for `isthmus federated simulate`; the same for all members"),
          command.add_option("--reach", words.member.reach, "TIME to reach the coordinator in")->capture_default_str()};
}

Result<RunRules> rules_of(const Words& words) {
  RunRules rules = words.rules;
  EpisodeRules& episode = rules.episode;
  ISTHMUS_ASSIGN(episode.scenario, parse_scenario(words.scenario));
  ISTHMUS_ASSIGN(rules.model, parse_model_kind(words.model));
  ISTHMUS_ASSIGN(rules.k_rule, federated::parse_k_rule(words.k_rule));
  ISTHMUS_ASSIGN(rules.deadline_ns, duration_of("--deadline", words.deadline));
  ISTHMUS_ASSIGN(rules.wait_ns, duration_of("--wait", words.wait));
  const auto codec = codec::parse_thc(rules.codec);
  if (!codec.ok()) return codec.status().with_context("--codec " + rules.codec);
  if (rules.deadline_ns < 100 * kMillisecondNs)
    return invalid_argument(fmt::format("--deadline {}: at least 100ms are accepted", words.deadline));
  const uint64_t clients = uint64_t{rules.members} * rules.clients_each;
  if (clients > 65536)
    return invalid_argument(fmt::format("{} members of {} clients are more than 65536 clients", rules.members, rules.clients_each));
  episode.clients = static_cast<uint32_t>(clients);
  if (rules.k > clients) return invalid_argument(fmt::format("--k {}: there are only {} clients", rules.k, clients));
  episode.big_drift = words.big_drift.value_or(episode.rounds / 2 / episode.drift_every * episode.drift_every);
  if (episode.big_drift % episode.drift_every != 0) {
    return invalid_argument(fmt::format("--big-drift {} is no multiple of --drift-every {}", episode.big_drift, episode.drift_every));
  }
  rules.warm_up = words.warm_up.value_or(episode.scenario == Scenario::concept_swap ? 3 : 0);
  if (!rules.masked) return rules;
  ISTHMUS_TRY(federated::check(rules.masked_group(), rules.members).with_context("--masked"));
  return rules;
}

int lead(const Words& words) {
  const auto rules = rules_of(words);
  if (!rules.ok()) return complain(rules.status(), words.meeting.command);
  const auto premises = prepare(words.meeting);
  if (!premises.ok()) return complain(premises.status(), words.meeting.command);
  const Masking* masking = nullptr;
  if (rules->masked) {
    const auto loaded = Masking::load();
    if (!loaded.ok()) return complain(loaded.status(), words.meeting.command);
    masking = *loaded;
  }
  const Fd signals = ending_signals();
  Chronicle chronicle(words.meeting.json);
  const auto coordinator = Coordinator::open(**premises, *rules, masking, chronicle, signals);
  if (!coordinator.ok()) return complain(coordinator.status(), words.meeting.command);
  return (*coordinator)->run();
}

}  // namespace

void add_federated_run(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("run", std::string(kHelp));
  const auto words = std::make_shared<Words>();
  words->meeting.command = "federated run";
  words->rules.clip = 0.05F;
  add_common(*command, *words);
  auto of_listen = add_rounds(*command, *words);
  const auto of_masks = add_masks(*command, words->rules);
  of_listen.insert(of_listen.end(), of_masks.begin(), of_masks.end());
  for (CLI::Option* option : of_listen) option->group("With --listen");
  const auto of_scenario = add_scenario(*command, *words);
  for (CLI::Option* option : of_scenario) option->group("With --listen: clients and models");
  of_listen.insert(of_listen.end(), of_scenario.begin(), of_scenario.end());
  const auto of_connect = add_member(*command, *words);
  for (CLI::Option* option : of_connect) option->group("With --connect");
  command->footer(std::string(kFooter));
  command->callback([command, words, of_listen, of_masks, of_connect, &outcome] {
    if (!words->listen.empty()) {
      refuse_options(of_connect, *command, "--connect");
      if (!words->rules.masked) refuse_options(of_masks, *command, "--masked");
      if (words->rules.members == 0) throw CLI::RequiredError("--members");
      words->meeting.address = words->listen;
      outcome.exit_code = lead(*words);
    } else if (!words->connect.empty()) {
      refuse_options(of_listen, *command, "--listen");
      if (of_connect[0]->count() == 0) throw CLI::RequiredError("--member");
      words->meeting.address = words->connect;
      words->member.meeting = words->meeting;
      outcome.exit_code = take_part(words->member);
    } else {
      throw CLI::RequiredError("one of --listen and --connect");
    }
  });
}

}  // namespace isthmus::cli
