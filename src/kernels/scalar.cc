// SPDX-License-Identifier: Apache-2.0
// The scalar target: the plain loops over arithmetic.h that define every result. Called through its table; nothing can fail.
#include <cstring>

#include "kernels/arithmetic.h"
#include "kernels/float_environment.h"
#include "kernels/targets.h"

namespace isthmus::kernels {
namespace {

template <typename T>
ComputeType<T> load_scalar(const Scalar& scalar) {
  T value;
  std::memcpy(&value, &scalar, sizeof value);
  return widen(value);
}

template <typename T, ReduceOp kOp>
void reduce(void* dst_bytes, const void* a_bytes, const void* b_bytes, size_t count, const ReduceMaps& maps) {
  [[maybe_unused]] const DefaultFloatEnvironment environment(!std::is_integral_v<T>);
  auto* dst = static_cast<T*>(dst_bytes);
  const auto* a = static_cast<const T*>(a_bytes);
  const auto* b = static_cast<const T*>(b_bytes);
  if (!maps.map_in && maps.divisor <= 1) {
    for (size_t i = 0; i < count; ++i) dst[i] = narrow<T>(combine<kOp>(widen(a[i]), widen(b[i])));
    return;
  }
  const ComputeType<T> factor = load_scalar<T>(maps.scalar);
  for (size_t i = 0; i < count; ++i) {
    const ComputeType<T> mine = maps.map_in ? multiply(widen(a[i]), factor) : widen(a[i]);
    const ComputeType<T> result = combine<kOp>(mine, widen(b[i]));
    dst[i] = narrow<T>(maps.divisor > 1 ? divide(result, maps.divisor) : result);
  }
}

template <typename T>
void map(void* dst_bytes, const void* a_bytes, size_t count, const ReduceMaps& maps) {
  [[maybe_unused]] const DefaultFloatEnvironment environment(!std::is_integral_v<T>);
  auto* dst = static_cast<T*>(dst_bytes);
  const auto* a = static_cast<const T*>(a_bytes);
  const ComputeType<T> factor = load_scalar<T>(maps.scalar);
  for (size_t i = 0; i < count; ++i) {
    const ComputeType<T> mine = maps.map_in ? multiply(widen(a[i]), factor) : widen(a[i]);
    dst[i] = narrow<T>(maps.divisor > 1 ? divide(mine, maps.divisor) : mine);
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
  Target target{.name = "scalar", .reduce = {}, .map = {}, .copy = copy_bytes};
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

void copy_bytes(void* dst, const void* src, size_t bytes) { std::memcpy(dst, src, bytes); }

constinit const Target kScalarTarget = make_target();

}  // namespace isthmus::kernels
