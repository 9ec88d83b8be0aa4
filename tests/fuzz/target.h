// SPDX-License-Identifier: Apache-2.0
// What a fuzz target is: a function that must survive any bytes, and inputs to begin with. Each target is one file that defines both.
// libfuzzer.cc makes a fuzzer of it, replay.cc a test that runs everywhere. A broken promise ends the process with its text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

namespace isthmus::fuzz {

using Bytes = std::vector<std::byte>;
using Input = std::span<const std::byte>;

/// Feeds `input` to the parser and checks what must hold of whatever it accepts.
void run(Input input);
/// Valid inputs, made by the encoders, so that they follow every change of a format.
std::vector<Bytes> seeds();

inline Bytes to_bytes(Input input) { return {input.begin(), input.end()}; }
inline Bytes to_bytes(std::string_view text) { return to_bytes(std::as_bytes(std::span(text))); }
inline std::string_view text_of(Input input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

/// One byte, which says how to read the rest, and the rest.
inline Bytes tagged(uint8_t tag, Input rest) {
  Bytes all;
  all.push_back(static_cast<std::byte>(tag));
  for (const std::byte byte : rest) all.push_back(byte);
  return all;
}

/// Removes the first byte of `input` and returns it; 0 when there is none.
inline uint8_t take_byte(Input& input) {
  if (input.empty()) return 0;
  const auto byte = static_cast<uint8_t>(input.front());
  input = input.subspan(1);
  return byte;
}

inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace isthmus::fuzz
