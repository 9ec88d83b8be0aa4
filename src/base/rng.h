// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers (Philox 4x32-10 of Random123): a pure function of (seed, stream, index), equal on every machine.
// Used by the simulator, tests, codecs and jitter; never for secrets (that is random_bytes in crypto.h). Cannot fail.
#pragma once

#include <Random123/philox.h>

#include <cassert>
#include <cstdint>

namespace isthmus {

class CounterRng {
 public:
  /// Equal seeds and different streams give independent sequences.
  CounterRng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint64_t next_u64() {
    if (!has_spare_) refill();
    has_spare_ = !has_spare_;
    return has_spare_ ? first_ : spare_;
  }
  /// In [0, 1), 53 random bits.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  /// In [0, n), exactly uniform. Requires n > 0.
  uint64_t below(uint64_t n) {
    assert(n > 0);
    const uint64_t unfair = (0 - n) % n;  // 2^64 mod n: that many values at the bottom would make some results likelier
    uint64_t value = next_u64();
    while (value < unfair) value = next_u64();
    return value % n;
  }
  bool chance(double probability) { return uniform() < probability; }

 private:
  void refill() {
    const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
    const r123::Philox4x32::ctr_type counter = {{low(index_), high(index_), low(stream_), high(stream_)}};
    const r123::Philox4x32::key_type key = {{low(seed_), high(seed_)}};
    const auto block = r123::Philox4x32()(counter, key);
    first_ = uint64_t{block[1]} << 32 | block[0];
    spare_ = uint64_t{block[3]} << 32 | block[2];
    ++index_;
  }

  uint64_t seed_, stream_, index_ = 0;
  uint64_t first_ = 0, spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace isthmus
