// SPDX-License-Identifier: Apache-2.0
// Makes a libFuzzer program of a target. ./dev fuzz runs it.
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
