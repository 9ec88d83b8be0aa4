// SPDX-License-Identifier: Apache-2.0
// Real sockets on loopback: both families, partial writes, end of stream, refused connections, port ranges.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "transport/tcp/sockets.h"

namespace isthmus::transport {
namespace {

constexpr int kPatienceMs = 10'000;

void wait_for(int fd, short events) {
  pollfd descriptor{.fd = fd, .events = events, .revents = 0};
  ASSERT_EQ(::poll(&descriptor, 1, kPatienceMs), 1) << "nothing happened on a loopback socket";
}

std::unique_ptr<Stream> accept_one(Listener& listener) {
  wait_for(listener.fd(), POLLIN);
  Result<std::unique_ptr<Stream>> accepted = listener.accept();
  EXPECT_TRUE(accepted.ok()) << accepted.status().text();
  return accepted.ok() ? std::move(accepted).value() : nullptr;
}

/// Reads until `count` bytes or an error, which is returned.
Status read_exactly(Stream& stream, size_t count, std::vector<std::byte>& into) {
  std::vector<std::byte> piece(64 << 10);
  while (into.size() < count) {
    Result<size_t> got = stream.read(std::span(piece).first(std::min(piece.size(), count - into.size())));
    if (!got.ok()) return got.status();
    if (*got == 0) wait_for(stream.fd(), POLLIN);
    into.insert(into.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*got));
  }
  return {};
}

struct Pair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> client, server;
};

Pair make_pair(Sockets& sockets, const std::string& host) {
  Pair pair;
  pair.listener = sockets.listen(parse_address(host + ":0").value()).value();
  pair.client = sockets.connect(pair.listener->address(), {}).value();
  pair.server = accept_one(*pair.listener);
  return pair;
}

class BothFamilies : public testing::TestWithParam<const char*> {
 protected:
  Sockets sockets{{}};
  void SetUp() override {
    if (!sockets.listen(parse_address(std::string(GetParam()) + ":0").value()).ok()) GTEST_SKIP() << "no " << GetParam() << " here";
  }
};

TEST_P(BothFamilies, CarryBytesBothWays) {
  Pair pair = make_pair(sockets, GetParam());
  EXPECT_NE(pair.listener->address().port, 0);
  EXPECT_EQ(pair.client->peer_address(), pair.listener->address());
  wait_for(pair.client->fd(), POLLOUT);
  EXPECT_EQ(*pair.client->write2(as_bytes("head"), as_bytes("tail")), 8U);
  EXPECT_FALSE(pair.client->wants_write());
  std::vector<std::byte> got;
  ASSERT_TRUE(read_exactly(*pair.server, 8, got).ok());
  EXPECT_EQ(std::memcmp(got.data(), "headtail", 8), 0);
  EXPECT_EQ(*pair.server->write(as_bytes("back")), 4U);
  got.clear();
  ASSERT_TRUE(read_exactly(*pair.client, 4, got).ok());
  EXPECT_EQ(std::memcmp(got.data(), "back", 4), 0);
  EXPECT_EQ(*pair.client->read(got), 0U) << "nothing there is not an error";
}

TEST_P(BothFamilies, EndOfStreamAndResetAreRemoteErrors) {
  Pair pair = make_pair(sockets, GetParam());
  pair.client.reset();
  std::vector<std::byte> got;
  const Status closed = read_exactly(*pair.server, 1, got);
  EXPECT_EQ(closed.code(), Code::remote_error);
  EXPECT_NE(closed.text().find("closed by peer"), std::string::npos) << closed.text();
  // The first write after the close is answered with a reset, a later one fails.
  Status broken;
  for (int i = 0; i < 1000 && broken.ok(); ++i) {
    broken = pair.server->write(as_bytes("x")).status();
    ::poll(nullptr, 0, 1);
  }
  EXPECT_EQ(broken.code(), Code::remote_error);
  EXPECT_NE(broken.text().find("write to " + to_string(pair.server->peer_address())), std::string::npos) << broken.text();
}

INSTANTIATE_TEST_SUITE_P(Sockets, BothFamilies, testing::Values("127.0.0.1", "[::1]"));

TEST(Sockets, FullBuffersRefuseAndSayTheyWantMore) {
  Sockets sockets({});
  Pair pair = make_pair(sockets, "127.0.0.1");
  const std::vector<std::byte> block(1 << 20, std::byte{7});
  size_t total = 0;
  while (!pair.client->wants_write() || total == 0) {
    Result<size_t> sent = pair.client->write(block);
    ASSERT_TRUE(sent.ok()) << sent.status().text();
    total += *sent;
  }
  EXPECT_EQ(*pair.client->write(block), 0U);
  std::vector<std::byte> got;
  ASSERT_TRUE(read_exactly(*pair.server, total, got).ok());
  EXPECT_EQ(got, std::vector<std::byte>(total, std::byte{7}));
}

TEST(Sockets, RefusedConnectIsRemoteAndNamesTheAddress) {
  Sockets sockets({});
  const Address nobody = sockets.listen(parse_address("127.0.0.1:0").value()).value()->address();
  Result<std::unique_ptr<Stream>> stream = sockets.connect(nobody, {});
  Status status = stream.status();
  if (status.ok()) {
    wait_for((*stream)->fd(), POLLOUT);
    status = (*stream)->write(as_bytes("x")).status();
  }
  EXPECT_EQ(status.code(), Code::remote_error);
  EXPECT_NE(status.text().find("connect to " + to_string(nobody) + ": Connection refused"), std::string::npos) << status.text();
}

TEST(Sockets, AcceptWithNobodyThereIsNull) {
  Sockets sockets({});
  std::unique_ptr<Listener> listener = sockets.listen(parse_address("127.0.0.1:0").value()).value();
  Result<std::unique_ptr<Stream>> nobody = listener->accept();
  ASSERT_TRUE(nobody.ok());
  EXPECT_EQ(*nobody, nullptr);
}

TEST(Sockets, PortRangeIsUsedUpThenRefused) {
  // A port the system just gave out is free a moment later; two neighbours that both work make the range.
  for (int attempt = 0; attempt < 50; ++attempt) {
    const uint16_t port = Sockets({}).listen(parse_address("127.0.0.1:0").value()).value()->address().port;
    if (port == 65535) continue;
    Sockets ranged({.port_first = port, .port_last = static_cast<uint16_t>(port + 1)});
    const Address any = parse_address("127.0.0.1:0").value();
    Result<std::unique_ptr<Listener>> first = ranged.listen(any);
    Result<std::unique_ptr<Listener>> second = ranged.listen(any);
    if (!first.ok() || !second.ok()) continue;
    EXPECT_EQ((*first)->address().port, port);
    EXPECT_EQ((*second)->address().port, port + 1);
    const Status full = ranged.listen(any).status();
    EXPECT_EQ(full.code(), Code::system_error);
    EXPECT_NE(full.text().find("no free port in"), std::string::npos) << full.text();
    return;
  }
  FAIL() << "no two neighbouring ports were free in 50 attempts";
}

TEST(Sockets, TakenPortAndForeignAddressNameTheAddress) {
  Sockets sockets({});
  std::unique_ptr<Listener> listener = sockets.listen(parse_address("127.0.0.1:0").value()).value();
  const Status taken = sockets.listen(listener->address()).status();
  EXPECT_NE(taken.text().find("listen on " + to_string(listener->address()) + ": Address already in use"), std::string::npos)
      << taken.text();
  const Status foreign = sockets.listen(parse_address("198.51.100.1:0").value()).status();
  EXPECT_EQ(foreign.code(), Code::system_error);
  EXPECT_EQ(sockets.listen(Address{}).status().code(), Code::invalid_argument);
}

TEST(Sockets, OptionsReachTheSystem) {
  Sockets sockets({.accepted = {.receive_buffer_bytes = 1 << 20}});
  std::unique_ptr<Listener> listener = sockets.listen(parse_address("127.0.0.1:0").value()).value();
  EXPECT_TRUE(sockets.connect(listener->address(), {.congestion_control = "reno", .user_timeout_ns = kSecondNs}).ok());
  const Status unknown = sockets.connect(listener->address(), {.congestion_control = "nosuchcontrol"}).status();
  EXPECT_NE(unknown.text().find("congestion control \"nosuchcontrol\""), std::string::npos) << unknown.text();
}

TEST(Sockets, LocalAddressesCanBeListenedOn) {
  Sockets sockets({});
  Result<std::vector<Address>> addresses = sockets.local_addresses();
  ASSERT_TRUE(addresses.ok()) << addresses.status().text();
  ASSERT_FALSE(addresses->empty());
  EXPECT_TRUE(sockets.listen(addresses->front()).ok()) << to_string(addresses->front());
}

}  // namespace
}  // namespace isthmus::transport
