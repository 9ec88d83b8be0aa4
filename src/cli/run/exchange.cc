// SPDX-License-Identifier: Apache-2.0
// The allgather that `isthmus run` offers its ranks (see exchange.h).
#include "cli/run/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace isthmus::cli {
namespace {

std::string native(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

}  // namespace

std::vector<Exchange::Answer> Exchange::submit(int rank, std::string block) {
  blocks_[static_cast<size_t>(rank)] = std::move(block);
  if (const std::string why = problem(); !why.empty()) return answer_all(1, why);
  std::string all;
  for (const auto& one : blocks_) {
    if (!one) return {};
    all += *one;
  }
  return answer_all(0, all);
}

std::vector<Exchange::Answer> Exchange::leave(int rank) {
  left_[static_cast<size_t>(rank)] = true;
  const bool somebody_waits = std::any_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block.has_value(); });
  return somebody_waits ? answer_all(1, problem()) : std::vector<Answer>();
}

/// Why the exchange under way cannot succeed; "" if it can.
std::string Exchange::problem() const {
  const std::string* first = nullptr;
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    if (left_[rank]) return fmt::format("rank {} has left, so the others cannot exchange data with it", rank);
    if (!blocks_[rank]) continue;
    if (first == nullptr) first = &*blocks_[rank];
    if (first->size() != blocks_[rank]->size()) {
      return fmt::format("rank {} exchanges {} bytes where another rank exchanges {}; do all ranks run the same program?", rank,
                         blocks_[rank]->size(), first->size());
    }
  }
  return "";
}

std::vector<Exchange::Answer> Exchange::answer_all(uint32_t status, const std::string& payload) {
  const std::string bytes = native(status) + native(static_cast<uint32_t>(payload.size())) + payload;
  std::vector<Answer> answers;
  for (size_t rank = 0; rank < blocks_.size(); ++rank) {
    if (blocks_[rank]) answers.push_back({.rank = static_cast<int>(rank), .bytes = bytes});
    blocks_[rank].reset();
  }
  return answers;
}

std::optional<std::string> take_request(std::string& bytes) {
  uint32_t length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (bytes.size() < sizeof length + length) return std::nullopt;
  std::string block = bytes.substr(sizeof length, length);
  bytes.erase(0, sizeof length + length);
  return block;
}

}  // namespace isthmus::cli
