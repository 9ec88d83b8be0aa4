// SPDX-License-Identifier: Apache-2.0
// What members and coordinator of `isthmus federated run` read from each other: anything is refused, or is a message that is written as it
// was read.
#include "cli/federated/run/messages.h"
#include "target.h"

namespace isthmus::fuzz {
namespace {

template <typename T>
void look_at(const Result<T>& message, Input input) {
  if (!message.ok()) {
    promise(!message.status().text().empty(), "a refusal says why");
    return;
  }
  const bootstrap::SharedBytes body = cli::encode(*message);
  promise(std::equal(body->begin(), body->end(), input.begin(), input.end()), "a message has one form");
}

}  // namespace

void run(Input input) {
  switch (take_byte(input)) {
    case 'j':
      return look_at(cli::decode_run_join(input), input);
    case 't':
      return look_at(cli::decode_run_terms(input), input);
    case 'c':
      return look_at(cli::decode_run_call(input), input);
    case 'r':
      return look_at(cli::decode_run_reports(input), input);
    case 'p':
      return look_at(cli::decode_run_plan(input), input);
    case 'e':
      return look_at(cli::decode_run_end(input), input);
    default:
      return look_at(cli::decode_run_result(input), input);
  }
}

std::vector<Bytes> seeds() {
  const cli::RunReports reports{
      .round = 1, .header = {.dims = 2}, .reports = {{.client = 1, .samples = 2, .values = {0.5F, 0.5F}}}, .held = {{}}};
  const cli::RunPlan plan{.round = 1, .epoch = 1, .clusters = {0, 1}, .parts = {{.cluster = 1, .values = {1, 2}}}};
  cli::RunTerms terms{.members = 1, .clients_each = 60, .deadline_ns = 1, .masked_ports = {1}, .plain_ports = {}};
  return {tagged('j', *cli::encode(cli::RunJoin{})),
          tagged('t', *cli::encode(terms)),
          tagged('c', *cli::encode(cli::RunCall{.round = 1, .centres = {1}, .clusters = {2}, .probe = {3}})),
          tagged('r', *cli::encode(reports)),
          tagged('p', *cli::encode(plan)),
          tagged('x', *cli::encode(cli::RunResult{.parts = {{}}})),
          tagged('e', *cli::encode(cli::RunEnd{.why = "so"}))};
}

}  // namespace isthmus::fuzz
