// SPDX-License-Identifier: Apache-2.0
// Every target's codec kernels against the scalar ones, bit for bit: types, counts, strides, addresses, widths, group sizes, tables.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float_types.h"
#include "base/rng.h"
#include "kernels/targets.h"
#include "kernels/thc_arithmetic.h"

namespace isthmus::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

struct Work {
  alignas(64) float data[codec::kMaxGroup];
};

Bytes random_bytes(CounterRng& rng, size_t count) {
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next_u64());
  return bytes;
}

/// Finite values of all magnitudes, among them subnormal ones and zeros; like data otherwise.
Bytes random_elements(CounterRng& rng, DataType type, size_t count) {
  Bytes bytes(count * size_of(type));
  for (size_t i = 0; i < count; ++i) {
    const uint64_t kind = rng.below(16);
    float value = static_cast<float>((rng.uniform() - 0.5) * (kind == 0 ? 1e-5 : kind == 1 ? 300 : 4));
    if (kind == 2) value = 0;
    if (kind == 3) value = static_cast<float>(rng.uniform() * 1e-40);
    if (type == DataType::float32) std::memcpy(&bytes[i * 4], &value, 4);
    const auto half = Float16::from_float(value);
    const auto brain = BFloat16::from_float(value);
    if (type == DataType::float16) std::memcpy(&bytes[i * 2], &half, 2);
    if (type == DataType::bfloat16) std::memcpy(&bytes[i * 2], &brain, 2);
  }
  return bytes;
}

std::unique_ptr<const codec::Thc> made(const codec::ThcConfig& config, uint32_t ranks) {
  auto thc = codec::make_thc(config, ranks);
  EXPECT_TRUE(thc.ok()) << thc.status().text();
  return std::move(thc).value();
}

bool same(const float* a, const float* b, size_t count) { return std::memcmp(a, b, count * sizeof(float)) == 0; }

/// The first address in it that vectors of any size can be stored to past the caches.
uint8_t* aligned(Bytes& bytes) { return bytes.data() + (-reinterpret_cast<uintptr_t>(bytes.data()) & 63U); }

class KernelsThcTargets : public ::testing::TestWithParam<const Target*> {
 protected:
  [[nodiscard]] const ThcKernels& mine() const { return GetParam()->thc; }
  CounterRng rng_{21, 0};
};

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};

TEST_P(KernelsThcTargets, Load) {
  for (const DataType type : kTypes) {
    for (size_t count = 0; count <= 256; count += count < 140 ? 1 : 58) {
      for (const size_t stride : {1U, 3U}) {
        Work got, want;
        std::vector<float> residual(256 * 3);
        for (float& value : residual) value = static_cast<float>(rng_.uniform());
        const size_t offset = count % 5;
        Bytes data = random_elements(rng_, type, 256 * 3);
        data.insert(data.begin(), offset, uint8_t{0});
        const CodecInput in = {.data = data.data() + offset,
                               .type = type,
                               .stride = stride,
                               .count = count,
                               .residual = count % 2 == 0 ? nullptr : residual.data()};
        std::memset(got.data, 1, sizeof got.data);
        std::memset(want.data, 1, sizeof want.data);
        mine().load(got.data, in, 256);
        scalar::load(want.data, in, 256);
        ASSERT_TRUE(same(got.data, want.data, codec::kMaxGroup)) << name_of(type) << " count " << count << " stride " << stride;
      }
    }
  }
}

TEST_P(KernelsThcTargets, Store) {
  Work from;
  for (const DataType type : kTypes) {
    for (size_t count = 0; count <= 256; count += count < 140 ? 1 : 58) {
      for (const size_t stride : {1U, 3U}) {
        for (float& value : from.data) {
          const uint64_t kind = rng_.below(8);
          value = static_cast<float>((rng_.uniform() - 0.5) * (kind == 0 ? 1e-6 : kind == 1 ? 1e6 : 4));
          if (kind == 2) value = std::nanf("");
          if (kind == 3) value = std::bit_cast<float>(static_cast<uint32_t>(rng_.next_u64()) & 0xff8fffffU);  // may be infinite
          if (value != value) value = std::nanf("");
        }
        Bytes got(256 * 3 * 4 + 16, 7), want(got);
        const size_t offset = count % 5;
        mine().store({.data = got.data() + offset, .type = type, .stride = stride, .count = count}, from.data);
        scalar::store({.data = want.data() + offset, .type = type, .stride = stride, .count = count}, from.data);
        ASSERT_EQ(got, want) << name_of(type) << " count " << count << " stride " << stride;
      }
    }
  }
}

TEST_P(KernelsThcTargets, SquaresAndRotations) {
  for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
    for (int trial = 0; trial < 4; ++trial) {
      const Bytes data = random_elements(rng_, DataType::float32, elements + 3);
      const auto* from = reinterpret_cast<const float*>(data.data()) + trial % 3;
      const float got_sum = mine().squares(from, elements), want_sum = scalar::squares(from, elements);
      ASSERT_EQ(std::bit_cast<uint32_t>(got_sum), std::bit_cast<uint32_t>(want_sum)) << elements;
      Work got, want;
      const CodecKey key = {.seed = rng_.next_u64(), .op = rng_.next_u64() >> 8, .rank = 1, .ranks = 2};
      const ThcPlace place = {.position = rng_.below(64000) * codec::kUnitElements, .elements = elements};
      const float factor = trial % 2 == 0 ? 0.25F : 1;
      mine().rotate(got.data, from, key, place, factor);
      scalar::rotate(want.data, from, key, place, factor);
      ASSERT_TRUE(same(got.data, want.data, elements)) << elements;
      mine().unrotate(got.data, key, place, 0.3F);
      scalar::unrotate(want.data, key, place, 0.3F);
      ASSERT_TRUE(same(got.data, want.data, elements)) << elements;
    }
  }
}

constexpr std::pair<uint32_t, uint32_t> kTables[] = {{2, 3},  {2, 30}, {2, 255}, {3, 7},  {3, 30}, {3, 255}, {4, 15},  {4, 16},  {4, 21},
                                                     {4, 30}, {4, 31}, {4, 32},  {4, 51}, {4, 63}, {4, 85},  {4, 127}, {4, 255}, {8, 255}};

/// A quantiser that makes some coordinates leave the table at both ends, and with many bits some sums leave 16.
ThcQuantiser quantiser_for(CounterRng& rng, uint32_t granularity, float normaliser, double deviation) {
  int32_t shift = static_cast<int32_t>(rng.below(10)) - 3;
  while (shift > 0 && granularity * 128 << shift > 32767) --shift;
  return {.normaliser = normaliser,
          .factor = static_cast<float>(70.0 * granularity / deviation / normaliser * std::exp2(shift)),
          .shift = shift,
          .middle = granularity * 128,
          .stratum = static_cast<uint8_t>(rng.next_u64()),
          .counter = {1, 2, static_cast<uint32_t>(rng.next_u64())}};
}

TEST_P(KernelsThcTargets, EncodeWithEveryTable) {
  for (const auto& [bits, granularity] : kTables) {
    for (const uint32_t room : {1U, 2U, 5U, 17U, 33U, 257U}) {
      for (const uint32_t elements : {64U, 128U, 256U, 1024U}) {
        const auto thc = made({.bits = bits, .granularity = granularity}, 2);
        std::vector<float> from(elements + 3);
        for (float& value : from) value = static_cast<float>(rng_.uniform() - 0.5);
        const CodecKey key = {.seed = rng_.next_u64(), .op = rng_.next_u64() >> 8, .rank = 1, .ranks = 2};
        const ThcQuantiser q = quantiser_for(rng_, granularity, room % 2 == 0 ? 4 : 1, std::sqrt(elements / 12.0));
        const ThcPlace place = {.position = rng_.below(64000) * codec::kUnitElements, .elements = elements};
        Bytes got(elements * 2 + 64, 9), want(got);
        Work work;
        mine().encode(got.data() + 3, room, from.data() + room % 4, work.data, *thc, key, place, q, nullptr);
        scalar::encode(want.data() + 3, room, from.data() + room % 4, work.data, *thc, key, place, q, nullptr);
        ASSERT_EQ(got, want) << "b=" << bits << " g=" << granularity << " room " << room << " elements " << elements;
      }
    }
  }
}

/// Elements of all magnitudes, in groups of all sizes, to 256 levels; some of them where the scratch is.
TEST_P(KernelsThcTargets, EncodeGroupsOfAllSizes) {
  const auto thc = made({.bits = 8}, 1);
  for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
    for (int trial = 0; trial < 24; ++trial) {
      const Bytes data = random_elements(rng_, DataType::float32, elements + 3);
      const auto* from = reinterpret_cast<const float*>(data.data()) + trial % 3;
      const CodecKey key = {.seed = rng_.next_u64(), .op = rng_.next_u64() >> 8, .rank = 1, .ranks = 2};
      const ThcPlace place = {.position = rng_.below(64000) * codec::kUnitElements, .elements = elements};
      const ThcQuantiser q = quantiser_for(rng_, 255, trial % 2 == 0 ? 1 : 0.25F, 20 * std::sqrt(elements) * (trial % 5 == 0 ? 1e-3 : 1));
      Bytes got(elements), want(elements);
      Work work;
      if (trial % 4 == 3) {
        std::memcpy(work.data, from, elements * sizeof(float));
        from = work.data;
      }
      Work other = work;
      mine().encode(got.data(), 1, from, work.data, *thc, key, place, q, trial % 3 == 0 ? from : nullptr);
      scalar::encode(want.data(), 1, from == work.data ? other.data : from, other.data, *thc, key, place, q, nullptr);
      ASSERT_EQ(got, want) << elements;
    }
  }
}

TEST_P(KernelsThcTargets, AccumulateAndLevels) {
  for (const auto& [bits, granularity] : kTables) {
    const auto thc = made({.bits = bits, .granularity = granularity}, 2);
    for (const uint32_t room : {2U, 3U, 4U, 5U, 8U, 9U, 17U, 33U, 34U, 65U, 257U}) {
      for (const auto& [a_room, b_room] : {std::pair{1U, 1U}, {room - 1, 1U}, {room, 1U}, {1U, room}, {room, room}, {room / 2, room / 2}}) {
        const size_t units = 1 + rng_.below(9);
        const auto width = [&](uint32_t r) { return thc->width(r == 0 ? 1 : r); };
        const Bytes a = random_bytes(rng_, units * 8 * width(a_room) + 5), b = random_bytes(rng_, units * 8 * width(b_room) + 5);
        Bytes got(units * 8 * width(room) + 64, 9), want(got);
        mine().accumulate(got.data() + 1, room, a.data() + 2, a_room == 0 ? 1 : a_room, b.data() + 5, b_room == 0 ? 1 : b_room, units,
                          *thc);
        scalar::accumulate(want.data() + 1, room, a.data() + 2, a_room == 0 ? 1 : a_room, b.data() + 5, b_room == 0 ? 1 : b_room, units,
                           *thc);
        ASSERT_EQ(got, want) << "b=" << bits << " g=" << granularity << " room " << room << " of " << a_room << " and " << b_room;
        Work levels_got, levels_want;
        const auto elements = static_cast<uint32_t>(units * 64);
        mine().levels(levels_got.data, want.data() + 1, room, 2, elements, *thc);
        scalar::levels(levels_want.data, want.data() + 1, room, 2, elements, *thc);
        ASSERT_TRUE(same(levels_got.data, levels_want.data, elements)) << "b=" << bits << " g=" << granularity << " room " << room;
        mine().levels(levels_got.data, a.data() + 3, 1, 1, 64, *thc);
        scalar::levels(levels_want.data, a.data() + 3, 1, 1, 64, *thc);
        ASSERT_TRUE(same(levels_got.data, levels_want.data, 64));
      }
    }
  }
}

/// In place, as a rank that receives adds to what it holds.
TEST_P(KernelsThcTargets, AccumulateInPlace) {
  const auto thc = made({.granularity = 15}, 17);
  for (const uint32_t room : {17U, 33U}) {
    Bytes got = random_bytes(rng_, 64 * 8 * thc->width(room)), want(got);
    const Bytes other = random_bytes(rng_, 64 * 8 * 4);
    mine().accumulate(got.data(), room, got.data(), room, other.data(), 1, 64, *thc);
    scalar::accumulate(want.data(), room, want.data(), room, other.data(), 1, 64, *thc);
    EXPECT_EQ(got, want);
  }
}

/// Sums as decoders meet them, among them those whose transforms are as large as can be: table values that follow the rows of H.
TEST_P(KernelsThcTargets, DecodeSums) {
  for (const auto& [ranks, granularity] : {std::pair{2U, 127U}, {3U, 85U}, {8U, 31U}, {17U, 15U}, {15U, 16U}, {16U, 17U}, {1U, 255U}}) {
    const auto thc = made({.granularity = granularity}, ranks);
    const uint32_t most = ranks * granularity, width = thc->width(ranks);
    for (uint32_t elements = 64; elements <= codec::kMaxGroup; elements *= 2) {
      for (int trial = 0; trial < 6; ++trial) {
        const uint64_t row = trial < 2 ? 0 : rng_.below(elements);
        Bytes sums(elements / 8 * width + 3);
        for (uint32_t unit = 0; unit < elements; unit += 64) {
          uint16_t values[64];
          for (uint32_t place = 0; place < 64; ++place) {
            const bool high = (std::popcount((unit + element_at(place)) & row) + trial) % 2 == 1;
            values[place] = static_cast<uint16_t>(trial == 5 ? rng_.below(most + 1) : high ? most : 0);
          }
          pack_unit(sums.data() + 3 + unit / 8 * width, values, width);
        }
        Work work;
        std::vector<float> got(elements + 17), want(elements + 17);
        const CodecKey key = {.seed = rng_.next_u64(), .op = rng_.next_u64() >> 8, .rank = 1, .ranks = ranks};
        const ThcPlace place = {.position = rng_.below(64000) * codec::kUnitElements, .elements = elements};
        float* to = trial % 2 == 0 ? got.data() + 1 : reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(got.data()) + 63) / 64 * 64);
        mine().decode(to, work.data, sums.data() + 3, ranks, ranks, *thc, key, place, 0.3F, trial % 3 == 1);
        scalar::decode(want.data(), work.data, sums.data() + 3, ranks, ranks, *thc, key, place, 0.3F, false);
        ASSERT_TRUE(same(to, want.data(), elements)) << "g=" << granularity << " elements " << elements << " row " << row;
        mine().decode(work.data, work.data, sums.data() + 3, ranks, ranks, *thc, key, place, 0.3F, false);
        ASSERT_TRUE(same(work.data, want.data(), elements)) << "in work: g=" << granularity << " elements " << elements;
      }
    }
  }
}

/// Everything together, on all types: encodings, residuals and results.
TEST_P(KernelsThcTargets, EncodeAndDecode) {
  for (const DataType type : kTypes) {
    for (const uint32_t elements : {64U, 256U, 4096U}) {
      for (const size_t missing : {0U, 1U, 37U}) {
        const auto thc = made({.feedback = missing == 1}, 4);
        const Bytes data = random_elements(rng_, type, elements);
        std::vector<float> residual(elements, 0.125F), other_residual(residual);
        Bytes got(elements), want(elements), out(elements * 4 + 64), other_out(elements * 4 + 64);
        Work work;
        const CodecKey key = {.seed = 7, .op = elements, .rank = 2, .ranks = 4};
        const ThcPlace place = {.position = uint64_t{elements} * 3 + codec::kUnitElements, .elements = elements};
        const auto run = [&](const Target& target, Bytes& bytes, std::vector<float>& kept, Bytes& result) {
          const CodecInput in = {.data = data.data(), .type = type, .count = elements - missing, .residual = kept.data()};
          const float scale = thc_measure(target, in, elements, work.data);
          thc_encode(target, bytes.data(), 1, in, kept.data(), *thc, key, place, {.own = scale, .joined = 1.1F * scale}, work.data);
          thc_decode(target, {.data = aligned(result), .type = type, .count = elements - missing, .past_caches = missing == 0},
                     bytes.data(), 1, 1, 4, *thc, key, place, 1.1F * scale, work.data);
        };
        run(*GetParam(), got, residual, out);
        run(kScalarTarget, want, other_residual, other_out);
        ASSERT_EQ(got, want) << name_of(type) << ' ' << elements;
        ASSERT_TRUE(same(residual.data(), other_residual.data(), elements));
        ASSERT_EQ(std::memcmp(aligned(out), aligned(other_out), elements * 4), 0);
      }
    }
  }
}

std::string target_name(const ::testing::TestParamInfo<const Target*>& info) { return std::string(info.param->name); }

INSTANTIATE_TEST_SUITE_P(All, KernelsThcTargets, ::testing::ValuesIn(available_targets().begin(), available_targets().end()), target_name);

}  // namespace
}  // namespace isthmus::kernels
