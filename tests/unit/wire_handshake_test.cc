// SPDX-License-Identifier: Apache-2.0
// handshake.h: two machines joined by bytes, and everything that may be done to those bytes in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "wire/handshake.h"

namespace isthmus::wire {
namespace {

using Bytes = std::vector<std::byte>;

const Crypto& crypto() { return *Crypto::load().value(); }
Key key_of(uint8_t fill) {
  Key key;
  key.fill(std::byte{fill});
  return key;
}
Nonce nonce_of(uint8_t fill) {
  Nonce nonce;
  nonce.fill(std::byte{fill});
  return nonce;
}
const Key kKey = key_of(42);

Hello hello_of(int32_t rank) {
  Hello hello{.communicator = 0xabcdef, .rank = rank, .ranks = 4, .epoch = 7, .purpose = Purpose::data, .stream = 3};
  hello.process.fill(static_cast<uint8_t>(rank + 100));
  return hello;
}

Handshake::KeyAnswer known(const Hello& hello) {
  const bool member = hello.communicator == 0xabcdef && hello.ranks == 4 && hello.epoch == 7 && hello.rank >= -1 && hello.rank < 4;
  return {.key = member ? &kKey : nullptr};
}

Handshake initiator(uint8_t nonce = 1) { return Handshake::initiate(crypto(), hello_of(1), kKey, nonce_of(nonce)); }
Handshake responder(uint8_t nonce = 2) {
  return Handshake::respond(crypto(), {.rank = 2, .process = hello_of(2).process}, known, nonce_of(nonce));
}

Bytes take_output(Handshake& machine) {
  const auto out = machine.output();
  Bytes bytes(out.begin(), out.end());
  machine.sent(out.size());
  return bytes;
}

Status give(Handshake& machine, const Bytes& bytes, size_t piece = SIZE_MAX) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = std::min({piece, machine.wanted(), bytes.size() - at});
    if (count == 0) return internal_error("the machine wants no more");
    ISTHMUS_TRY(machine.input(std::span(bytes).subspan(at, count)));
    at += count;
  }
  return {};
}

/// Runs both machines; `tamper` sees each message (0: opening, 1: reply, 2: tag) before it is delivered.
Status converse(Handshake& first, Handshake& second, const std::function<void(int, Bytes&)>& tamper = {}) {
  Handshake* from = &first;
  Handshake* to = &second;
  for (int message = 0; message < 3; ++message) {
    Bytes bytes = take_output(*from);
    if (tamper) tamper(message, bytes);
    ISTHMUS_TRY(give(*to, bytes));
    std::swap(from, to);
  }
  return {};
}

TEST(Handshake, BothSidesLearnWhoTheOtherIs) {
  Handshake a = initiator(), b = responder();
  ASSERT_TRUE(converse(a, b).ok());
  EXPECT_TRUE(a.done());
  EXPECT_TRUE(b.done());
  EXPECT_EQ(b.peer(), hello_of(1));
  Hello answered = hello_of(2);
  EXPECT_EQ(a.peer(), answered);
  EXPECT_EQ(a.wanted(), 0u);
  EXPECT_TRUE(a.input({}).ok());
  EXPECT_FALSE(a.input(Bytes(1)).ok()) << "bytes after the handshake belong to somebody else";
}

TEST(Handshake, WorksInPiecesOfOneByte) {
  Handshake a = initiator(), b = responder();
  Handshake* from = &a;
  Handshake* to = &b;
  for (int message = 0; message < 3; ++message) {
    while (!from->output().empty()) {
      EXPECT_FALSE(from->done());
      EXPECT_EQ(from->wanted(), 0u) << "first its own output";
      const std::byte byte = from->output()[0];
      from->sent(1);
      ASSERT_TRUE(to->input(std::span(&byte, 1)).ok());
    }
    std::swap(from, to);
  }
  EXPECT_TRUE(a.done());
  EXPECT_TRUE(b.done());
}

TEST(Handshake, EveryFlippedByteIsRefused) {
  for (int message = 0; message < 3; ++message) {
    size_t length = 1;
    for (size_t at = 0; at < length; ++at) {
      for (const uint8_t flip : {0x01, 0x80}) {
        Handshake a = initiator(), b = responder();
        const Status status = converse(a, b, [&](int number, Bytes& bytes) {
          if (number != message) return;
          length = bytes.size();
          bytes[at] ^= std::byte{flip};
        });
        EXPECT_EQ(status.code(), Code::remote_error) << "message " << message << " byte " << at;
        EXPECT_FALSE(b.done()) << "the responder must never serve a connection that was touched";
      }
    }
    EXPECT_GE(length, sizeof(Key));
  }
}

TEST(Handshake, ReplayedInitiatorIsRefused) {
  std::vector<Bytes> recorded;
  Handshake a = initiator(), b = responder();
  ASSERT_TRUE(converse(a, b, [&](int, Bytes& bytes) { recorded.push_back(bytes); }).ok());

  Handshake again = responder(99);  // a responder never uses a nonce twice
  ASSERT_TRUE(give(again, recorded[0]).ok());
  take_output(again);
  EXPECT_EQ(give(again, recorded[2]).code(), Code::remote_error);
  EXPECT_FALSE(again.done());
  EXPECT_EQ(again.wanted(), 0u) << "a failed machine reads nothing";
  EXPECT_NE(again.input({}).code(), Code::ok) << "failed for good";
}

TEST(Handshake, ReplayedReplyIsRefused) {
  std::vector<Bytes> recorded;
  Handshake a = initiator(), b = responder();
  ASSERT_TRUE(converse(a, b, [&](int, Bytes& bytes) { recorded.push_back(bytes); }).ok());
  Handshake again = initiator(98);
  take_output(again);
  EXPECT_EQ(give(again, recorded[1]).code(), Code::remote_error);
}

TEST(Handshake, OwnReflectionIsRefused) {
  // Somebody without the key connects the initiator to the listener of its own process.
  Handshake a = initiator();
  Handshake own = Handshake::respond(crypto(), {.rank = 1, .process = hello_of(1).process}, known, nonce_of(5));
  EXPECT_EQ(converse(a, own).code(), Code::remote_error);
  // Or sends back the very same bytes, padded to the length of a reply.
  Handshake b = initiator();
  Bytes echo = take_output(b);
  echo.resize(b.wanted());
  EXPECT_EQ(give(b, echo).code(), Code::remote_error);
  // The tag of the responder is no tag of the initiator.
  Handshake c = initiator(), d = responder();
  EXPECT_EQ(converse(c, d,
                     [reply = Bytes()](int message, Bytes& bytes) mutable {
                       if (message == 1) reply = bytes;
                       if (message == 2) bytes.assign(reply.end() - sizeof(Key), reply.end());
                     })
                .code(),
            Code::remote_error);
}

TEST(Handshake, RankMayMeetTheRootOfItsOwnProcess) {
  Hello mine = hello_of(1);
  mine.purpose = Purpose::rendezvous;
  Handshake member = Handshake::initiate(crypto(), mine, kKey, nonce_of(1));
  Handshake root = Handshake::respond(crypto(), {.rank = -1, .process = mine.process}, known, nonce_of(2));
  EXPECT_TRUE(converse(member, root).ok());
  EXPECT_EQ(member.peer().rank, -1);
}

TEST(Handshake, UnknownCommunicatorIsRefused) {
  Handshake a = initiator();
  Handshake b = Handshake::respond(
      crypto(), hello_of(2), [](const Hello&) { return Handshake::KeyAnswer{}; }, nonce_of(2));
  const Status status = converse(a, b);
  EXPECT_EQ(status.code(), Code::remote_error);
  EXPECT_NE(status.text().find("abcdef"), std::string::npos) << status.text();
  EXPECT_TRUE(b.output().empty()) << "a refused peer is told nothing";
}

TEST(Handshake, WrongKeyIsRefusedByBoth) {
  const Key other = key_of(43);
  Handshake a = Handshake::initiate(crypto(), hello_of(1), other, nonce_of(1));
  Handshake b = responder();
  ASSERT_TRUE(give(b, take_output(a)).ok());
  EXPECT_EQ(give(a, take_output(b)).code(), Code::remote_error);
  EXPECT_TRUE(a.output().empty());
  EXPECT_EQ(give(b, Bytes(b.wanted())).code(), Code::remote_error);
}

TEST(Handshake, KeyMayComeLater) {
  bool ready = false;
  Handshake a = initiator();
  Handshake b = Handshake::respond(
      crypto(), {.rank = 2, .process = hello_of(2).process},
      [&](const Hello& hello) { return ready ? known(hello) : Handshake::KeyAnswer{.again = true}; }, nonce_of(2));
  ASSERT_TRUE(give(b, take_output(a)).ok());
  EXPECT_TRUE(b.awaits_key());
  EXPECT_EQ(b.wanted(), 0u);
  ASSERT_TRUE(b.input({}).ok());
  EXPECT_TRUE(b.output().empty());
  ready = true;
  ASSERT_TRUE(b.input({}).ok());
  EXPECT_FALSE(b.awaits_key());
  ASSERT_TRUE(give(a, take_output(b)).ok());
  ASSERT_TRUE(give(b, take_output(a)).ok());
  EXPECT_TRUE(a.done() && b.done());
}

TEST(Handshake, WithoutAuthenticationAnybodyWhoKnowsTheCommunicatorMayJoin) {
  const Key ignored = key_of(9);
  Handshake a = Handshake::initiate(Crypto::none(), hello_of(1), ignored, nonce_of(1));
  Handshake b = Handshake::respond(Crypto::none(), hello_of(2), known, nonce_of(2));
  EXPECT_TRUE(converse(a, b).ok());
  EXPECT_TRUE(a.done() && b.done());

  Handshake c = Handshake::initiate(Crypto::none(), hello_of(1), kKey, nonce_of(1));
  Handshake strict = responder();
  EXPECT_FALSE(converse(c, strict).ok()) << "one side alone cannot switch it off";
}

}  // namespace
}  // namespace isthmus::wire
