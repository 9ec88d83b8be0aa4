// SPDX-License-Identifier: Apache-2.0
// Device memory, and the kernels of cuda/thc.h as a ThcDevice: copies in, launches, waits, copies out. Used by thc_gpu_test.cc. A failing
// CUDA call ends the program with its name and CUDA's words: after it nothing could be trusted.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "thc_cases.h"

namespace isthmus::cuda {

void must(cudaError_t error, const char* what);
void must(const Status& status);

struct DeviceFree {
  void operator()(void* memory) const { must(cudaFree(memory), "cudaFree"); }
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

/// At least one byte.
DeviceMemory device_memory(size_t bytes);
DeviceMemory device_copy(const void* from, size_t bytes);

std::unique_ptr<ThcDevice> make_thc_gpu();

}  // namespace isthmus::cuda
