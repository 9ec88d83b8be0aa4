// SPDX-License-Identifier: Apache-2.0
// Parsing of training_check's command line (see options.h).
#include "options.h"

#include <CLI/CLI.hpp>

namespace training {
namespace {

constexpr const char* kAbout =
    "Trains a small network data-parallel, with a rank in every process of `isthmus run`, and averages gradients exactly or compressed. "
    "Prints a line of JSON for every report. Fails unless all ranks end with the same parameters.";
constexpr const char* kCodes =
    "Exit codes: 0 trained; 1 internal; 2 wrong command line; 3 a library call failed; 7 ranks' parameters differ";

const CLI::Range kCount(1, 1 << 30);

void add_training_options(CLI::App& app, Options& options) {
  app.add_option("--codec", options.codecs,
                 "How gradients travel: none (as they are), bf16, int8, int4, thc:b=4, thc:b=4,ef=on ...; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "Of the task, the first parameters and the mini-batches");
  app.add_option("--steps", options.steps, "Updates of the parameters")->check(kCount);
  app.add_option("--batch", options.batch, "Examples of a step on each rank")->check(kCount);
  app.add_option("--learning-rate", options.learning_rate, "Of the first step; it falls to 0 in a straight line")
      ->check(CLI::PositiveNumber);
  app.add_option("--momentum", options.momentum, "Share of the last update that the next one keeps")->check(CLI::Range(0.0, 0.9999));
}

void add_other_options(CLI::App& app, Options& options) {
  app.add_option("--hidden", options.hidden, "Widths of the hidden layers, with commas between")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 14));
  app.add_option("--examples", options.examples, "In the training set, over all ranks")->check(kCount);
  app.add_option("--held-out", options.held_out, "Examples for evaluation, over all ranks")->check(kCount);
  app.add_option("--report-every", options.report_every, "Steps between reports")->check(kCount);
  app.add_flag("--inject-wrong", options.inject_wrong, "Spoil a parameter of the last rank before the last report: the program must fail");
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(kAbout, "training_check");
  app.footer(kCodes);
  app.option_defaults()->always_capture_default();
  add_training_options(app, options);
  add_other_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.options = std::nullopt, .text = app.help(), .exit_code = 0};
  } catch (const CLI::ParseError& error) {
    return {.options = std::nullopt, .text = std::string("training_check: ") + error.what() + "\n", .exit_code = kExitUsage};
  }
  return {.options = std::move(options), .text = "", .exit_code = 0};
}

}  // namespace training
