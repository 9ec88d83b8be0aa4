// SPDX-License-Identifier: Apache-2.0
// The scalar target: the plain loops over arithmetic.h that define every result. Called through its table; and the
// fence behind results that went past the caches, called by exec/. Nothing can fail.
#include <hwy/cache_control.h>

#include <cstring>

#include "kernels/arithmetic.h"
#include "kernels/float_environment.h"
#include "kernels/targets.h"

namespace isthmus::kernels {
namespace {

/// Element `index` of an array that may start at any address.
template <typename T>
ComputeType<T> load(const void* array, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(array) + index * sizeof(T), sizeof(T));
  return widen(value);
}

template <typename T>
void store(void* array, size_t index, ComputeType<T> result) {
  const T value = narrow<T>(result);
  std::memcpy(static_cast<std::byte*>(array) + index * sizeof(T), &value, sizeof(T));
}

template <typename T, ReduceOp kOp>
void reduce(void* dst, const void* a, const void* b, size_t count, const ReduceMaps& maps) {
  [[maybe_unused]] const DefaultFloatEnvironment environment(!std::is_integral_v<T>);
  if (!maps.map_in && maps.divisor <= 1) {
    for (size_t i = 0; i < count; ++i) store<T>(dst, i, combine<kOp>(load<T>(a, i), load<T>(b, i)));
    return;
  }
  const ComputeType<T> factor = load<T>(&maps.scalar, 0);
  for (size_t i = 0; i < count; ++i) {
    const ComputeType<T> mine = maps.map_in ? multiply(load<T>(a, i), factor) : load<T>(a, i);
    const ComputeType<T> result = combine<kOp>(mine, load<T>(b, i));
    store<T>(dst, i, maps.divisor > 1 ? divide(result, maps.divisor) : result);
  }
}

template <typename T>
void map(void* dst, const void* a, size_t count, const ReduceMaps& maps) {
  [[maybe_unused]] const DefaultFloatEnvironment environment(!std::is_integral_v<T>);
  const ComputeType<T> factor = load<T>(&maps.scalar, 0);
  for (size_t i = 0; i < count; ++i) {
    const ComputeType<T> mine = maps.map_in ? multiply(load<T>(a, i), factor) : load<T>(a, i);
    store<T>(dst, i, maps.divisor > 1 ? divide(mine, maps.divisor) : mine);
  }
}

template <typename T>
constexpr void fill(Target& target, DataType type) {
  const auto row = static_cast<size_t>(type);
  target.reduce[row][static_cast<size_t>(ReduceOp::sum)] = reduce<T, ReduceOp::sum>;
  target.reduce[row][static_cast<size_t>(ReduceOp::prod)] = reduce<T, ReduceOp::prod>;
  target.reduce[row][static_cast<size_t>(ReduceOp::max)] = reduce<T, ReduceOp::max>;
  target.reduce[row][static_cast<size_t>(ReduceOp::min)] = reduce<T, ReduceOp::min>;
  target.map[row] = map<T>;
}

constexpr Target make_target() {
  Target target{
      .name = "scalar", .reduce = {}, .map = {}, .copy = copy_bytes, .stream = copy_bytes, .thc = kScalarThc, .baseline = kScalarBaseline};
  fill<int8_t>(target, DataType::int8);
  fill<uint8_t>(target, DataType::uint8);
  fill<int32_t>(target, DataType::int32);
  fill<uint32_t>(target, DataType::uint32);
  fill<int64_t>(target, DataType::int64);
  fill<uint64_t>(target, DataType::uint64);
  fill<Float16>(target, DataType::float16);
  fill<float>(target, DataType::float32);
  fill<double>(target, DataType::float64);
  fill<BFloat16>(target, DataType::bfloat16);
  fill<Float8E4M3>(target, DataType::float8e4m3);
  fill<Float8E5M2>(target, DataType::float8e5m2);
  return target;
}

}  // namespace

void settle_stores() { hwy::FlushStream(); }

void copy_bytes(void* dst, const void* src, size_t bytes) {
  if (bytes > 0) std::memcpy(dst, src, bytes);  // no bytes may be nowhere
}

constinit const Target kScalarTarget = make_target();

}  // namespace isthmus::kernels
