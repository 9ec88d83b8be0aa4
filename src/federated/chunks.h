// SPDX-License-Identifier: Apache-2.0
// Work over many rows on a few threads, with results that do not depend on how many: rows are cut into chunks of one size, each chunk's
// result is its own, and whoever adds them up does so in the chunks' order. Used by clustering. Where no thread can be had, this one works.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace isthmus::federated {

inline constexpr size_t kChunkRows = 4096;

inline size_t chunks_of(size_t rows) { return (rows + kChunkRows - 1) / kChunkRows; }

/// Calls work(i) for each i below `count`, in any order, on at most `threads` threads; returns when all are done. `work` must not throw.
template <typename Work>
void for_each(size_t count, uint32_t threads, const Work& work) {
  std::atomic<size_t> next{0};
  const auto serve = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i) {
    try {
      helpers.emplace_back(serve);
    } catch (const std::system_error&) {  // no more threads: the others do it all
      break;
    }
  }
  serve();
  for (std::thread& helper : helpers) helper.join();
}

/// Calls work(chunk, first, last) for each chunk of rows [first, last).
template <typename Work>
void for_chunks(size_t rows, uint32_t threads, const Work& work) {
  for_each(chunks_of(rows), threads, [&](size_t chunk) { work(chunk, chunk * kChunkRows, std::min(rows, (chunk + 1) * kChunkRows)); });
}

}  // namespace isthmus::federated
