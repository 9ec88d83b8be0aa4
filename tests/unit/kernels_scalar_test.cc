// SPDX-License-Identifier: Apache-2.0
// The scalar target against an independent definition: integers in 128 bits and cut off, floats in a format so much wider that
// rounding once more gives the correctly rounded result, order by value and then sign.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/float_types.h"
#include "kernels/reduce.h"
#include "kernels/targets.h"
#include "kernels_values.h"

namespace isthmus::kernels {
namespace {

__extension__ using SignedWide = __int128;
__extension__ using UnsignedWide = unsigned __int128;
template <typename T>
using Wide = std::conditional_t<std::is_signed_v<T>, SignedWide, UnsignedWide>;
__extension__ using Quad = __float128;

struct Maps {
  bool map_in;
  uint32_t divisor;
};
constexpr Maps kMaps[] = {{false, 1}, {true, 1}, {false, 2}, {false, 3}, {true, 7}, {false, 4'000'000'000U}};

// --- integers ----------------------------------------------------------------------------------------------------------------

template <typename T>
requires std::is_integral_v<T> T expected_map(T value, T factor, Maps maps) {
  return maps.map_in ? static_cast<T>(static_cast<Wide<T>>(value) * factor) : value;
}

template <typename T>
requires std::is_integral_v<T> T expected_division(T value, Maps maps) {
  return maps.divisor > 1 ? static_cast<T>(static_cast<Wide<T>>(value) / maps.divisor) : value;
}

template <typename T>
requires std::is_integral_v<T> T expected(ReduceOp op, T a, T b, T factor, Maps maps) {
  const Wide<T> x = expected_map(a, factor, maps), y = b;
  switch (op) {
    case ReduceOp::sum:
      return expected_division(static_cast<T>(x + y), maps);
    case ReduceOp::prod:
      return expected_division(static_cast<T>(x * y), maps);
    case ReduceOp::max:
      return expected_division(static_cast<T>(x > y ? x : y), maps);
    default:
      return expected_division(static_cast<T>(x < y ? x : y), maps);
  }
}

// --- floats ------------------------------------------------------------------------------------------------------------------

/// The wider format in which one operation is exact enough to be rounded again.
template <typename C>
using Wider = std::conditional_t<std::is_same_v<C, float>, double, Quad>;

template <typename C>
C ordered(C a, C b, bool greater) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<C>::quiet_NaN();
  const bool a_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_less == greater ? b : a;
}

template <typename T>
auto computed(T value) {
  if constexpr (kIsMinifloat<T>) {
    return value.to_float();
  } else {
    return value;
  }
}

template <typename T, typename C>
T stored(C value) {
  if constexpr (kIsMinifloat<T>) {
    return T::from_float(value);
  } else {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  }
}

template <typename C>
requires std::is_floating_point_v<C> C expected_map(C value, C factor, Maps maps) {
  return maps.map_in ? static_cast<C>(static_cast<Wider<C>>(value) * static_cast<Wider<C>>(factor)) : value;
}

template <typename C>
requires std::is_floating_point_v<C> C expected_division(C value, Maps maps) {
  const auto divisor = static_cast<Wider<C>>(static_cast<C>(maps.divisor));
  return maps.divisor > 1 ? static_cast<C>(static_cast<Wider<C>>(value) / divisor) : value;
}

template <typename T>
requires(!std::is_integral_v<T>) T expected(ReduceOp op, T a, T b, T factor, Maps maps) {
  using C = decltype(computed(a));
  const C x = expected_map(computed(a), computed(factor), maps), y = computed(b);
  const Wider<C> wide_x = x, wide_y = y;
  switch (op) {
    case ReduceOp::sum:
      return stored<T>(expected_division(static_cast<C>(wide_x + wide_y), maps));
    case ReduceOp::prod:
      return stored<T>(expected_division(static_cast<C>(wide_x * wide_y), maps));
    default:
      return stored<T>(expected_division(ordered(x, y, op == ReduceOp::max), maps));
  }
}

template <typename T>
T expected(T a, T factor, Maps maps) {
  if constexpr (std::is_integral_v<T>) {
    return expected_division(expected_map(a, factor, maps), maps);
  } else {
    return stored<T>(expected_division(expected_map(computed(a), computed(factor), maps), maps));
  }
}

// --- the comparison ----------------------------------------------------------------------------------------------------------

template <typename T, DataType kType>
struct Typed {
  using Element = T;
  static constexpr DataType type = kType;
};
using Types =
    ::testing::Types<Typed<int8_t, DataType::int8>, Typed<uint8_t, DataType::uint8>, Typed<int32_t, DataType::int32>,
                     Typed<uint32_t, DataType::uint32>, Typed<int64_t, DataType::int64>, Typed<uint64_t, DataType::uint64>,
                     Typed<Float16, DataType::float16>, Typed<float, DataType::float32>, Typed<double, DataType::float64>,
                     Typed<BFloat16, DataType::bfloat16>, Typed<Float8E4M3, DataType::float8e4m3>, Typed<Float8E5M2, DataType::float8e5m2>>;

template <typename T>
class KernelsScalar : public ::testing::Test {
 public:
  using Element = typename T::Element;
  static constexpr size_t kCount = 4096;

  KernelsScalar() : a_(kCount), b_(kCount), out_(kCount) {
    Values values(T::type, 3);
    values.fill(a_.data(), kCount);
    values.fill(b_.data(), kCount);
  }
  ReduceMaps maps_of(Maps maps, Element factor) {
    ReduceMaps result{.map_in = maps.map_in, .scalar = {}, .divisor = maps.divisor};
    std::memcpy(result.scalar.bytes.data(), &factor, sizeof factor);
    return result;
  }
  static ::testing::AssertionResult same(Element got, Element want) {
    if (std::memcmp(&got, &want, sizeof got) == 0) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << ::testing::PrintToString(got) << " instead of " << ::testing::PrintToString(want);
  }

  std::vector<Element> a_, b_, out_;
};
TYPED_TEST_SUITE(KernelsScalar, Types);

TYPED_TEST(KernelsScalar, ReduceFollowsItsDefinition) {
  for (const Maps maps : kMaps) {
    for (const ReduceOp op : kCombiningOps) {
      for (size_t pick : {size_t{0}, size_t{1}, size_t{7}}) {
        const auto factor = this->b_[pick];
        const ReduceMaps reduce_maps = this->maps_of(maps, factor);
        kScalarTarget.reduce[static_cast<size_t>(TypeParam::type)][static_cast<size_t>(op)](this->out_.data(), this->a_.data(),
                                                                                            this->b_.data(), this->kCount, reduce_maps);
        for (size_t i = 0; i < this->kCount; ++i) {
          ASSERT_TRUE(this->same(this->out_[i], expected(op, this->a_[i], this->b_[i], factor, maps)))
              << name_of(TypeParam::type) << ' ' << name_of(op) << " of elements " << i << ", map " << maps.map_in << ", divisor "
              << maps.divisor;
        }
      }
    }
  }
}

TYPED_TEST(KernelsScalar, MapMultipliesThenDivides) {
  const auto factor = this->b_[5];
  for (const Maps maps : kMaps) {
    kScalarTarget.map[static_cast<size_t>(TypeParam::type)](this->out_.data(), this->a_.data(), this->kCount, this->maps_of(maps, factor));
    for (size_t i = 0; i < this->kCount; ++i) {
      ASSERT_TRUE(this->same(this->out_[i], expected(this->a_[i], factor, maps)))
          << name_of(TypeParam::type) << " element " << i << ", map " << maps.map_in << ", divisor " << maps.divisor;
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels
