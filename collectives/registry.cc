// SPDX-License-Identifier: Apache-2.0
// The lists of algorithms, and the page generated from it. To add an algorithm, write its file and name it here. Cannot fail.
#include "collectives/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace isthmus::collectives {

extern const plan::Algorithm allreduce_one_shot, allreduce_recursive_doubling, allreduce_halving_doubling, allreduce_direct, allreduce_ring;
extern const plan::Algorithm reduce_scatter_halving, reduce_scatter_direct, reduce_scatter_ring;
extern const plan::Algorithm allgather_doubling, allgather_direct, allgather_ring;
extern const plan::Algorithm broadcast_binomial, broadcast_chain;
extern const plan::Algorithm reduce_binomial, reduce_chain;
extern const plan::Algorithm allreduce_hierarchy, reduce_scatter_hierarchy, allgather_hierarchy, broadcast_hierarchy, reduce_hierarchy;
extern const plan::Algorithm alltoall_direct, alltoall_hierarchy;
extern const plan::Algorithm barrier_one_shot, barrier_recursive_doubling;

extern const plan::Algorithm compressed_allreduce_direct, compressed_allreduce_halving, compressed_allreduce_ring;
extern const plan::Algorithm compressed_allreduce_root, compressed_allreduce_hierarchy, compressed_allreduce_two_shot;
extern const plan::Algorithm compressed_reduce_scatter_direct, compressed_reduce_scatter_halving, compressed_reduce_scatter_ring;
extern const plan::Algorithm compressed_reduce_scatter_root, compressed_reduce_scatter_hierarchy, compressed_reduce_scatter_one_shot;

Algorithms registry() {
  static constexpr const plan::Algorithm* kAll[] = {
      &allreduce_one_shot,
      &allreduce_recursive_doubling,
      &allreduce_halving_doubling,
      &allreduce_direct,
      &allreduce_ring,
      &allreduce_hierarchy,
      &reduce_scatter_halving,
      &reduce_scatter_direct,
      &reduce_scatter_ring,
      &reduce_scatter_hierarchy,
      &allgather_doubling,
      &allgather_direct,
      &allgather_ring,
      &allgather_hierarchy,
      &broadcast_binomial,
      &broadcast_chain,
      &broadcast_hierarchy,
      &reduce_binomial,
      &reduce_chain,
      &reduce_hierarchy,
      &alltoall_direct,
      &alltoall_hierarchy,
      &barrier_one_shot,
      &barrier_recursive_doubling,
  };
  return kAll;
}

Algorithms compressed_registry() {
  static constexpr const plan::Algorithm* kAll[] = {
      &compressed_allreduce_direct,      &compressed_allreduce_halving,        &compressed_allreduce_ring,
      &compressed_allreduce_root,        &compressed_allreduce_hierarchy,      &compressed_allreduce_two_shot,
      &compressed_reduce_scatter_direct, &compressed_reduce_scatter_halving,   &compressed_reduce_scatter_ring,
      &compressed_reduce_scatter_root,   &compressed_reduce_scatter_hierarchy, &compressed_reduce_scatter_one_shot,
  };
  return kAll;
}

namespace {

const plan::Algorithm* find_in(Algorithms list, Collective collective, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const plan::Algorithm* algorithm) {
    return algorithm->collective == collective && algorithm->name == name;
  });
  return found == list.end() ? nullptr : *found;
}

template <typename Wanted>
std::string names_in(Algorithms list, Collective collective, const Wanted& wanted) {
  std::string names;
  for (const plan::Algorithm* algorithm : list) {
    if (algorithm->collective != collective || !wanted(*algorithm)) continue;
    names += names.empty() ? "" : ", ";
    names += algorithm->name;
  }
  return names;
}

}  // namespace

const plan::Algorithm* find(Collective collective, std::string_view name) { return find_in(registry(), collective, name); }

const plan::Algorithm* find_compressed(Collective collective, std::string_view name) {
  return find_in(compressed_registry(), collective, name);
}

std::string names_of(Collective collective, int32_t ranks) {
  return names_in(registry(), collective, [&](const plan::Algorithm& algorithm) { return ranks == 0 || serves(algorithm, ranks); });
}

std::string compressed_names_of(Collective collective, const codec::Codec& codec) {
  return names_in(compressed_registry(), collective, [&](const plan::Algorithm& algorithm) { return codes_with(algorithm, codec); });
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
    words += fmt::format("{}{}", words.empty() ? "" : ", ", tunable.name);
    if (tunable.name != "across") words += fmt::format(" {}-{}", tunable.min, tunable.max);  // its values have rows of their own
  }
  return words.empty() ? "none" : words;
}

std::string_view codecs_words(plan::Coding coding) {
  switch (coding) {
    case plan::Coding::none:
      break;
    case plan::Coding::sums:
      return "thc";
    case plan::Coding::decoding:
      return "bf16, int8, int4";
  }
  return "none";
}

constexpr std::string_view kPageHead = R"(# Algorithms

This page is generated from the registry in `collectives/registry.cc`; a test compares the two, and another checks each formula
against the plans themselves for many rank counts.

*Steps* is the number of messages on the longest chain of messages that wait for each other. *Bytes* is what a rank sends, on average over
the ranks; rooted trees load their root more. P: ranks. N: bytes of the larger of the two buffers. lg: logarithm to base 2. K: the largest
power of two that is not above P. F: 0 if P is a power of two, else 1. hierarchy: for M sites of equally many ranks each, M from 2 on and
fewer than P; L and G: as K and F, of M.

*across* is how those who speak for sites exchange: direct, unless it says otherwise. direct: everybody with everybody, of an allreduce each
adds up a part; ring: each site with two others; one_shot: whole sums in one step, for small buffers and sites that are far away;
recursive_doubling: whole sums between pairs.

)";

constexpr std::string_view kPageCompressed = R"(
## Compressed

These carry out the calls that ask for a codec, and no others ([compression](compression.md)). I: bytes of the larger buffer encoded once.
W: of the sum of all ranks' encodings. Z: of its scales. The scales are joined in up to D steps that send X bytes: Z(P-1) in one step up to
8 ranks; above, as recursive_doubling does, Z(K lg K + 2(P-K))/P in ceil(lg P) + F steps. A sum of k encodings of the buffer has W(k) bytes.
R: the sum of W(k)/P for k from 1 to P-1. H: the sum of W(2^i)/2^(i+1) for i from 0 to lg P - 1, and about that for other rank counts.
hierarchy: for M from 2 to 8, and V = W(P/M).

)";

constexpr std::string_view kLegend = R"(
steps: messages on the longest chain of messages that wait for each other; bytes: what a rank sends, on average over the ranks.
P: ranks. N: bytes of the larger buffer. lg: logarithm to base 2. K: the largest power of two not above P. F: 0 if P is one, else 1.
M: sites, of equally many ranks each. L and G: as K and F, of M. across: how those who speak for sites exchange; direct where
nothing is said.
)";

constexpr std::string_view kLegendCompressed = R"(
For calls that ask for a codec. I: bytes of the larger buffer encoded once. W: of the sum of all. Z: of its scales.
D: steps to join the scales, 1 up to 8 ranks, else ceil(lg P) + F. X: bytes for that, Z(P-1), or Z(K lg K + 2(P-K))/P.
W(k): bytes of a sum of k. R: the sum of W(k)/P for k < P. H: the sum of W(2^i)/2^(i+1) for i < lg P. V: W(P/M).
)";

using Row = std::vector<std::string>;

/// A table with its head.
std::vector<Row> table_of(Algorithms list, bool codecs) {
  std::vector<Row> table = {{"collective", "algorithm", "codecs", "ranks", "tunables", "steps", "bytes"}};
  for (const plan::Algorithm* algorithm : list) {
    table.push_back({std::string(name_of(algorithm->collective)), std::string(algorithm->name),
                     std::string(codecs_words(algorithm->needs.coding)), ranks_words(algorithm->needs), tunables_words(algorithm->tunables),
                     std::string(algorithm->steps_formula), std::string(algorithm->bytes_formula)});
    for (const plan::Variant& variant : algorithm->variants) {
      Row row = table.back();
      row[1] = fmt::format("{}, across {}", algorithm->name, name_of(variant.across));
      row[4] = "";
      row[5] = variant.steps_formula;
      row[6] = variant.bytes_formula;
      table.push_back(std::move(row));
    }
  }
  if (!codecs) {
    for (Row& row : table) row.erase(row.begin() + 2);
  }
  return table;
}

std::string in_markdown(const std::vector<Row>& table) {
  std::string page;
  const auto add = [&](const Row& row) {
    for (const std::string& cell : row) page += fmt::format("| {} ", cell);
    page += "|\n";
  };
  add(table[0]);
  for (size_t at = 0; at < table[0].size(); ++at) page += "|---";
  page += "|\n";
  std::for_each(table.begin() + 1, table.end(), add);
  return page;
}

std::string in_text(const std::vector<Row>& table) {
  std::vector<size_t> widths(table[0].size(), 0);
  for (const Row& row : table) {
    for (size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], row[at].size());
  }
  std::string text;
  for (const Row& row : table) {
    for (size_t at = 0; at + 1 < row.size(); ++at) text += row[at] + std::string(widths[at] + 2 - row[at].size(), ' ');
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::string algorithms_markdown() {
  return std::string(kPageHead) + in_markdown(table_of(registry(), false)) + std::string(kPageCompressed) +
         in_markdown(table_of(compressed_registry(), true));
}

std::string algorithms_text() {
  return in_text(table_of(registry(), false)) + std::string(kLegend) + "\n" + in_text(table_of(compressed_registry(), true)) +
         std::string(kLegendCompressed);
}

}  // namespace isthmus::collectives
