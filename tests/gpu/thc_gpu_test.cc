// SPDX-License-Identifier: Apache-2.0
// The homomorphic codec's kernels on a GPU: random cases, whose results must be the scalar kernels' bit for bit, then each kernel's time
// beside a copy in device memory. Built and called by run.sh.
//
//   thc_gpu_test [--seed N] [--cases N] [--mib N] [--rounds N]
//
// --seed     of the cases; by default a fresh one, which is printed
// --cases    to compare (default 1000)
// --mib      of float32 that are timed (default 256)
// --rounds   of timing, all kernels in each; medians are printed (default 21)
//
// Exits with 0, with 1 if anything differs or fails, with 77 where there is no GPU.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "cuda_device.h"

namespace isthmus::cuda {
namespace {

struct Options {
  uint64_t seed = (uint64_t{std::random_device()()} << 32) | std::random_device()();
  uint64_t cases = 1000, mib = 256, rounds = 21;
};

[[noreturn]] void misused(const char* word) {
  std::fprintf(stderr, "thc_gpu_test: '%s' is not understood. Options: --seed N, --cases N, --mib N, --rounds N.\n", word);
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    uint64_t* to = name == "--seed"     ? &options.seed
                   : name == "--cases"  ? &options.cases
                   : name == "--mib"    ? &options.mib
                   : name == "--rounds" ? &options.rounds
                                        : nullptr;
    char* end = nullptr;
    if (to == nullptr || i + 1 == argc) misused(argv[i]);
    *to = std::strtoull(argv[i + 1], &end, 10);
    if (*end != '\0' || end == argv[i + 1]) misused(argv[i + 1]);
  }
  options.mib = std::clamp<uint64_t>(options.mib, 1, 8192);
  options.rounds = std::max<uint64_t>(options.rounds, 1);
  return options;
}

struct Count {
  uint64_t passed = 0, failed = 0;

  void add(const std::string& wrong, const std::string& what) {
    if (wrong.empty()) {
      ++passed;
      return;
    }
    if (++failed <= 10) std::printf("FAILED: %s\n        %s\n", what.c_str(), wrong.c_str());
  }
};

// --- what needs no GPU --------------------------------------------------------------------------------------------------------------

/// Arguments that no kernel can take are refused before anything is launched.
void refusals(Count& count) {
  const auto thc = codec::make_thc({}, 4);
  must(thc.ok() ? Status() : thc.status());
  float scale = 1;
  uint32_t words[64] = {};
  const kernels::CodecKey key = {.seed = 1, .op = 1, .rank = 0, .ranks = 4};
  const ThcCell cell = {.elements = 64};
  const ThcInput good = {words, DataType::float32}, integers = {words, DataType::int32};
  const auto refused = [&](const Status& status, const char* what) {
    count.add(status.code() == Code::invalid_argument ? "" : "is not refused", what);
  };
  refused(thc_measure(nullptr, &scale, integers, **thc, cell), "measuring integers");
  refused(thc_encode(nullptr, {words, 1}, integers, nullptr, **thc, key, cell, &scale), "encoding integers");
  refused(thc_encode(nullptr, {reinterpret_cast<char*>(words) + 1, 1}, good, nullptr, **thc, key, cell, &scale), "an odd address");
  refused(thc_encode(nullptr, {words, 0}, good, nullptr, **thc, key, cell, &scale), "room for nothing");
  refused(thc_decode(nullptr, {words, DataType::float32}, {words, 70000}, 4, 1, **thc, key, cell, &scale), "too much room");
  refused(thc_accumulate(nullptr, {words, 1}, {words, 1}, {words, 1}, 1, **thc), "a sum of indices");
}

// --- bits ---------------------------------------------------------------------------------------------------------------------------

void compare(const Options& options, Count& count) {
  const auto gpu = make_thc_gpu(), cpu = make_thc_cpu();
  CounterRng rng(options.seed, 0);
  for (uint64_t i = 0; i < options.cases; ++i) {
    const ThcCase which = random_case(rng);
    count.add(difference(which, *gpu, *cpu), to_text(which));
  }
  ThcCase large = random_case(rng);
  large.cell.elements = (4 << 20) + 4099;
  large.plain = true;
  count.add(difference(large, *gpu, *cpu), to_text(large));
}

// --- times --------------------------------------------------------------------------------------------------------------------------

/// A kernel over the whole world's elements, and the least bytes that it must move for one of them.
struct Timed {
  std::string name;
  double bytes;
  std::function<void()> launch;
  std::vector<double> ms = {};
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Event {
  cudaEvent_t event = nullptr;
  Event() { must(cudaEventCreate(&event), "cudaEventCreate"); }
  ~Event() { must(cudaEventDestroy(event), "cudaEventDestroy"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

/// Of one launch among several, so that only the first waits for the host.
double time_ms(const std::function<void()>& launch) {
  constexpr int kLaunches = 5;
  const Event before, after;
  must(cudaEventRecord(before.event), "cudaEventRecord");
  for (int i = 0; i < kLaunches; ++i) launch();
  must(cudaEventRecord(after.event), "cudaEventRecord");
  must(cudaEventSynchronize(after.event), "the kernel");
  float ms = 0;
  must(cudaEventElapsedTime(&ms, before.event, after.event), "cudaEventElapsedTime");
  return double{ms} / kLaunches;
}

/// Device memory for what is timed. Values are noise: times do not depend on them.
struct World {
  uint64_t elements;
  DeviceMemory in, out, residual, encoded, sum, wide, scales;
  kernels::CodecKey key = {.seed = 7, .op = 3, .rank = 1, .ranks = 8};

  explicit World(uint64_t mib) : elements(mib << 18) {
    const ThcCase noise = {.config = {},
                           .ranks = 8,
                           .cell = {.elements = elements},
                           .in = DataType::float32,
                           .out = DataType::float32,
                           .seed = 1,
                           .op = 1,
                           .feedback = false,
                           .plain = true};
    const ThcData data = make_data(noise, 0);
    in = device_copy(data.data(), elements * 4);
    out = device_memory(elements * 4);
    residual = device_copy(data.data(), elements * 4);
    encoded = device_copy(data.data(), elements);
    sum = device_copy(data.data(), elements);
    wide = device_memory(elements * 2);
    scales = device_copy(std::vector<float>(elements / codec::kMinGroup, 0.5F).data(), elements / codec::kMinGroup * 4);
  }
  [[nodiscard]] ThcInput input(DataType type, bool with_residual = false) const {
    return {in.get(), type, with_residual ? static_cast<const float*>(residual.get()) : nullptr};
  }
  [[nodiscard]] ThcCell cell() const { return {.elements = elements}; }
  [[nodiscard]] float* floats(const DeviceMemory& memory) const { return static_cast<float*>(memory.get()); }
};

void add_codec(std::vector<Timed>& all, const World& world, const codec::Thc& thc, const std::string& how) {
  const double width = thc.width(8) / 8.0;
  for (const auto& [type, name, bytes] : {std::tuple{DataType::float32, "float", 4.0}, {DataType::bfloat16, "bfloat16", 2.0}}) {
    const std::string text = std::string(" ") + name + ", " + how;
    all.push_back({"measure" + text, bytes, [&world, &thc, type = type] {
                     must(thc_measure(nullptr, world.floats(world.wide), world.input(type), thc, world.cell()));
                   }});
    all.push_back({"encode" + text, bytes + 0.5, [&world, &thc, type = type] {
                     must(thc_encode(nullptr, {world.encoded.get(), 1}, world.input(type), nullptr, thc, world.key, world.cell(),
                                     world.floats(world.scales)));
                   }});
    all.push_back({"decode" + text, bytes + width, [&world, &thc, type = type] {
                     must(thc_decode(nullptr, {world.out.get(), type}, {world.sum.get(), 8}, 8, 1, thc, world.key, world.cell(),
                                     world.floats(world.scales)));
                   }});
  }
  all.push_back({"encode float with residual, " + how, 12.5, [&] {
                   must(thc_encode(nullptr, {world.encoded.get(), 1}, world.input(DataType::float32, true), world.floats(world.residual),
                                   thc, world.key, world.cell(), world.floats(world.scales)));
                 }});
  all.push_back(
      {"accumulate, " + how, 0.5 + 2 * width, [&] {
         must(thc_accumulate(nullptr, {world.sum.get(), 8}, {world.sum.get(), 8}, {world.encoded.get(), 1}, world.elements / 64, thc));
       }});
}

void time_all(const Options& options) {
  const World world(options.mib);
  std::vector<std::unique_ptr<const codec::Thc>> codecs;
  std::vector<Timed> all;
  all.push_back({"copy", 8, [&] {
                   must(cudaMemcpyAsync(world.out.get(), world.in.get(), world.elements * 4, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
                 }});
  for (const char* text : {"thc", "thc:g=15", "thc:group=1024", "thc:group=8192", "thc:layout=columns"}) {
    codecs.push_back(codec::make_thc(codec::parse_thc(text).value(), 8).value());
    add_codec(all, world, *codecs.back(), text);
  }
  for (uint64_t round = 0; round < options.rounds + 2; ++round) {
    for (Timed& one : all) {
      const double ms = time_ms(one.launch);
      if (round >= 2) one.ms.push_back(ms);
    }
  }
  const auto speed = [&](const Timed& one) { return one.bytes * static_cast<double>(world.elements) / median(one.ms) * 1e-6; };
  std::printf("\n%-46s %9s %9s %9s %8s\n", (std::to_string(options.mib) + " MiB of float32, 8 ranks").c_str(), "ms", "10^9 el/s", "GB/s",
              "of copy");
  for (const Timed& one : all) {
    std::printf("%-46s %9.3f %9.1f %9.0f %8.2f\n", one.name.c_str(), median(one.ms),
                static_cast<double>(world.elements) / median(one.ms) * 1e-6, speed(one), speed(one) / speed(all[0]));
  }
  std::printf("GB/s counts what must be read and written once; a copy reads and writes 8 bytes an element.\n\n");
}

/// CUDA reserves far more addresses than it uses, and does not start under a limit of them. Only root may lift one.
bool lift_address_limit() {
  const rlimit unlimited = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &unlimited) == 0;
}

/// The GPU's name, or nothing.
std::string find_gpu() {
  const char* hint = lift_address_limit() ? "" : " (addresses are limited, ulimit -v: that alone may be the reason)";
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::printf("There is no GPU to test on: %s%s.\n", error != cudaSuccess ? cudaGetErrorString(error) : "no device", hint);
    return {};
  }
  cudaDeviceProp properties = {};
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  int runtime = 0, driver = 0;
  must(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  must(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  std::printf("%s, compute capability %d.%d, CUDA %d, driver for CUDA %d\n", properties.name, properties.major, properties.minor, runtime,
              driver);
  return properties.name;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Count count;
  refusals(count);
  const bool has_gpu = !find_gpu().empty();
  if (has_gpu) {
    std::printf("seed %llu, %llu cases\n", static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(options.cases));
    compare(options, count);
    time_all(options);
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(count.passed), static_cast<unsigned long long>(count.failed));
  return count.failed > 0 ? 1 : has_gpu ? 0 : 77;
}

}  // namespace
}  // namespace isthmus::cuda

int main(int argc, char** argv) { return isthmus::cuda::run(argc, argv); }
