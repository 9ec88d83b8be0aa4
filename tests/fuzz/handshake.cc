// SPDX-License-Identifier: Apache-2.0
// The handshake against somebody who may say anything but does not know the key: it never succeeds. And against somebody whose tags are
// accepted (no authentication): it never asks for more than it can hold, and ends.
#include "wire/handshake.h"

#include <algorithm>

#include "base/hash.h"
#include "target.h"

namespace isthmus::fuzz {

namespace {

/// As good as a real tag against a fuzzer, and a thousand times faster.
class HashCrypto final : public Crypto {
 public:
  [[nodiscard]] Key hmac(const Key& key, std::span<const std::byte> data) const override {
    const uint64_t seed = hash_bytes(key);
    Key tag;
    for (size_t at = 0; at < tag.size(); at += sizeof(uint64_t)) {
      const uint64_t word = hash_bytes(data, seed + at);
      std::memcpy(tag.data() + at, &word, sizeof word);
    }
    return tag;
  }
};

Key key() {
  Key key;
  key.fill(std::byte{0x5a});
  return key;
}

wire::Hello hello(uint8_t process) {
  wire::Hello hello{.communicator = 11, .rank = 1, .ranks = 4, .purpose = wire::Purpose::data};
  hello.process.fill(process);
  return hello;
}

wire::Nonce nonce(uint8_t value) {
  wire::Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

wire::Handshake::KeyLookup known_key(const Key& key) {
  return [&key](const wire::Hello& claim) { return wire::Handshake::KeyAnswer{.key = claim.communicator == 11 ? &key : nullptr}; };
}

wire::Handshake side(bool responds, const Crypto& crypto, const Key& key, uint8_t process) {
  if (responds) return wire::Handshake::respond(crypto, hello(process), known_key(key), nonce(process));
  return wire::Handshake::initiate(crypto, hello(process), key, nonce(process));
}

/// What the machine has to say is thrown away; true if it is done.
bool converse(wire::Handshake machine, size_t piece, Input input) {
  for (;;) {
    while (!machine.output().empty()) machine.sent(std::min(piece, machine.output().size()));
    const size_t wanted = std::min({machine.wanted(), piece, input.size()});
    promise(machine.wanted() <= 4096, "a handshake is short");
    if (wanted == 0) return machine.done();
    if (!machine.input(input.first(wanted)).ok()) return false;
    input = input.subspan(wanted);
  }
}

/// Hands over what the speaker has to say, and returns it.
Bytes deliver(wire::Handshake& speaker, wire::Handshake& listener) {
  Bytes words = to_bytes(speaker.output());
  for (Input rest = words; !rest.empty();) {
    const size_t piece = std::min(rest.size(), listener.wanted());
    promise(piece > 0 && listener.input(rest.first(piece)).ok(), "honest sides understand each other");
    rest = rest.subspan(piece);
  }
  speaker.sent(words.size());
  return words;
}

/// Everything that an honest side says to the other.
Bytes said_by(bool responder, const Crypto& crypto) {
  const Key secret = key();
  wire::Handshake first = side(false, crypto, secret, 1), second = side(true, crypto, secret, 2);
  Bytes words = deliver(first, second);
  const Bytes reply = deliver(second, first);
  for (const std::byte byte : deliver(first, second)) words.push_back(byte);
  promise(first.done() && second.done(), "honest sides prove themselves");
  return responder ? reply : words;
}

}  // namespace

void run(Input input) {
  const uint8_t choice = take_byte(input);
  const bool responds = (choice & 1) != 0;
  const size_t piece = 1 + (choice >> 2);
  const Key secret = key();
  const HashCrypto crypto;
  const bool proved = converse(side(responds, (choice & 2) != 0 ? Crypto::none() : crypto, secret, 3), piece, input);
  promise((choice & 2) != 0 || !proved, "nobody proves a key that he does not know");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const HashCrypto crypto;
  for (const uint8_t choice : {0, 1, 2, 3, 0x40, 0x81, 0xfe, 0xff}) {
    const Crypto& chosen = (choice & 2) != 0 ? Crypto::none() : crypto;
    all.push_back(tagged(choice, said_by((choice & 1) == 0, chosen)));
  }
  return all;
}

}  // namespace isthmus::fuzz
