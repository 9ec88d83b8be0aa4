// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's kernels and their launches (thc.h). A thread block has one group, with a sixteenth as many threads as
// elements. Compiled by nvcc alone, without contraction, flushing or approximation (meson.build): the bits are the CPU's.
#include <algorithm>
#include <string>

#include "cuda/thc.h"
#include "cuda/thc_device.h"
#include "cuda/thc_sum.h"

namespace isthmus::cuda {
namespace {

constexpr uint32_t kThreadsMost = codec::kMaxGroup / 16;
constexpr uint32_t kSumThreads = 256;
constexpr uint32_t kMeasureBlocks = 16;  // on a multiprocessor at least, so that registers hold what is on its way
constexpr uint32_t kSharedBytesPlain = (48 << 10) - sizeof(ThcShared);  // more, and the kernel must be told before
constexpr uint64_t kBlocksMost = 0x7fffffff;

struct DeviceBlock {
  uint32_t threads;

  template <class Phase>
  __device__ void each(const Phase& phase) const {
    phase(threadIdx.x);
    __syncthreads();
  }
};

__global__ void __launch_bounds__(kSums, kMeasureBlocks)
    measure_kernel(const __grid_constant__ ThcTables tables, const __grid_constant__ ThcMeasureTask task) {
  __shared__ ThcShared shared;
  measure_group(DeviceBlock{blockDim.x}, tables, shared, task, blockIdx.x);
}

__global__ void __launch_bounds__(kThreadsMost)
    encode_kernel(const __grid_constant__ ThcTables tables, const __grid_constant__ ThcEncodeTask task) {
  __shared__ ThcShared shared;
  extern __shared__ float data[];
  encode_group(DeviceBlock{blockDim.x}, tables, shared, data, task, blockIdx.x);
}

__global__ void __launch_bounds__(kThreadsMost)
    decode_kernel(const __grid_constant__ ThcTables tables, const __grid_constant__ ThcDecodeTask task) {
  __shared__ ThcShared shared;
  extern __shared__ float data[];
  decode_group(DeviceBlock{blockDim.x}, tables, shared, data, task, blockIdx.x);
}

__global__ void __launch_bounds__(kSumThreads)
    add_kernel(const __grid_constant__ ThcTables tables, const __grid_constant__ ThcAddTask task) {
  __shared__ ThcSumShared shared;
  add_tile(DeviceBlock{blockDim.x}, tables, shared, task, blockIdx.x);
}

// --- launches ----------------------------------------------------------------------------------------------------------------------

Status status_of(cudaError_t error, const char* kernel) {
  if (error == cudaSuccess) return {};
  return system_error(std::string("thc: the kernel that is to ") + kernel + " cannot be launched: " + cudaGetErrorString(error));
}

struct Launch {
  const char* name;
  uint64_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
  Stream stream;

  template <class Task>
  Status run(void (*kernel)(ThcTables, Task), const codec::Thc& thc, const Task& task) const {
    if (blocks == 0) return {};
    if (blocks > kBlocksMost) return invalid_argument(std::string("thc: too many elements at once to ") + name);
    if (shared_bytes > kSharedBytesPlain) {
      ISTHMUS_TRY(
          status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), name));
    }
    ThcTables tables = tables_of(thc);
    Task copy = task;
    void* arguments[] = {&tables, &copy};
    return status_of(cudaLaunchKernel(kernel, dim3(static_cast<uint32_t>(blocks)), dim3(threads), arguments, shared_bytes,
                                      static_cast<cudaStream_t>(stream)),
                     name);
  }
};

uint32_t group_threads(const codec::Thc& thc) { return std::max(thc.config.group / 16, kSums); }

Status check(DataType type) {
  if (type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16) return {};
  return invalid_argument("thc: there are kernels for float, half and bfloat16, not for " + std::string(name_of(type)));
}

Status check(const void* data, uint32_t room, const codec::Thc& thc) {
  if (reinterpret_cast<uintptr_t>(data) % sizeof(uint32_t) != 0) {
    return invalid_argument("thc: an encoding in device memory must be aligned to 4 bytes");
  }
  if (room == 0 || room > std::max(thc.max_summands(), 1U)) {
    return invalid_argument("thc: an encoding cannot have room for " + std::to_string(room) + " with these tables, only for 1 to " +
                            std::to_string(thc.max_summands()));
  }
  return {};
}

ThcWords<uint32_t> words_of(const ThcEncoding& to, const codec::Thc& thc) {
  return {.words = static_cast<uint32_t*>(to.data), .width = thc.width(to.room), .indices = to.room == 1};
}

ThcWords<const uint32_t> words_of(const ThcEncoded& from, const codec::Thc& thc) {
  return {.words = static_cast<const uint32_t*>(from.data), .width = thc.width(from.room), .indices = from.room == 1};
}

}  // namespace

Status thc_measure(Stream stream, float* scales, const ThcInput& in, const codec::Thc& thc, const ThcCell& cell) {
  ISTHMUS_TRY(check(in.type));
  const ThcMeasureTask task = {.elements = cell.elements, .in = {in.data, in.type}, .residual = in.residual, .scales = scales};
  const Launch launch = {.name = "measure", .blocks = thc.groups(cell.elements), .threads = kSums, .shared_bytes = 0, .stream = stream};
  return launch.run(measure_kernel, thc, task);
}

Status thc_encode(Stream stream, const ThcEncoding& to, const ThcInput& in, float* lost, const codec::Thc& thc,
                  const kernels::CodecKey& key, const ThcCell& cell, const float* scales) {
  ISTHMUS_TRY(check(in.type));
  ISTHMUS_TRY(check(to.data, to.room, thc));
  const ThcEncodeTask task = {.elements = cell.elements,
                              .position = cell.position,
                              .key = key,
                              .in = {in.data, in.type},
                              .residual = in.residual,
                              .scales = scales,
                              .to = words_of(to, thc),
                              .lost = lost};
  const Launch launch = {.name = "encode",
                         .blocks = thc.groups(cell.elements),
                         .threads = group_threads(thc),
                         .shared_bytes = padded(thc.config.group) * 4,
                         .stream = stream};
  return launch.run(encode_kernel, thc, task);
}

Status thc_accumulate(Stream stream, const ThcEncoding& to, const ThcEncoded& a, const ThcEncoded& b, uint64_t units,
                      const codec::Thc& thc) {
  ISTHMUS_TRY(check(to.data, to.room, thc));
  ISTHMUS_TRY(check(a.data, a.room, thc));
  ISTHMUS_TRY(check(b.data, b.room, thc));
  if (to.room == 1) return invalid_argument("thc: a sum needs room for more than one encoding");
  const ThcAddTask task = {.units = units, .to = words_of(to, thc), .a = words_of(a, thc), .b = words_of(b, thc)};
  const Launch launch = {
      .name = "add", .blocks = (units + kTileUnits - 1) / kTileUnits, .threads = kSumThreads, .shared_bytes = 0, .stream = stream};
  return launch.run(add_kernel, thc, task);
}

Status thc_decode(Stream stream, const ThcOutput& out, const ThcEncoded& from, uint32_t summands, uint32_t multiplier,
                  const codec::Thc& thc, const kernels::CodecKey& key, const ThcCell& cell, const float* scales) {
  ISTHMUS_TRY(check(out.type));
  ISTHMUS_TRY(check(from.data, from.room, thc));
  const ThcDecodeTask task = {.elements = cell.elements,
                              .position = cell.position,
                              .key = key,
                              .from = words_of(from, thc),
                              .scales = scales,
                              .summands = summands,
                              .multiplier = multiplier,
                              .out = {out.data, out.type}};
  const Launch launch = {.name = "decode",
                         .blocks = thc.groups(cell.elements),
                         .threads = group_threads(thc),
                         .shared_bytes = (padded(thc.config.group) + thc.config.group / 32 * task.from.width) * 4,
                         .stream = stream};
  return launch.run(decode_kernel, thc, task);
}

}  // namespace isthmus::cuda
