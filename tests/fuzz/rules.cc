// SPDX-License-Identifier: Apache-2.0
// Rule tables as text: what is accepted prints as a text that means the same.
#include "plan/rules.h"

#include "target.h"

namespace isthmus::fuzz {

void run(Input input) {
  const auto table = plan::parse_rules(text_of(input));
  if (!table.ok()) {
    promise(!table.status().text().empty(), "a refusal says why");
    return;
  }
  const std::string text = plan::to_text(*table);
  const auto again = plan::parse_rules(text);
  promise(again.ok() && again->size() == table->size() && plan::to_text(*again) == text, "a rule table survives");
}

std::vector<Bytes> seeds() {
  return {
      to_bytes("allreduce host ranks=2-4 bytes=0-16384 recursive_doubling segments=1\n"),
      to_bytes("# comment\nbroadcast network bytes=1024- chain segments=8\nreduce process ranks=2 binomial\n"),
      to_bytes("allgather host ring\n\nreduce_scatter host ranks=-8 halving # the rest of the line\n"),
  };
}

}  // namespace isthmus::fuzz
