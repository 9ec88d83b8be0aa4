// SPDX-License-Identifier: Apache-2.0
// Makes a test of a target, for compilers without libFuzzer: runs its seeds, the files of its corpus (inputs that once broke it), and
// some thousand mutations of both, the same ones every time. Ends by the broken promise, or says how many inputs it ran.
//
//   replay_NAME [FOLDER]         run; FOLDER is the corpus, which need not exist
//   replay_NAME --write FOLDER   write the seeds into FOLDER, for libFuzzer to begin with
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "base/rng.h"
#include "target.h"

namespace isthmus::fuzz {
namespace {

constexpr size_t kMutations = 20000;
constexpr size_t kMaxBytes = 4096;

std::vector<Bytes> read_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return {};
  const std::set<std::filesystem::path> paths{std::filesystem::directory_iterator(folder), {}};  // in an order that is the same everywhere
  std::vector<Bytes> inputs;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    inputs.push_back(to_bytes(text));
  }
  return inputs;
}

size_t write_folder(const std::filesystem::path& folder, const std::vector<Bytes>& inputs) {
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream(folder / ("seed_" + std::to_string(i)), std::ios::binary) << text_of(inputs[i]);
  }
  return inputs.size();
}

/// One change: a bit, a byte, a number's extreme, a cut, a repetition, or an insertion.
void mutate(Bytes& input, CounterRng& random) {
  const size_t at = input.empty() ? 0 : random.below(input.size());
  const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
  switch (input.empty() ? 5 : random.below(6)) {
    case 0:
      *place ^= static_cast<std::byte>(1U << random.below(8));
      break;
    case 1:
      *place = static_cast<std::byte>(random.next_u64());
      break;
    case 2:
      std::fill_n(place, std::min<size_t>(input.size() - at, 4), random.chance(0.5) ? std::byte{0xff} : std::byte{0});
      break;
    case 3:
      input.resize(at);
      break;
    case 4: {
      const Bytes tail(place, input.end());
      input.insert(input.end(), tail.begin(), tail.end());
      break;
    }
    default:
      input.insert(place, static_cast<std::byte>(random.next_u64()));
  }
  if (input.size() > kMaxBytes) input.resize(kMaxBytes);
}

size_t replay(const std::filesystem::path& corpus) {
  std::vector<Bytes> inputs = seeds();
  const std::vector<Bytes> kept = read_folder(corpus);
  inputs.insert(inputs.end(), kept.begin(), kept.end());
  inputs.emplace_back();
  for (const Bytes& input : inputs) run(input);
  CounterRng random(1, 0);
  for (size_t i = 0; i < kMutations; ++i) {
    Bytes input = inputs[random.below(inputs.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) mutate(input, random);
    run(input);
  }
  return inputs.size() + kMutations;
}

}  // namespace
}  // namespace isthmus::fuzz

int main(int argc, char** argv) {
  using namespace isthmus::fuzz;
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "--write") {
    std::printf("%zu seeds written\n", write_folder(words[1], seeds()));
  } else {
    std::printf("%zu inputs\n", replay(words.empty() ? std::filesystem::path() : std::filesystem::path(words[0])));
  }
  return 0;
}
