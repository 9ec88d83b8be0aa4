// SPDX-License-Identifier: Apache-2.0
// Topology files, Slurm's variables and Kubernetes' labels: refusals say why, claims have names that can stand in a path.
#include "target.h"
#include "topology/discover/place_file.h"
#include "topology/discover/schedulers.h"

namespace isthmus::fuzz {
namespace {

void look_at(const Result<std::vector<topology::Claim>>& claims) {
  if (!claims.ok()) {
    promise(!claims.status().text().empty(), "a refusal says why");
    return;
  }
  for (const topology::Claim& claim : *claims) promise(topology::check_name(claim.name).ok(), "names can stand in a path");
}

}  // namespace

void run(Input input) {
  const uint8_t tag = take_byte(input);
  const std::string_view text = text_of(input);
  if (tag == 'f') {
    const auto file = topology::parse_place_file(text);
    const topology::Self self{.host_id = 1, .hostname = "a1.example", .addresses = {topology::parse_ip("10.1.2.3").value()}};
    if (file.ok()) {
      look_at(topology::claims_of(*file, self, "file"));
    } else {
      look_at(file.status());
    }
  } else if (tag == 's') {
    look_at(topology::slurm_claims(text, "switch.switch.node", "building,zone"));
  } else {
    look_at(topology::kubernetes_claims(text, "labels"));
  }
}

std::vector<Bytes> seeds() {
  return {tagged('f', to_bytes(R"({"schema": "isthmus.topology/1", "places": {"a*": "eu/fra1/r1", "10.1.0.0/16": "/x"}})")),
          tagged('f', to_bytes("# here\nREGION=eu\nSITE='a'\n")), tagged('f', to_bytes(R"({"places": 1e999})")),
          tagged('s', to_bytes("core.leaf.node")), tagged('k', to_bytes("app=\"a\\\"b\"\ntopology.kubernetes.io/zone=\"z\"\n"))};
}

}  // namespace isthmus::fuzz
