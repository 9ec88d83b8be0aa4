// SPDX-License-Identifier: Apache-2.0
// The gradient's way through the network: its buffers, and its average over the ranks, exact or through a codec, with what that cost. Used
// by the trainer. Throws sweep::Failure when a library call fails, a codec that is refused among them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "isthmus.h"

namespace training {

/// Memory of ncclMemAlloc, all zeros.
class Buffer {
 public:
  explicit Buffer(size_t floats);
  [[nodiscard]] std::span<float> values() { return {memory_.get(), floats_}; }

 private:
  struct Release {
    void operator()(float* memory) const { static_cast<void>(ncclMemFree(memory)); }
  };
  std::unique_ptr<float, Release> memory_;
  size_t floats_;
};

class Averager {
 public:
  /// `codec`: "none", or what isthmusCompression_t takes; with ef=on there is error feedback.
  Averager(ncclComm_t comm, std::string codec, size_t floats);
  ~Averager();
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  /// This rank's gradient, to be written before average().
  [[nodiscard]] std::span<float> own() { return own_.values(); }
  /// The ranks' average, after it.
  [[nodiscard]] std::span<float> averaged() { return averaged_.values(); }
  void average();
  /// Feedback as it was in the beginning, and counts from here on.
  void restart();

  /// Spent in average() since restart(), in which a rank also waits for others and encodes.
  [[nodiscard]] double seconds() const { return seconds_; }
  /// Bytes of encodings that this rank sent since restart(); 0 for codec "none".
  [[nodiscard]] uint64_t encoded_bytes() const { return info().totalSentBytes - sent_before_; }
  /// What the library says about the communicator's compressed calls.
  [[nodiscard]] isthmusCompressionInfo_t info() const;
  [[nodiscard]] bool compresses() const { return codec_ != "none"; }

 private:
  ncclComm_t comm_;
  std::string codec_;
  Buffer own_, averaged_;
  isthmusFeedback_t feedback_ = nullptr;
  isthmusCompression_t how_ = ISTHMUS_COMPRESSION_INITIALIZER;
  double seconds_ = 0;
  uint64_t sent_before_ = 0;
};

}  // namespace training
