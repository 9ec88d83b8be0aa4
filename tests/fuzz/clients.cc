// SPDX-License-Identifier: Apache-2.0
// Tables of clients and of digits, as `isthmus federated` reads them: refusals say why, and what is accepted is whole, finite and can be
// clustered or refused, but not crash.
#include <cmath>
#include <set>

#include "cli/federated/digits.h"
#include "cli/federated/number_table.h"
#include "federated/clustering.h"
#include "target.h"

namespace isthmus::fuzz {
namespace {

void look_at(const cli::ClientTable& clients) {
  const size_t rows = clients.ids.size();
  promise(rows > 0 && clients.dims > 0 && clients.values.size() == rows * clients.dims, "rows are whole");
  promise(clients.samples.size() == rows && clients.line_of.size() == rows, "every client has samples and a line");
  promise(clients.groups.empty() || clients.groups.size() == rows, "groups are all or none");
  promise(std::set<uint64_t>(clients.ids.begin(), clients.ids.end()).size() == rows, "no client is there twice");
  for (const float value : clients.values) promise(std::isfinite(value), "values are finite");
  if (rows > 64 || clients.dims > 16) return;
  const auto found = federated::cluster(clients.points(), {.rule = federated::KRule::silhouette, .restarts = 1});
  promise(found.ok() && found->clustering.assignment.size() == rows, "clients can be clustered");
}

}  // namespace

void run(Input input) {
  const uint8_t tag = take_byte(input);
  if (tag == 'd') {
    const auto digits = cli::parse_digits(text_of(input));
    promise(digits.ok() ? digits->images.size() == digits->size() * cli::kPixels : !digits.status().text().empty(), "images are whole");
    return;
  }
  const auto clients = cli::parse_clients(text_of(input));
  if (clients.ok()) {
    look_at(*clients);
  } else {
    promise(!clients.status().text().empty(), "a refusal says why");
  }
}

std::vector<Bytes> seeds() {
  std::string image;
  for (int i = 0; i < 64; ++i) image += std::to_string(i % 17) + ",";
  return {tagged('c', to_bytes("client,samples,group,a,b\n1,40,0,0.5,0.5\n2,40,1,0,1\n")),
          tagged('c', to_bytes("0.5,0.5\n1,0\n0,1\n0.25,0.75\n")), tagged('c', to_bytes("# nothing\n\n1e308,2\n")),
          tagged('c', to_bytes("client,a\n1,nan\n")), tagged('d', to_bytes(image + "3\n"))};
}

}  // namespace isthmus::fuzz
