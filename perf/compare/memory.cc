// SPDX-License-Identifier: Apache-2.0
// compare_memory: what this machine's memory gives at this moment, to hold the comparison against. PROCESSES forked at once copy
// (memcpy) or add (a[i] += b[i]) buffers of BYTES of their own, touched and reused. Started by compare.py; prints one line of JSON per
// item: GB/s of one process, counting the bytes of one operand.
//     compare_memory WORK:PROCESSES:BYTES...     WORK: copy, add
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "buffer.h"

namespace {

constexpr int kBatches = 5;
constexpr int kMaxProcesses = 64;
constexpr double kBatchSeconds = 0.004;
constexpr double kAssumedBytesPerSecond = 10e9;  // only to size a batch

/// What the processes of an item share.
struct Board {
  std::atomic<int> arrived;
  std::array<std::array<double, kMaxProcesses>, kBatches> seconds;
};

struct Item {
  bool adds = false;
  int processes = 0;
  size_t bytes = 0;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool read_item(const char* text, Item& item) {
  std::array<char, 8> work{};
  unsigned long long bytes = 0;
  if (std::sscanf(text, "%7[a-z]:%d:%llu", work.data(), &item.processes, &bytes) != 3) return false;
  item.adds = std::string_view(work.data()) == "add";
  item.bytes = bytes;
  return (item.adds || std::string_view(work.data()) == "copy") && item.processes >= 1 && item.processes <= kMaxProcesses &&
         item.bytes >= sizeof(float);
}

void work(const Item& item, float* a, const float* b) {
  const size_t floats = item.bytes / sizeof(float);
  if (item.adds) {
    for (size_t i = 0; i < floats; ++i) a[i] += b[i];
  } else {
    std::memcpy(a, b, floats * sizeof(float));
  }
  asm volatile("" ::: "memory");  // NOLINT(hicpp-no-assembler): the next repetition must not be found superfluous
}

/// One process: lines up with the others for each batch.
void measure(const Item& item, int process, Board& board) {
  const compare::Buffer first(item.bytes / sizeof(float)), second(item.bytes / sizeof(float));
  float *a = first.data(), *b = second.data();
  const int repetitions = std::max(1, static_cast<int>(kBatchSeconds * kAssumedBytesPerSecond / static_cast<double>(item.bytes)));
  work(item, a, b);
  for (int batch = 0; batch < kBatches; ++batch) {
    board.arrived.fetch_add(1);
    while (board.arrived.load() < item.processes * (batch + 1)) sched_yield();
    const double begin = now_s();
    for (int i = 0; i < repetitions; ++i) work(item, a, b);
    board.seconds[static_cast<size_t>(batch)][static_cast<size_t>(process)] = (now_s() - begin) / repetitions;
  }
}

/// Median over batches of the slowest process; 0 if a process failed.
double run(const Item& item) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto* board = static_cast<Board*>(memory);  // zeroed, which is its beginning
  bool fine = true;
  int started = 0;
  for (int process = 0; process < item.processes; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      measure(item, process, *board);
      _exit(0);
    }
    fine = fine && child > 0;
    if (child > 0) ++started;
  }
  for (int process = 0; process < started; ++process) {
    int status = 0;
    fine = wait(&status) > 0 && status == 0 && fine;
  }
  std::array<double, kBatches> slowest{};
  for (size_t batch = 0; batch < slowest.size(); ++batch) {
    slowest[batch] = *std::max_element(board->seconds[batch].begin(), board->seconds[batch].end());
  }
  munmap(memory, sizeof(Board));
  std::sort(slowest.begin(), slowest.end());
  return fine ? slowest[kBatches / 2] : 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int at = 1; at < argc; ++at) {
    Item item;
    if (!read_item(argv[at], item)) {
      std::fprintf(stderr, "%s: '%s' is not WORK:PROCESSES:BYTES with WORK copy or add\n", argv[0], argv[at]);
      return 2;
    }
    const double seconds = run(item);
    if (seconds <= 0) {
      std::fprintf(stderr, "%s: %s could not be measured\n", argv[0], argv[at]);
      return 1;
    }
    std::printf("{\"work\": \"%s\", \"processes\": %d, \"bytes\": %zu, \"us\": %.4f, \"gb_per_s\": %.3f}\n", item.adds ? "add" : "copy",
                item.processes, item.bytes, seconds * 1e6, static_cast<double>(item.bytes) / seconds / 1e9);
    std::fflush(stdout);
  }
  return 0;
}
