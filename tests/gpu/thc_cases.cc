// SPDX-License-Identifier: Apache-2.0
// Draws cases, makes their data, runs them on two devices and compares every byte, those past the ends too.
#include "thc_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reduce.h"

namespace isthmus::cuda {
namespace {

constexpr std::byte kUntouched{0xee};
constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16};

template <class T, size_t kCount>
T one_of(CounterRng& rng, const T (&values)[kCount]) {
  return values[rng.below(kCount)];
}

template <class T>
void put_as(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

void put(ThcData& to, uint64_t index, float value) {
  auto* at = static_cast<std::byte*>(to.data()) + index * size_of(to.type);
  if (to.type == DataType::float32) put_as(at, value);
  if (to.type == DataType::float16) put_as(at, Float16::from_float(value));
  if (to.type == DataType::bfloat16) put_as(at, BFloat16::from_float(value));
}

/// What makes a group special on one rank: most are not.
float magnitude_of(CounterRng& rng) {
  constexpr float kMagnitudes[] = {1, 1, 1, 1, 1e-3F, 100, 0, -0.0F, 1e-25F, 1e-42F, 1e30F, 3e38F};
  return one_of(rng, kMagnitudes);
}

}  // namespace

ThcCase random_case(CounterRng& rng, uint32_t largest) {
  constexpr uint32_t kBits[] = {2, 3, 4, 4, 4, 8}, kRanks[] = {1, 2, 3, 8, 17, 40, 200};
  ThcCase drawn = {};
  codec::ThcConfig& config = drawn.config;
  config.bits = one_of(rng, kBits);
  drawn.ranks = one_of(rng, kRanks);
  const uint32_t least = (1U << config.bits) - 1, most = std::min<uint32_t>(255, ((1U << codec::kMaxSumBits) - 1) / drawn.ranks);
  const uint32_t granularities[] = {0, least, least + static_cast<uint32_t>(rng.below(most - least + 1))};
  config.granularity = one_of(rng, granularities);
  do config.group = codec::kMinGroup << rng.below(4);
  while (config.group > largest);
  config.layout = rng.chance(0.3) ? codec::ThcLayout::columns : codec::ThcLayout::blocks;
  config.correlated = rng.chance(0.7);
  config.prescale = rng.chance(0.7);
  drawn.feedback = rng.chance(0.5);
  drawn.cell = {.elements = rng.below(4) * config.group + rng.below(config.group), .position = rng.below(1000) * codec::kUnitElements};
  drawn.in = one_of(rng, kTypes);
  drawn.out = one_of(rng, kTypes);
  drawn.seed = rng.next_u64();
  drawn.op = rng.below(uint64_t{1} << 40);
  return drawn;
}

std::string to_text(const ThcCase& which) {
  return codec::to_text(which.config) + ", " + std::to_string(which.ranks) + " ranks, " + std::to_string(which.cell.elements) +
         " elements of " + std::string(name_of(which.in)) + " to " + std::string(name_of(which.out)) + " at " +
         std::to_string(which.cell.position) + (which.feedback ? ", residual" : "") + ", seed " + std::to_string(which.seed) + ", op " +
         std::to_string(which.op);
}

ThcData::ThcData(DataType of, uint64_t elements) : type(of), bytes((elements + 2) * size_of(of), kUntouched) {}

ThcData make_data(const ThcCase& which, uint32_t rank) {
  ThcData data(which.in, which.cell.elements);
  CounterRng rng(which.seed, 100 + rank);
  float magnitude = 1;
  for (uint64_t i = 0; i < which.cell.elements; ++i) {
    if (!which.plain && i % 512 == 0 && rng.chance(0.3)) magnitude = magnitude_of(rng);
    const double normal = rng.uniform() + rng.uniform() + rng.uniform() - 1.5;
    put(data, i, static_cast<float>(normal) * magnitude);
  }
  constexpr float kBad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  if (!which.plain && which.cell.elements > 0 && rng.chance(0.2)) put(data, rng.below(which.cell.elements), one_of(rng, kBad));
  return data;
}

// --- the CPU -----------------------------------------------------------------------------------------------------------------------

namespace {

class ThcCpu final : public ThcDevice {
 public:
  Status measure(std::vector<float>& scales, const ThcData& in, const std::vector<float>* residual, const codec::Thc& thc,
                 const ThcCell& cell) override {
    for (uint64_t g = 0; g < thc.groups(cell.elements); ++g) {
      const codec::Piece piece = thc.group(cell.elements, g);
      scales[g] = kernels::thc_measure(target_, input(in, residual, piece, cell), piece.elements, work_);
    }
    return {};
  }

  Status encode(Bytes& to, uint32_t room, const ThcData& in, std::vector<float>* residual, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    for (uint64_t g = 0; g < thc.groups(cell.elements); ++g) {
      const codec::Piece piece = thc.group(cell.elements, g);
      float* lost = residual == nullptr ? nullptr : residual->data() + piece.begin;
      const kernels::CodecInput elements = input(in, residual, piece, cell);
      const float own = kernels::thc_measure(target_, elements, piece.elements, work_);
      kernels::thc_encode(target_, to.data() + piece.first / 8 * thc.width(room), room, elements, lost, thc, key,
                          {.position = cell.position + piece.first, .elements = piece.elements}, {.own = own, .joined = scales[g]}, work_);
    }
    return {};
  }

  Status accumulate(Bytes& to, uint32_t room, const Bytes& a, uint32_t a_room, const Bytes& b, uint32_t b_room,
                    const codec::Thc& thc) override {
    target_.thc.accumulate(bytes(to), room, bytes(a), a_room, bytes(b), b_room, to.size() / (8 * thc.width(room)), thc);
    return {};
  }

  Status decode(ThcData& out, const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier, const codec::Thc& thc,
                const kernels::CodecKey& key, const ThcCell& cell, const std::vector<float>& scales) override {
    for (uint64_t g = 0; g < thc.groups(cell.elements); ++g) {
      const codec::Piece piece = thc.group(cell.elements, g);
      const kernels::CodecOutput to = {.data = static_cast<std::byte*>(out.data()) + piece.begin * size_of(out.type),
                                       .type = out.type,
                                       .stride = piece.stride,
                                       .count = count(piece, cell)};
      kernels::thc_decode(target_, to, from.data() + piece.first / 8 * thc.width(room), room, summands, multiplier, thc, key,
                          {.position = cell.position + piece.first, .elements = piece.elements}, scales[g], work_);
    }
    return {};
  }

 private:
  static uint8_t* bytes(Bytes& of) { return reinterpret_cast<uint8_t*>(of.data()); }
  static const uint8_t* bytes(const Bytes& of) { return reinterpret_cast<const uint8_t*>(of.data()); }
  static size_t count(const codec::Piece& piece, const ThcCell& cell) {
    return piece.stride > 1 ? piece.elements : std::min<uint64_t>(piece.elements, cell.elements - piece.begin);
  }
  static kernels::CodecInput input(const ThcData& in, const std::vector<float>* residual, const codec::Piece& piece, const ThcCell& cell) {
    return {.data = static_cast<const std::byte*>(in.data()) + piece.begin * size_of(in.type),
            .type = in.type,
            .stride = piece.stride,
            .count = count(piece, cell),
            .residual = residual == nullptr ? nullptr : residual->data() + piece.begin};
  }

  const kernels::Target& target_ = kernels::select_target("scalar");
  alignas(64) float work_[codec::kMaxGroup];
};

// --- comparison --------------------------------------------------------------------------------------------------------------------

/// Where two arrays differ first, or nothing.
template <class T>
std::string compare(const char* what, const std::vector<T>& measured, const std::vector<T>& expected) {
  if (measured.size() != expected.size()) return std::string(what) + ": sizes differ";
  if (std::memcmp(measured.data(), expected.data(), expected.size() * sizeof(T)) == 0) return {};
  const auto* a = reinterpret_cast<const uint8_t*>(measured.data());
  const auto* b = reinterpret_cast<const uint8_t*>(expected.data());
  const size_t bytes = expected.size() * sizeof(T), at = static_cast<size_t>(std::mismatch(a, a + bytes, b).first - a);
  size_t different = 0;
  for (size_t i = at; i < bytes; ++i) different += a[i] != b[i] ? 1 : 0;
  return std::string(what) + ": byte " + std::to_string(at) + " of " + std::to_string(bytes) + " is " + std::to_string(a[at]) +
         " and should be " + std::to_string(b[at]) + "; " + std::to_string(different) + " bytes differ";
}

/// One call on both devices: the first thing that is wrong stays.
class Comparison {
 public:
  Comparison(const ThcCase& which, const codec::Thc& thc, ThcDevice& device, ThcDevice& expected)
      : case_(which), thc_(thc), device_(device), expected_(expected), scales_(thc.groups(which.cell.elements)) {}

  std::string run() {
    const uint32_t senders = std::min(case_.ranks, 3U);
    for (uint32_t rank = 0; rank < senders; ++rank) join(rank);
    for (uint32_t rank = 0; rank < senders; ++rank) encode(rank);
    if (case_.ranks > 1) add();
    decode(encoded_[0], 1, 1, 1);
    if (case_.ranks > 1) decode(sum_, case_.ranks, senders, case_.ranks);
    return wrong_;
  }

 private:
  [[nodiscard]] std::vector<float> residual(uint32_t rank) const {
    CounterRng rng(case_.seed, 200 + rank);
    std::vector<float> values(case_.cell.elements + 1);
    for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
    return values;
  }
  [[nodiscard]] kernels::CodecKey key(uint32_t rank) const {
    return {.seed = case_.seed, .op = case_.op, .rank = case_.ranks - 1 - rank, .ranks = case_.ranks};
  }
  [[nodiscard]] Bytes encoding(uint32_t room) const {
    return Bytes(thc_.codec.encoded_bytes(thc_.codec, case_.cell.elements, room), kUntouched);
  }
  void note(std::string text) {
    if (wrong_.empty()) wrong_ = std::move(text);
  }
  void note(const Status& status) {
    if (!status.ok()) note(status.text());
  }

  /// Measures, and joins the scales.
  void join(uint32_t rank) {
    const ThcData data = make_data(case_, rank);
    const std::vector<float> before = residual(rank);
    const auto* added = case_.feedback ? &before : nullptr;
    std::vector<float> own(scales_.size(), -1), right(own);
    note(device_.measure(own, data, added, thc_, case_.cell));
    note(expected_.measure(right, data, added, thc_, case_.cell));
    note(compare("scales", own, right));
    for (size_t g = 0; g < right.size(); ++g) {
      scales_[g] = std::bit_cast<float>(std::max(std::bit_cast<uint32_t>(scales_[g]), std::bit_cast<uint32_t>(right[g])));
    }
  }

  void encode(uint32_t rank) {
    const ThcData data = make_data(case_, rank);
    for (const uint32_t room : {case_.ranks, 1U}) {
      if (encoded_.size() > rank) return;  // one rank needs no room for more
      std::vector<float> lost = residual(rank), right_lost = lost;
      Bytes to = encoding(room), right = to;
      note(device_.encode(to, room, data, case_.feedback ? &lost : nullptr, thc_, key(rank), case_.cell, scales_));
      note(expected_.encode(right, room, data, case_.feedback ? &right_lost : nullptr, thc_, key(rank), case_.cell, scales_));
      note(compare(room == 1 ? "indices" : "values", to, right));
      note(compare("residual", lost, right_lost));
      if (room == 1) encoded_.push_back(right);
    }
  }

  /// Indices to indices, then indices onto sums, where they are.
  void add() {
    sum_ = encoding(2);
    Bytes right = sum_;
    note(device_.accumulate(sum_, 2, encoded_[0], 1, encoded_[1], 1, thc_));
    note(expected_.accumulate(right, 2, encoded_[0], 1, encoded_[1], 1, thc_));
    note(compare("sum of two", sum_, right));
    if (case_.ranks == 2) return;
    Bytes wider = encoding(case_.ranks), right_wider = wider;
    note(device_.accumulate(wider, case_.ranks, right, 2, encoded_[2], 1, thc_));
    note(expected_.accumulate(right_wider, case_.ranks, right, 2, encoded_[2], 1, thc_));
    note(compare("sum of three", wider, right_wider));
    sum_ = right_wider;
    if (case_.ranks < 6) return;
    note(device_.accumulate(wider, case_.ranks, wider, case_.ranks, right_wider, case_.ranks, thc_));
    note(expected_.accumulate(right_wider, case_.ranks, right_wider, case_.ranks, sum_, case_.ranks, thc_));
    note(compare("sum in place", wider, right_wider));
  }

  void decode(const Bytes& from, uint32_t room, uint32_t summands, uint32_t multiplier) {
    ThcData out(case_.out, case_.cell.elements), right = out;
    note(device_.decode(out, from, room, summands, multiplier, thc_, key(0), case_.cell, scales_));
    note(expected_.decode(right, from, room, summands, multiplier, thc_, key(0), case_.cell, scales_));
    note(compare(room == 1 ? "decoded indices" : "decoded sum", out.bytes, right.bytes));
  }

  const ThcCase& case_;
  const codec::Thc& thc_;
  ThcDevice& device_;
  ThcDevice& expected_;
  std::vector<float> scales_;
  std::vector<Bytes> encoded_;
  Bytes sum_;
  std::string wrong_;
};

}  // namespace

std::unique_ptr<ThcDevice> make_thc_cpu() { return std::make_unique<ThcCpu>(); }

std::string difference(const ThcCase& which, ThcDevice& device, ThcDevice& expected) {
  auto thc = codec::make_thc(which.config, which.ranks);
  if (!thc.ok()) return thc.status().text();
  return Comparison(which, **thc, device, expected).run();
}

}  // namespace isthmus::cuda
