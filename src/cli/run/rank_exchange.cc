// SPDX-License-Identifier: Apache-2.0
// A rank's end of the exchange. See rank_exchange.h; blocks of one exchange have one length, so lengths are exchanged before texts.
#include "cli/run/rank_exchange.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace isthmus::cli {
namespace {

constexpr uint32_t kMaxBytes = 256 << 20;  // of an answer

Status lost(ssize_t moved, int error_number) {
  if (moved == 0) return remote_error("isthmus run, which started this process, is gone");
  if (error_number == EAGAIN) return timeout_error("other ranks did not come to exchange where they are; do all run isthmus topo?");
  return errno_error("the exchange with isthmus run", error_number);
}

Status send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return lost(sent, errno);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Status receive_all(int descriptor, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(descriptor, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return lost(got, errno);
    to += got;
    size -= static_cast<size_t>(got);
  }
  return {};
}

/// All ranks' blocks, one after the other.
Result<std::string> exchange_blocks(int descriptor, std::string_view block) {
  const auto length = static_cast<uint32_t>(block.size());
  ISTHMUS_TRY(send_all(descriptor, {reinterpret_cast<const char*>(&length), sizeof length}));
  ISTHMUS_TRY(send_all(descriptor, block));
  std::array<uint32_t, 2> header{};
  ISTHMUS_TRY(receive_all(descriptor, reinterpret_cast<char*>(header.data()), sizeof header));
  if (header[1] > kMaxBytes) return remote_error("the answer of isthmus run is larger than 256 MiB");
  std::string answer(header[1], '\0');
  ISTHMUS_TRY(receive_all(descriptor, answer.data(), answer.size()));
  if (header[0] != 0) return remote_error(std::move(answer));
  return answer;
}

}  // namespace

Result<std::vector<std::string>> exchange_texts(const RankWords& words, std::string_view text, TimeNs timeout_ns) {
  const timeval limit{.tv_sec = timeout_ns / kSecondNs, .tv_usec = timeout_ns % kSecondNs / 1000};
  if (setsockopt(words.descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return errno_error("ISTHMUS_RUN_FD", errno);
  const auto size = static_cast<uint32_t>(text.size());
  ISTHMUS_ASSIGN(const std::string sizes, exchange_blocks(words.descriptor, {reinterpret_cast<const char*>(&size), sizeof size}));
  std::vector<uint32_t> lengths(static_cast<size_t>(words.size));
  if (sizes.size() != lengths.size() * sizeof size) return remote_error("isthmus run has another number of ranks than it says");
  std::memcpy(lengths.data(), sizes.data(), sizes.size());
  const size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string block(text);
  block.resize(longest);
  ISTHMUS_ASSIGN(const std::string blocks, exchange_blocks(words.descriptor, block));
  if (blocks.size() != longest * lengths.size()) return remote_error("isthmus run has answered with another length than asked for");
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); ++rank) texts.push_back(blocks.substr(rank * longest, lengths[rank]));
  return texts;
}

}  // namespace isthmus::cli
