// SPDX-License-Identifier: Apache-2.0
// Every target that this CPU can run against the scalar one, bit for bit: all types, operators and maps, every short count, odd
// addresses, results over operands, all pairs of 8-bit floats, other floating-point environments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/float_types.h"
#include "base/sanitizers.h"
#include "kernels/reduce.h"
#include "kernels/targets.h"
#include "kernels_values.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace isthmus::kernels {
namespace {

using Bytes = std::vector<std::byte>;

enum class Alias { none, dst_is_a, dst_is_b };

struct Call {
  DataType type;
  ReduceOp op;
  ReduceMaps maps;
  size_t count;
  Alias alias;
  size_t offset;  ///< bytes that every operand starts after an aligned address

  [[nodiscard]] ReduceFn function(const Target& target) const { return target.reduce[static_cast<size_t>(type)][static_cast<size_t>(op)]; }
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << name_of(call.type) << ' ' << name_of(call.op) << " of " << call.count << " elements, offset " << call.offset << ", alias "
             << static_cast<int>(call.alias) << ", map " << call.maps.map_in << ", divisor " << call.maps.divisor;
}

/// An operand between margins that no kernel may touch.
struct Operand {
  static constexpr size_t kMargin = 64;
  Bytes storage;
  size_t begin;

  Operand(Values& values, const Call& call)
      : storage(call.count * size_of(call.type) + call.offset + 2 * kMargin), begin(kMargin + call.offset) {
    values.fill(storage.data(), storage.size() / size_of(call.type));
    values.fill(data(), call.count);
  }
  std::byte* data() { return storage.data() + begin; }
};

/// Everything that a call leaves in memory: all three operands with their margins.
std::vector<Bytes> after(const Target& target, const Call& call, Operand a, Operand b, Operand dst) {
  Operand& to = call.alias == Alias::dst_is_a ? a : call.alias == Alias::dst_is_b ? b : dst;
  call.function(target)(to.data(), a.data(), b.data(), call.count, call.maps);
  return {a.storage, b.storage, dst.storage};
}

ReduceMaps maps_with(bool map_in, uint64_t pattern, uint32_t divisor) {
  ReduceMaps maps{.map_in = map_in, .scalar = {}, .divisor = divisor};
  std::memcpy(maps.scalar.bytes.data(), &pattern, sizeof pattern);
  return maps;
}

class KernelsTargets : public ::testing::TestWithParam<const Target*> {
 public:
  void expect_scalar_result(const Call& call, Values& values) {
    const Operand a(values, call), b(values, call), dst(values, call);
    ASSERT_EQ(after(*GetParam(), call, a, b, dst), after(kScalarTarget, call, a, b, dst)) << call;
  }
};

TEST_P(KernelsTargets, EveryCombinationAndCount) {
  for (const DataType type : kAllTypes) {
    Values values(type, 11);
    for (const ReduceOp op : kCombiningOps) {
      for (const auto& [map_in, divisor] : {std::pair{false, 1U}, {true, 1U}, {false, 3U}, {true, 10U}, {false, 0xffff'ffffU}}) {
        for (size_t count = 0; count <= 140; count += count < 70 ? 1 : 35) {
          const auto alias = static_cast<Alias>(count % 3);
          const Call call{type, op, maps_with(map_in, values.next(), divisor), count, alias, count % 5};
          ASSERT_NO_FATAL_FAILURE(expect_scalar_result(call, values));
        }
      }
    }
  }
}

TEST_P(KernelsTargets, EveryAliasAndOffset) {
  for (const DataType type : kAllTypes) {
    Values values(type, 12);
    for (const Alias alias : {Alias::none, Alias::dst_is_a, Alias::dst_is_b}) {
      for (size_t offset = 0; offset < 17; ++offset) {
        ASSERT_NO_FATAL_FAILURE(expect_scalar_result({type, ReduceOp::sum, {}, 97, alias, offset}, values));
      }
    }
  }
}

TEST_P(KernelsTargets, ManyElements) {
  for (const DataType type : kAllTypes) {
    Values values(type, 13);
    for (const ReduceOp op : kCombiningOps) {
      ASSERT_NO_FATAL_FAILURE(expect_scalar_result({type, op, {}, 100'003, Alias::none, 1}, values));
      ASSERT_NO_FATAL_FAILURE(expect_scalar_result({type, op, maps_with(true, values.next(), 7), 20'001, Alias::dst_is_a, 0}, values));
    }
  }
}

// All pairs of 8-bit floats, plain and with every scalar.
TEST_P(KernelsTargets, AllPairsOfFloat8) {
  Bytes a(65536), b(65536), got(65536), want(65536);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::byte>(i), b[i] = static_cast<std::byte>(i >> 8);
  for (const DataType type : {DataType::float8e4m3, DataType::float8e5m2}) {
    for (const ReduceOp op : kCombiningOps) {
      const Call call{type, op, {}, a.size(), Alias::none, 0};
      call.function (*GetParam())(got.data(), a.data(), b.data(), a.size(), {});
      call.function(kScalarTarget)(want.data(), a.data(), b.data(), a.size(), {});
      ASSERT_EQ(got, want) << call;
    }
    for (uint32_t scalar = 0; scalar < 256; ++scalar) {
      const ReduceMaps maps = maps_with(true, scalar, scalar % 3);
      const auto row = static_cast<size_t>(type);
      GetParam()->map[row](got.data(), a.data(), 256, maps);
      kScalarTarget.map[row](want.data(), a.data(), 256, maps);
      ASSERT_EQ(got, want) << name_of(type) << " map by code " << scalar;
    }
  }
}

// All codes of the 16-bit floats, multiplied so that results reach every rounding, overflow and the subnormals.
TEST_P(KernelsTargets, AllCodesOfFloat16) {
  Bytes a(2 * 65536), got(a.size()), want(a.size());
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto narrow = static_cast<uint16_t>(code);
    std::memcpy(a.data() + 2 * code, &narrow, 2);
  }
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    Values values(type, 14);
    const auto row = static_cast<size_t>(type);
    std::vector<uint64_t> scalars = special_patterns(type);
    for (int i = 0; i < 40; ++i) scalars.push_back(values.next());
    std::vector<ReduceMaps> all_maps = {maps_with(false, 0, 1), maps_with(false, 0, 5)};
    for (const uint64_t scalar : scalars) all_maps.push_back(maps_with(true, scalar, 1));
    for (const ReduceMaps& maps : all_maps) {
      GetParam()->map[row](got.data(), a.data(), 65536, maps);
      kScalarTarget.map[row](want.data(), a.data(), 65536, maps);
      ASSERT_EQ(got, want) << name_of(type) << ", map number " << &maps - all_maps.data();
    }
  }
}

TEST_P(KernelsTargets, MapEveryCountInPlace) {
  for (const DataType type : kAllTypes) {
    Values values(type, 15);
    for (size_t count = 0; count <= 70; ++count) {
      for (const auto& [map_in, divisor] : {std::pair{false, 1U}, {true, 1U}, {false, 3U}, {true, 2U}}) {
        const ReduceMaps maps = maps_with(map_in, values.next(), divisor);
        Bytes got((count + 2) * size_of(type));
        values.fill(got.data(), count + 2);
        Bytes want = got;
        GetParam()->map[static_cast<size_t>(type)](got.data() + size_of(type), got.data() + size_of(type), count, maps);
        kScalarTarget.map[static_cast<size_t>(type)](want.data() + size_of(type), want.data() + size_of(type), count, maps);
        ASSERT_EQ(got, want) << name_of(type) << " map of " << count << ", map " << map_in << ", divisor " << divisor;
      }
    }
  }
}

TEST_P(KernelsTargets, CopyCopies) {
  Values values(DataType::uint8, 16);
  for (size_t bytes : {0, 1, 7, 8, 63, 64, 65, 4096, 300'001}) {
    Bytes from(bytes + 1), to(bytes + 2, std::byte{7});
    values.fill(from.data(), from.size());
    GetParam()->copy(to.data() + 1, from.data() + 1, bytes);
    EXPECT_TRUE(std::equal(from.begin() + 1, from.end(), to.begin() + 1));
    EXPECT_EQ(to.front(), std::byte{7});
    EXPECT_EQ(to.back(), std::byte{7});
  }
}

#if defined(__SSE2__)
// Whatever the program has asked the processor for, it gets the same results as its peers, and its wishes back.
TEST_P(KernelsTargets, TheCallersFloatEnvironmentDoesNotMatter) {
  constexpr unsigned kRoundUp = 0x5f80, kFlushSubnormals = 0x9fc0, kTrapInvalid = 0x1f00, kFlags = 0x3f;
  const unsigned before = _mm_getcsr();
  for (const DataType type : kAllTypes) {
    Values values(type, 17);
    for (const ReduceOp op : kCombiningOps) {
      for (const unsigned control : {kRoundUp, kFlushSubnormals, kTrapInvalid}) {
        for (const ReduceMaps& maps : {ReduceMaps{}, maps_with(true, values.next(), 3)}) {
          const Call call{type, op, maps, 333, Alias::none, 0};
          const Operand a(values, call), b(values, call), dst(values, call);
          const auto want = after(kScalarTarget, call, a, b, dst);
          _mm_setcsr(control);
          const auto got = after(*GetParam(), call, a, b, dst);
          const unsigned left = _mm_getcsr();
          _mm_setcsr(before);
          ASSERT_EQ(got, want) << call << " under " << control;
          ASSERT_EQ(left & ~kFlags, control) << call;
        }
      }
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Available, KernelsTargets, ::testing::ValuesIn(available_targets().begin(), available_targets().end()),
                         [](const auto& target) { return std::string(target.param->name); });

TEST(KernelsSelect, ByNameOrTheBest) {
  const auto targets = available_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.front()->name, "scalar");
  for (const Target* target : targets) EXPECT_EQ(&select_target(target->name), target);
  EXPECT_EQ(&select_target(), kSanitized ? targets.front() : targets.back());
  EXPECT_EQ(&select_target("mmx"), &select_target());
}

TEST(KernelsSelect, EveryTableIsComplete) {
  for (const Target* target : available_targets()) {
    for (const DataType type : kAllTypes) {
      EXPECT_NE(target->map[static_cast<size_t>(type)], nullptr);
      for (const ReduceOp op : kCombiningOps) EXPECT_NE(target->reduce[static_cast<size_t>(type)][static_cast<size_t>(op)], nullptr);
    }
  }
}

#if defined(__x86_64__)
// The compiler's own table agrees with ours on what it knows.
TEST(KernelsSelect, CpuDetectionAgreesWithTheCompiler) {
  const CpuFeatures cpu = detect_cpu();
  EXPECT_EQ(cpu.sse4, __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("ssse3") != 0);
  EXPECT_EQ(cpu.avx2, __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("bmi2") != 0);
  EXPECT_EQ(cpu.avx512, __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                            __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512cd") != 0);
}
#endif

TEST(Stream, CopiesEveryByteAndNoOther) {
  for (const Target* target : available_targets()) {
    for (const size_t bytes : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 1000U, 4096U, 70'001U}) {
      for (const size_t offset : {0U, 1U, 31U, 63U}) {
        Bytes from(bytes + 128), to(bytes + 128, std::byte{0xee});
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 3);
        Bytes expected = to;
        std::copy_n(from.begin() + 5, bytes, expected.begin() + static_cast<std::ptrdiff_t>(offset));
        target->stream(to.data() + offset, from.data() + 5, bytes);
        EXPECT_EQ(to, expected) << target->name << ", " << bytes << " bytes to offset " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels
