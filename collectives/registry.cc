// SPDX-License-Identifier: Apache-2.0
// The one list of algorithms, and the page generated from it. To add an algorithm, write its file and name it here. Cannot fail.
#include "collectives/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace isthmus::collectives {

extern const plan::Algorithm allreduce_one_shot, allreduce_recursive_doubling, allreduce_halving_doubling, allreduce_direct, allreduce_ring;
extern const plan::Algorithm reduce_scatter_halving, reduce_scatter_direct, reduce_scatter_ring;
extern const plan::Algorithm allgather_doubling, allgather_direct, allgather_ring;
extern const plan::Algorithm broadcast_binomial, broadcast_chain;
extern const plan::Algorithm reduce_binomial, reduce_chain;
extern const plan::Algorithm barrier_one_shot, barrier_recursive_doubling;

std::span<const plan::Algorithm* const> registry() {
  static constexpr const plan::Algorithm* kAll[] = {
      &allreduce_one_shot,
      &allreduce_recursive_doubling,
      &allreduce_halving_doubling,
      &allreduce_direct,
      &allreduce_ring,
      &reduce_scatter_halving,
      &reduce_scatter_direct,
      &reduce_scatter_ring,
      &allgather_doubling,
      &allgather_direct,
      &allgather_ring,
      &broadcast_binomial,
      &broadcast_chain,
      &reduce_binomial,
      &reduce_chain,
      &barrier_one_shot,
      &barrier_recursive_doubling,
  };
  return kAll;
}

const plan::Algorithm* find(Collective collective, std::string_view name) {
  for (const plan::Algorithm* algorithm : registry()) {
    if (algorithm->collective == collective && algorithm->name == name) return algorithm;
  }
  return nullptr;
}

std::string names_of(Collective collective, int32_t ranks) {
  std::string names;
  for (const plan::Algorithm* algorithm : registry()) {
    if (algorithm->collective != collective || (ranks > 0 && !serves(*algorithm, ranks))) continue;
    names += names.empty() ? "" : ", ";
    names += algorithm->name;
  }
  return names;
}

namespace {

std::string ranks_words(const plan::Needs& needs) {
  std::string words = needs.power_of_two ? "powers of two" : "any";
  if (needs.min_ranks > 1) words += fmt::format(" from {}", needs.min_ranks);
  if (needs.max_ranks < INT32_MAX) words += fmt::format(" up to {}", needs.max_ranks);
  return words;
}

std::string tunables_words(std::span<const plan::Tunable> tunables) {
  std::string words;
  for (const plan::Tunable& tunable : tunables) {
    words += fmt::format("{}{} {}-{}", words.empty() ? "" : ", ", tunable.name, tunable.min, tunable.max);
  }
  return words.empty() ? "none" : words;
}

constexpr std::string_view kPageHead = R"(# Algorithms

This page is generated from the registry in `collectives/registry.cc`; a test compares the two, and another checks each formula
against the plans themselves for many rank counts.

*Steps* is the number of messages on the longest chain of messages that wait for each other. *Bytes* is what a rank sends, on average over
the ranks; rooted trees load their root more. P: ranks. N: bytes of the larger of the two buffers. lg: logarithm to base 2. K: the largest
power of two that is not above P. F: 0 if P is a power of two, else 1.

| collective | algorithm | ranks | tunables | steps | bytes |
|---|---|---|---|---|---|
)";

constexpr std::string_view kLegend = R"(
steps: messages on the longest chain of messages that wait for each other; bytes: what a rank sends, on average over the ranks.
P: ranks. N: bytes of the larger buffer. lg: logarithm to base 2. K: the largest power of two not above P. F: 0 if P is one, else 1.
)";

constexpr size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

std::vector<Row> rows() {
  std::vector<Row> found;
  for (const plan::Algorithm* algorithm : registry()) {
    found.push_back({std::string(name_of(algorithm->collective)), std::string(algorithm->name), ranks_words(algorithm->needs),
                     tunables_words(algorithm->tunables), std::string(algorithm->steps_formula), std::string(algorithm->bytes_formula)});
  }
  return found;
}

}  // namespace

std::string algorithms_markdown() {
  std::string page(kPageHead);
  for (const Row& row : rows()) {
    for (const std::string& cell : row) page += fmt::format("| {} ", cell);
    page += "|\n";
  }
  return page;
}

std::string algorithms_text() {
  std::vector<Row> table = {{"collective", "algorithm", "ranks", "tunables", "steps", "bytes"}};
  for (Row& row : rows()) table.push_back(std::move(row));
  std::array<size_t, kColumns> widths{};
  for (const Row& row : table) {
    for (size_t at = 0; at < kColumns; ++at) widths[at] = std::max(widths[at], row[at].size());
  }
  std::string text;
  for (const Row& row : table) {
    for (size_t at = 0; at + 1 < kColumns; ++at) text += row[at] + std::string(widths[at] + 2 - row[at].size(), ' ');
    text += row.back() + "\n";
  }
  return text + std::string(kLegend);
}

}  // namespace isthmus::collectives
