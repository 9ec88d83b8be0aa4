// SPDX-License-Identifier: Apache-2.0
// A stream that gives what a fuzzer made, in pieces, and takes everything. For targets that read from a transport::Stream.
#pragma once

#include <algorithm>

#include "target.h"
#include "transport/interface.h"

namespace isthmus::fuzz {

class InputStream final : public transport::Stream {
 public:
  /// At most `piece` bytes a read; then the end of the stream.
  InputStream(Input input, size_t piece) : input_(input), piece_(piece) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (input_.empty()) return remote_error("closed by peer");
    const size_t count = std::min({into.size(), piece_, input_.size()});
    std::copy_n(input_.begin(), count, into.begin());
    input_ = input_.subspan(count);
    return count;
  }
  Result<size_t> write(std::span<const std::byte> bytes) override { return bytes.size(); }
  Result<size_t> write2(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return first.size() + second.size();
  }
  [[nodiscard]] transport::Address peer_address() const override { return {}; }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool wants_write() const override { return false; }

 private:
  Input input_;
  size_t piece_;
};

}  // namespace isthmus::fuzz
