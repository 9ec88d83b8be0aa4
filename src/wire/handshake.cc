// SPDX-License-Identifier: Apache-2.0
// handshake.h's state machine. Pure: nonces and keys come from the caller. The peer's bytes are believed only as far as a tag
// covers them; whoever fails learns nothing but a closed connection.
#include "wire/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/bytes.h"

namespace isthmus::wire {
namespace {

constexpr uint64_t kMagic = 0x2173756d68747369;  // "isthmus!" on the wire
constexpr uint16_t kVersion = 1;

void write_hello(const Hello& hello, Writer& writer) {
  writer.u64(hello.communicator).i32(hello.rank).i32(hello.ranks).u32(hello.epoch).u8(static_cast<uint8_t>(hello.purpose)).u8(0);
  writer.u16(hello.stream).fill(hello.process);
}

Hello read_hello(Reader& reader) {
  Hello hello;
  hello.communicator = reader.u64();
  hello.rank = reader.i32();
  hello.ranks = reader.i32();
  hello.epoch = reader.u32();
  const uint8_t purpose = reader.u8();
  if (purpose < static_cast<uint8_t>(Purpose::rendezvous) || purpose > static_cast<uint8_t>(Purpose::aggregate)) reader.fail();
  hello.purpose = static_cast<Purpose>(purpose);
  if (reader.u8() != 0) reader.fail();
  hello.stream = reader.u16();
  reader.fill(hello.process);
  return hello;
}

/// The responder's hello for an initiator's claim: who the responder is, the rest as claimed.
Hello answer_to(const Hello& claim, const Hello& mine) {
  Hello answer = claim;
  answer.rank = mine.rank;
  answer.process = mine.process;
  return answer;
}

/// True if this hello could be our own, sent back by somebody in between. Ranks of one process never connect to each other, except
/// that a rank may meet the root of a rendezvous in its own process, and the root has no rank.
bool is_own(const Hello& peer, const Hello& mine) {
  return peer.process == mine.process && (peer.purpose == Purpose::data || peer.rank == mine.rank);
}

}  // namespace

Handshake::Handshake(const Crypto& crypto, const Hello& mine, const Nonce& nonce, Awaits awaits)
    : crypto_(&crypto), mine_(mine), nonce_(nonce), awaits_(awaits) {}

Handshake Handshake::initiate(const Crypto& crypto, const Hello& mine, const Key& key, const Nonce& nonce) {
  Handshake machine(crypto, mine, nonce, Awaits::reply);
  machine.key_ = key;
  machine.initiators_ = machine.write_opening();
  machine.queue(machine.initiators_);
  return machine;
}

Handshake Handshake::respond(const Crypto& crypto, const Hello& mine, KeyLookup lookup, const Nonce& nonce) {
  Handshake machine(crypto, mine, nonce, Awaits::opening);
  machine.lookup_ = std::move(lookup);
  return machine;
}

std::span<const std::byte> Handshake::output() const { return std::span(out_).first(out_bytes_).subspan(out_sent_); }

void Handshake::sent(size_t bytes) {
  assert(bytes <= output().size());
  out_sent_ += bytes;
  if (out_sent_ == out_bytes_) out_sent_ = out_bytes_ = 0;
}

size_t Handshake::wanted() const { return output().empty() ? expected_bytes() - in_bytes_ : 0; }

Status Handshake::input(std::span<const std::byte> bytes) {
  if (bytes.size() > wanted()) return internal_error("handshake was given more bytes than it wants");
  std::copy(bytes.begin(), bytes.end(), in_.begin() + static_cast<std::ptrdiff_t>(in_bytes_));
  in_bytes_ += bytes.size();
  if (!output().empty() || in_bytes_ < expected_bytes()) return {};
  Status status = on_message();
  in_bytes_ = 0;
  if (!status.ok()) awaits_ = Awaits::failed;
  return status;
}

size_t Handshake::expected_bytes() const {
  switch (awaits_) {
    case Awaits::opening:
      return kOpeningBytes;
    case Awaits::reply:
      return kReplyBytes;
    case Awaits::tag:
      return sizeof(Key);
    case Awaits::key:
    case Awaits::nothing:
    case Awaits::failed:
      break;
  }
  return 0;
}

Status Handshake::on_message() {
  switch (awaits_) {
    case Awaits::opening:
      return on_opening();
    case Awaits::key:
      return ask_for_key();
    case Awaits::reply:
      return on_reply();
    case Awaits::tag:
      return on_tag();
    case Awaits::nothing:
      return {};
    case Awaits::failed:
      break;
  }
  return invalid_usage("the handshake has failed before");
}

Status Handshake::on_opening() {
  std::copy_n(in_.begin(), kOpeningBytes, initiators_.begin());
  ISTHMUS_TRY(read_opening(initiators_));
  return ask_for_key();
}

Status Handshake::ask_for_key() {
  const KeyAnswer answer = lookup_(peer_);
  if (answer.again) {
    awaits_ = Awaits::key;
    return {};
  }
  if (answer.key == nullptr) {
    return remote_error(fmt::format("refused: no communicator {:016x} here that rank {} of {} (epoch {}) could belong to",
                                    peer_.communicator, peer_.rank, peer_.ranks, peer_.epoch),
                        peer_.rank);
  }
  key_ = *answer.key;
  lookup_ = nullptr;
  mine_ = answer_to(peer_, mine_);
  responders_ = write_opening();
  queue(responders_);
  queue(tag("responder"));
  awaits_ = Awaits::tag;
  return {};
}

Status Handshake::on_reply() {
  std::copy_n(in_.begin(), kOpeningBytes, responders_.begin());
  ISTHMUS_TRY(read_opening(responders_));
  if (peer_ != answer_to(mine_, peer_)) return remote_error("refused: the peer answers for another connection than this one", peer_.rank);
  if (!equal_constant_time(std::span(in_).subspan(kOpeningBytes), tag("responder"))) {
    return remote_error("refused: the peer does not hold this communicator's secret", peer_.rank);
  }
  queue(tag("initiator"));
  awaits_ = Awaits::nothing;
  return {};
}

Status Handshake::on_tag() {
  if (!equal_constant_time(std::span(in_).first(sizeof(Key)), tag("initiator"))) {
    return remote_error("refused: the peer does not hold this communicator's secret, or replays an old connection", peer_.rank);
  }
  awaits_ = Awaits::nothing;
  return {};
}

Status Handshake::read_opening(const Opening& opening) {
  Reader reader(opening);
  if (reader.u64() != kMagic) return remote_error("refused: the peer speaks another protocol");
  if (const uint16_t version = reader.u16(); version != kVersion) {
    return remote_error(fmt::format("refused: the peer speaks version {} of the handshake, this library version {}", version, kVersion));
  }
  peer_ = read_hello(reader);
  Nonce nonce;
  reader.fill(nonce);
  if (!reader.finished()) return remote_error("refused: malformed hello");
  if (nonce == nonce_ || is_own(peer_, mine_)) return remote_error("refused: the peer sends back what this process sent", peer_.rank);
  return {};
}

Handshake::Opening Handshake::write_opening() const {
  Opening opening;
  Writer writer(opening);
  writer.u64(kMagic).u16(kVersion);
  write_hello(mine_, writer);
  writer.fill(nonce_);
  assert(writer.ok() && writer.written() == opening.size());
  return opening;
}

Key Handshake::tag(std::string_view side) const {
  static constexpr std::string_view kDomain = "isthmus handshake, ";
  std::array<std::byte, 64 + 2 * kOpeningBytes> transcript;
  Writer writer(transcript);
  writer.sized_bytes(as_bytes(kDomain)).sized_bytes(as_bytes(side)).fill(initiators_).fill(responders_);
  assert(writer.ok());
  return crypto_->hmac(key_, std::span(transcript).first(writer.written()));
}

void Handshake::queue(std::span<const std::byte> bytes) {
  assert(out_bytes_ + bytes.size() <= out_.size());
  std::copy(bytes.begin(), bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(out_bytes_));
  out_bytes_ += bytes.size();
}

}  // namespace isthmus::wire
