// SPDX-License-Identifier: Apache-2.0
// The out-of-band service of `isthmus run`: a socket inherited from the launcher, so nobody else can reach it. A request is a
// 4-byte length and the block; the answer is a 4-byte status, a 4-byte length and all blocks (status 0) or the reason why there
// will be no answer. src/cli/run/exchange.h is the other end. Fails when the launcher or another rank is gone.
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "failure.h"
#include "oob.h"

namespace sweep {
namespace {

class LauncherOob final : public Oob {
 public:
  explicit LauncherOob(const LaunchEnvironment& environment)
      : rank_(environment.rank), size_(environment.size), socket_(environment.exchange_descriptor) {}
  ~LauncherOob() override { close(socket_); }
  LauncherOob(const LauncherOob&) = delete;
  LauncherOob& operator=(const LauncherOob&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return "isthmus run"; }

  std::vector<std::byte> allgather(std::span<const std::byte> block) override {
    const auto length = static_cast<uint32_t>(block.size());
    write_all(std::as_bytes(std::span(&length, 1)));
    write_all(block);
    uint32_t header[2];
    read_all(std::as_writable_bytes(std::span(header)));
    std::vector<std::byte> answer(header[1]);
    read_all(answer);
    if (header[0] != 0) throw Failure{kExitInternal, std::string(reinterpret_cast<const char*>(answer.data()), answer.size())};
    return answer;
  }

 private:
  [[noreturn]] void lost(const char* why) const {
    throw Failure{kExitInternal, std::string("isthmus run, which started this process, is gone: ") + why};
  }
  void write_all(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) lost(std::strerror(errno));
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
  }
  void read_all(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) lost(got == 0 ? "connection closed" : std::strerror(errno));
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
  }

  int rank_, size_, socket_;
};

}  // namespace

std::unique_ptr<Oob> connect_launcher(const LaunchEnvironment& environment) { return std::make_unique<LauncherOob>(environment); }

}  // namespace sweep
