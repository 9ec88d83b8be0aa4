// SPDX-License-Identifier: Apache-2.0
// The kernels on the current GPU, one call at a time.
#include "cuda_device.h"

#include <cstdio>
#include <cstdlib>

namespace isthmus::cuda {

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.text().c_str());
  std::exit(1);
}

DeviceMemory device_memory(size_t bytes) {
  void* memory = nullptr;
  must(cudaMalloc(&memory, bytes + 1), "cudaMalloc");
  return DeviceMemory(memory);
}

DeviceMemory device_copy(const void* from, size_t bytes) {
  DeviceMemory memory = device_memory(bytes);
  must(cudaMemcpy(memory.get(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  return memory;
}

namespace {

template <class T>
DeviceMemory device_copy_of(const std::vector<T>& from) {
  return device_copy(from.data(), from.size() * sizeof(T));
}

template <class T>
void copy_back(std::vector<T>& to, const DeviceMemory& from) {
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  must(cudaMemcpy(to.data(), from.get(), to.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

class ThcGpu final : public ThcDevice {
 public:
  Status measure(std::vector<float>& scales, const ThcData& in, const std::vector<float>* residual, const codec::Thc& thc,
                 const ThcCell& cell) override {
    const DeviceMemory data = device_copy_of(in.bytes), to = device_copy_of(scales);
    const DeviceMemory added = residual == nullptr ? nullptr : device_copy_of(*residual);
    ISTHMUS_TRY(thc_measure(nullptr, static_cast<float*>(to.get()), input(data, in.type, added), thc, cell));
    copy_back(scales, to);
    return {};
  }

  Status encode(Bytes& to, uint32_t room, const ThcData& in, std::vector<float>* residual, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    const DeviceMemory data = device_copy_of(in.bytes), encoded = device_copy_of(to), all = device_copy_of(scales);
    const DeviceMemory added = residual == nullptr ? nullptr : device_copy_of(*residual);
    ISTHMUS_TRY(thc_encode(nullptr, {encoded.get(), room}, input(data, in.type, added), static_cast<float*>(added.get()), thc, key, cell,
                           static_cast<const float*>(all.get())));
    copy_back(to, encoded);
    if (residual != nullptr) copy_back(*residual, added);
    return {};
  }

  Status accumulate(Bytes& to, uint32_t room, const Bytes& a, uint32_t a_room, const Bytes& b, uint32_t b_room,
                    const codec::Thc& thc) override {
    const DeviceMemory sum = device_copy_of(to), first = &a == &to ? nullptr : device_copy_of(a), second = device_copy_of(b);
    ISTHMUS_TRY(thc_accumulate(nullptr, {sum.get(), room}, {first == nullptr ? sum.get() : first.get(), a_room}, {second.get(), b_room},
                               to.size() / 8 / thc.width(room), thc));
    copy_back(to, sum);
    return {};
  }

  Status decode(ThcData& out, const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    const DeviceMemory encoded = device_copy_of(from), all = device_copy_of(scales), data = device_copy_of(out.bytes);
    ISTHMUS_TRY(thc_decode(nullptr, {static_cast<std::byte*>(data.get()) + size_of(out.type), out.type}, {encoded.get(), room}, summands,
                           multiplier, thc, key, cell, static_cast<const float*>(all.get())));
    copy_back(out.bytes, data);
    return {};
  }

 private:
  /// As ThcData::data.
  static ThcInput input(const DeviceMemory& data, DataType type, const DeviceMemory& residual) {
    return {static_cast<const std::byte*>(data.get()) + size_of(type), type, static_cast<const float*>(residual.get())};
  }
};

}  // namespace

std::unique_ptr<ThcDevice> make_thc_gpu() { return std::make_unique<ThcGpu>(); }

}  // namespace isthmus::cuda
