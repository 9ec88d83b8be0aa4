// SPDX-License-Identifier: Apache-2.0
// A link's messages out of any bytes in any pieces: no body is longer than allowed, and the end is noticed.
#include "bootstrap/link.h"

#include "stream.h"

namespace isthmus::fuzz {

namespace {
constexpr size_t kMaxBodyBytes = 256;

Bytes message(uint8_t type, size_t body_bytes) {
  Bytes bytes(bootstrap::Link::kHeaderBytes + body_bytes);
  bytes[0] = static_cast<std::byte>(body_bytes);
  bytes[4] = static_cast<std::byte>(type);
  return bytes;
}
}  // namespace

void run(Input input) {
  const size_t piece = 1 + take_byte(input);
  bootstrap::Link link(std::make_unique<InputStream>(input, piece), kMaxBodyBytes);
  size_t heard = 0;
  for (;;) {
    const auto got = link.receive();
    if (!got.ok()) break;
    if (!got->has_value()) continue;
    heard += bootstrap::Link::kHeaderBytes + (*got)->body.size();
    promise((*got)->body.size() <= kMaxBodyBytes, "no body is longer than allowed");
  }
  promise(heard <= input.size(), "nothing is heard that was not said");
  promise(!link.receive().ok(), "a failed link stays failed");
}

std::vector<Bytes> seeds() {
  Bytes said;
  for (const size_t body_bytes : {0, 1, 100, 255}) {
    const Bytes one = message(16, body_bytes);
    said.insert(said.end(), one.begin(), one.end());
  }
  return {tagged(0, said), tagged(2, said), tagged(255, said)};
}

}  // namespace isthmus::fuzz
