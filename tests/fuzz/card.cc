// SPDX-License-Identifier: Apache-2.0
// Process cards and the addresses in them, and addresses as text.
#include "exec/card.h"
#include "target.h"
#include "transport/tcp/blob.h"

namespace isthmus::fuzz {

using namespace transport;

void run(Input input) {
  const auto card = exec::ProcessCard::decode(input);
  if (card.ok()) promise(card->encode() == to_bytes(input), "a card survives");
  const auto addresses = decode_addresses(input);
  if (addresses.ok()) {
    promise(addresses->size() <= kMaxBlobAddresses, "no more addresses than allowed");
    promise(encode_addresses(*addresses) == to_bytes(input), "addresses survive");
  }
  const auto address = parse_address(text_of(input));
  if (address.ok()) {
    const auto again = parse_address(to_string(*address));
    promise(again.ok() && *again == *address, "an address survives");
  }
}

std::vector<Bytes> seeds() {
  const std::string_view texts[] = {"10.0.0.1:4000", "[fe80::1%2]:4000", "[::1]:80"};
  std::vector<Bytes> all;
  std::vector<Address> addresses;
  for (const std::string_view text : texts) {
    all.push_back(to_bytes(text));
    addresses.push_back(parse_address(text).value());
  }
  all.push_back(encode_addresses(addresses));
  exec::ProcessCard card{.host = 5, .hostname = "alpha", .pid = 77, .cpus = {3, 1}, .tcp = encode_addresses(addresses)};
  card.process.fill(3);
  all.push_back(card.encode());
  card.cpus.clear();
  all.push_back(card.encode());
  return all;
}

}  // namespace isthmus::fuzz
