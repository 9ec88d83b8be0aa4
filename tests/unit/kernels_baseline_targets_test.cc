// SPDX-License-Identifier: Apache-2.0
// Every target's kernels of the codecs that rotate nothing against the scalar ones, bit for bit: types, counts, odd addresses, residuals,
// special values, other floating-point environments; and that nothing beside the results is written.
#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "base/float_types.h"
#include "base/rng.h"
#include "kernels/targets.h"
#include "kernels_baseline.h"
#include "kernels_values.h"

namespace isthmus::kernels {
namespace {

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};
constexpr size_t kMargin = 64;

struct Call {
  const codec::Codec* codec;
  DataType in_type, out_type;
  size_t count;
  size_t offset;  ///< bytes that operands start after an aligned address
  bool residual, past_caches;
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << call.codec->name << ' ' << name_of(call.in_type) << " to " << name_of(call.out_type) << ", " << call.count
             << " elements, offset " << call.offset << ", residual " << call.residual << ", past caches " << call.past_caches;
}

/// Memory between margins that no kernel may touch.
struct Memory {
  ByteVector bytes;
  size_t begin, size;

  Memory(size_t count, size_t offset) : bytes(count + offset + 3 * kMargin, 0xa5), size(count) {
    begin = kMargin + (-reinterpret_cast<uintptr_t>(bytes.data()) & 63U) + offset;
  }
  uint8_t* data() { return bytes.data() + begin; }
  /// What is there and in its margins.
  [[nodiscard]] ByteVector contents() const {
    const auto at = bytes.begin() + static_cast<ptrdiff_t>(begin - kMargin);
    return {at, at + static_cast<ptrdiff_t>(size + 2 * kMargin)};
  }
};

/// Half of special patterns, or ordinary values (in which blocks have scales).
ByteVector elements(DataType type, size_t count, uint32_t seed, bool special) {
  ByteVector bytes(count * size_of(type));
  if (special) {
    Values(type, seed).fill(bytes.data(), count);
    return bytes;
  }
  CounterRng rng(seed, 1);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>((rng.uniform() - 0.5) * (rng.below(64) == 0 ? 1e-39 : 3));
    const auto half = Float16::from_float(value);
    const auto brain = BFloat16::from_float(value);
    if (type == DataType::float32) std::memcpy(&bytes[i * 4], &value, 4);
    if (type == DataType::float16) std::memcpy(&bytes[i * 2], &half, 2);
    if (type == DataType::bfloat16) std::memcpy(&bytes[i * 2], &brain, 2);
  }
  return bytes;
}

/// A call's operands.
struct Operands {
  Call call;
  uint32_t seed;
  Memory in, code, out;
  std::vector<float> residual;
  PieceWork work;

  Operands(const Call& c, uint32_t s)
      : call(c),
        seed(s),
        in(c.count * size_of(c.in_type), c.offset),
        code(c.codec->encoded_bytes(*c.codec, c.count, 1), c.offset),
        out(c.count * size_of(c.out_type), c.offset),
        residual(c.count, 0.0078125F) {
    const ByteVector source = elements(c.in_type, c.count, seed, seed % 2 == 0);
    if (!source.empty()) std::memcpy(in.data(), source.data(), source.size());
  }

  void encode_and_decode(const Target& target) {
    const CodecKey key = {.seed = 5, .op = seed, .rank = 2, .ranks = 3};
    float* kept = call.residual ? residual.data() : nullptr;
    const CodecInput from = {.data = in.data(), .type = call.in_type, .count = call.count, .residual = kept};
    const CodecOutput to = {.data = out.data(), .type = call.out_type, .count = call.count, .past_caches = call.past_caches};
    baseline_encode(target, *call.codec, code.data(), from, kept, key, uint64_t{seed} * 32, work.data);
    baseline_decode(target, *call.codec, to, code.data(), work.data);
  }

  /// Everything that is in memory now.
  [[nodiscard]] std::vector<ByteVector> contents() const {
    ByteVector kept(call.count * sizeof(float));
    if (!kept.empty()) std::memcpy(kept.data(), residual.data(), kept.size());
    return {in.contents(), code.contents(), out.contents(), kept};
  }
};

std::vector<ByteVector> after(const Target& target, const Call& call, uint32_t seed) {
  Operands operands(call, seed);
  operands.encode_and_decode(target);
  return operands.contents();
}

class KernelsBaselineTargets : public ::testing::TestWithParam<const Target*> {
 protected:
  void expect_scalar_result(const Call& call, uint32_t seed) const {
    ASSERT_EQ(after(*GetParam(), call, seed), after(kScalarTarget, call, seed)) << call;
  }
};

TEST_P(KernelsBaselineTargets, EveryCount) {
  for (const codec::Codec* codec : codec::registry()) {
    for (size_t count = 0; count <= 4096; count += count == 100 ? 3995 : 1) {
      for (const DataType type : kTypes) {
        for (const bool residual : {false, true}) {
          const auto seed = static_cast<uint32_t>(count + (residual ? 1 : 0));
          expect_scalar_result({codec, type, type, count, count % 5, residual, count % 2 == 0}, seed);
        }
      }
    }
  }
}

TEST_P(KernelsBaselineTargets, EveryAddressAndPairOfTypes) {
  uint32_t seed = 0;
  for (const codec::Codec* codec : codec::registry()) {
    for (size_t offset = 0; offset < 64; ++offset) {
      for (const DataType in_type : kTypes) {
        for (const DataType out_type : kTypes) {
          expect_scalar_result({codec, in_type, out_type, 224, offset, false, true}, ++seed);
        }
      }
    }
  }
}

/// Bytes that no encoder writes have one meaning too.
TEST_P(KernelsBaselineTargets, DecodeAnyBytes) {
  CounterRng rng(4, 0);
  for (const codec::Codec* codec : codec::registry()) {
    for (int trial = 0; trial < 50; ++trial) {
      ByteVector bytes(codec->encoded_bytes(*codec, 4096, 1));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next_u64());
      const auto got = decoded(*GetParam(), *codec, bytes, 4096), want = decoded(kScalarTarget, *codec, bytes, 4096);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), 4096 * sizeof(float)), 0) << codec->name;
    }
  }
}

#if defined(__SSE2__)
// A program's flushing, rounding mode and traps change neither results nor are they changed.
TEST_P(KernelsBaselineTargets, TheFloatEnvironmentDoesNotMatter) {
  constexpr unsigned kFlags = 0x3f;
  const unsigned before = _mm_getcsr();
  for (const unsigned control : {0x9fc0U, 0x1f80U | 0x2000U, 0x1f80U | 0x4000U, 0x1f80U | 0x6000U, 0x0000U}) {
    for (const codec::Codec* codec : codec::registry()) {
      for (uint32_t seed = 0; seed < 8; ++seed) {
        const Call call = {codec, DataType::float32, DataType::float32, 999, 0, seed % 4 < 2, false};
        const auto want = after(kScalarTarget, call, seed);
        Operands operands(call, seed);
        _mm_setcsr(control);
        operands.encode_and_decode(*GetParam());
        const unsigned left = _mm_getcsr();
        _mm_setcsr(before);
        ASSERT_EQ(operands.contents(), want) << call << " under " << control;
        ASSERT_EQ(left & ~kFlags, control) << call;
      }
    }
  }
}
#endif

std::string target_name(const ::testing::TestParamInfo<const Target*>& info) { return std::string(info.param->name); }

INSTANTIATE_TEST_SUITE_P(All, KernelsBaselineTargets, ::testing::ValuesIn(available_targets().begin(), available_targets().end()),
                         target_name);

}  // namespace
}  // namespace isthmus::kernels
