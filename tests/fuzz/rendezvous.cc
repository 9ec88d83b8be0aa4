// SPDX-License-Identifier: Apache-2.0
// What root and members of a rendezvous tell each other, once they have proved to belong together.
#include "bootstrap/rendezvous_messages.h"
#include "target.h"

namespace isthmus::fuzz {

using namespace bootstrap;

namespace {

constexpr int32_t kRanks = 3;

void waiting(Input body) {
  const auto waiting = decode_waiting(body);
  if (waiting.ok()) promise(encode(*waiting) == to_bytes(body), "a list of the missing survives");
}

void table(Input body) {
  const auto table = decode_table(body, kRanks);
  if (!table.ok()) return;
  promise(table->blobs.size() == kRanks, "a table has a blob for each rank");
  for (const Bytes& blob : table->blobs) promise(blob.size() <= kMaxBlobBytes, "no blob is longer than allowed");
  promise(body.size() <= max_table_bytes(kRanks), "no table is longer than allowed");
  promise(encode(*table) == to_bytes(body), "a table survives");
}

}  // namespace

void run(Input input) {
  switch (take_byte(input)) {
    case 0:
      return waiting(input);
    case 1:
      return table(input);
    default:
      promise(!decode_verdict(input).ok(), "a verdict is a failure, whatever it says");
  }
}

std::vector<Bytes> seeds() {
  Table table{.hub_rank = 1, .blobs = {Bytes(3), Bytes(), Bytes(40)}};
  table.session.fill(std::byte{9});
  return {tagged(0, encode(Waiting{.missing = 2, .which = "1, 2"})), tagged(1, encode(table)),
          tagged(2, encode_verdict(timeout_error("rank 2 is missing", 2)))};
}

}  // namespace isthmus::fuzz
