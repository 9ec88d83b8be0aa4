// SPDX-License-Identifier: Apache-2.0
// messages.h.
#include "cli/federated/run/messages.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <utility>

#include "base/bytes.h"

namespace isthmus::cli {
namespace {

constexpr uint32_t kMostMembers = federated::kMaxContributors, kMostClients = 65536;

/// Grows; numbers are little-endian, as Reader wants them.
class Body {
 public:
  Body& u8(uint8_t value) { return integer(value); }
  Body& u16(uint16_t value) { return integer(value); }
  Body& u32(uint32_t value) { return integer(value); }
  Body& u64(uint64_t value) { return integer(value); }
  Body& f64(double value) { return u64(std::bit_cast<uint64_t>(value)); }
  Body& text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    for (const char one : value) u8(static_cast<uint8_t>(one));
    return *this;
  }
  Body& floats(const std::vector<float>& values) {
    u32(static_cast<uint32_t>(values.size()));
    for (const float value : values) u32(std::bit_cast<uint32_t>(value));
    return *this;
  }
  template <typename T>
  Body& numbers(const std::vector<T>& values) {
    u32(static_cast<uint32_t>(values.size()));
    for (const T value : values) u32(value);
    return *this;
  }
  bootstrap::SharedBytes share() { return std::make_shared<const std::vector<std::byte>>(std::move(bytes_)); }

 private:
  template <typename T>
  Body& integer(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(uint64_t{value} >> (8 * i)));
    return *this;
  }
  std::vector<std::byte> bytes_;
};

double f64(Reader& reader) { return std::bit_cast<double>(reader.u64()); }

/// A count of things that take `each` bytes at least; 0 and a failed reader if they cannot be there.
uint32_t count_of_rest(Reader& reader, size_t each) {
  const uint32_t count = reader.u32();
  if (count > reader.remaining() / each) reader.fail();
  return reader.ok() ? count : 0;
}

std::vector<float> floats(Reader& reader) {
  std::vector<float> values(count_of_rest(reader, 4));
  for (float& value : values) value = std::bit_cast<float>(reader.u32());
  return values;
}

template <typename T>
std::vector<T> numbers(Reader& reader) {
  std::vector<T> values(count_of_rest(reader, 4));
  for (T& value : values) {
    const uint32_t read = reader.u32();
    if (read > std::numeric_limits<T>::max()) reader.fail();
    value = static_cast<T>(read);
  }
  return values;
}

/// An enumeration of `count` values.
template <typename E>
E choice(Reader& reader, uint8_t count) {
  const uint8_t value = reader.u8();
  if (value >= count) reader.fail();
  return static_cast<E>(value < count ? value : 0);
}

template <typename T>
Result<T> finish(const Reader& reader, T value, std::string_view what) {
  if (!reader.finished()) return remote_error(fmt::format("its message '{}' is malformed", what));
  return value;
}

void write(Body& body, const EpisodeRules& rules) {
  body.u8(static_cast<uint8_t>(rules.scenario)).u32(rules.clients).u32(rules.samples).u32(rules.rounds).u32(rules.drift_every);
  body.f64(rules.drift_share).u32(rules.big_drift).f64(rules.big_share).u32(rules.test_samples).f64(rules.alpha);
}

EpisodeRules read_episode(Reader& reader) {
  EpisodeRules rules{.scenario = choice<Scenario>(reader, 4), .clients = reader.u32(), .samples = reader.u32(), .rounds = reader.u32()};
  rules.drift_every = reader.u32();
  rules.drift_share = f64(reader);
  rules.big_drift = reader.u32();
  rules.big_share = f64(reader);
  rules.test_samples = reader.u32();
  rules.alpha = f64(reader);
  const bool counts = rules.clients > 0 && rules.clients <= kMostClients && rules.samples > 0 && rules.rounds > 0 && rules.drift_every > 0;
  const bool shares = rules.drift_share >= 0 && rules.drift_share <= 1 && rules.big_share >= 0 && rules.big_share <= 1 && rules.alpha > 0;
  if (!counts || !shares) reader.fail();
  return rules;
}

void write(Body& body, const federated::GroupRules& rules) {
  body.f64(rules.largest_weight).u8(rules.masked ? 1 : 0).u32(rules.masks.min_cohort).u32(rules.masks.degree).u32(rules.masks.threshold);
  body.u32(std::bit_cast<uint32_t>(rules.clip)).f64(rules.noise);
}

federated::GroupRules read_rules(Reader& reader) {
  federated::GroupRules rules{.largest_weight = f64(reader), .masked = choice<uint8_t>(reader, 2) != 0};
  rules.masks.min_cohort = reader.u32();
  rules.masks.degree = reader.u32();
  rules.masks.threshold = reader.u32();
  rules.clip = std::bit_cast<float>(reader.u32());
  rules.noise = f64(reader);
  return rules;
}

}  // namespace

RunTerms terms_of(const RunRules& rules, std::vector<uint16_t> masked_ports, std::vector<uint16_t> plain_ports) {
  return {.members = rules.members,
          .clients_each = rules.clients_each,
          .episode = rules.episode,
          .model = rules.model,
          .train = rules.train,
          .seed = rules.seed,
          .warm_up = rules.warm_up,
          .deadline_ns = rules.deadline_ns,
          .masked = rules.masked_group(),
          .plain = rules.plain_group(),
          .masked_ports = std::move(masked_ports),
          .plain_ports = std::move(plain_ports)};
}

bootstrap::SharedBytes encode(const RunJoin& join) { return Body().u16(join.version).u64(join.images).share(); }

Result<RunJoin> decode_run_join(std::span<const std::byte> body) {
  Reader reader(body);
  const RunJoin join{.version = reader.u16(), .images = reader.u64()};
  return finish(reader, join, "join");
}

bootstrap::SharedBytes encode(const RunTerms& terms) {
  Body body;
  body.u32(terms.members).u32(terms.clients_each);
  write(body, terms.episode);
  body.u8(static_cast<uint8_t>(terms.model)).f64(terms.train.lr).u32(terms.train.batch).u32(terms.train.epochs);
  body.u64(terms.seed).u32(terms.warm_up).u64(static_cast<uint64_t>(terms.deadline_ns));
  write(body, terms.masked);
  write(body, terms.plain);
  return body.numbers(terms.masked_ports).numbers(terms.plain_ports).share();
}

Result<RunTerms> decode_run_terms(std::span<const std::byte> body) {
  Reader reader(body);
  RunTerms terms{.members = reader.u32(), .clients_each = reader.u32(), .episode = read_episode(reader)};
  terms.model = choice<ModelKind>(reader, 2);
  terms.train.lr = f64(reader);
  terms.train.batch = reader.u32();
  terms.train.epochs = reader.u32();
  terms.seed = reader.u64();
  terms.warm_up = reader.u32();
  terms.deadline_ns = reader.i64();
  terms.masked = read_rules(reader);
  terms.plain = read_rules(reader);
  terms.masked_ports = numbers<uint16_t>(reader);
  terms.plain_ports = numbers<uint16_t>(reader);
  const bool sizes = terms.members > 0 && terms.members <= kMostMembers && terms.clients_each > 0 &&
                     uint64_t{terms.members} * terms.clients_each == terms.episode.clients;
  if (!sizes || terms.train.batch == 0 || terms.deadline_ns <= 0) reader.fail();
  return finish(reader, std::move(terms), "terms");
}

bootstrap::SharedBytes encode(const RunCall& call) {
  Body body;
  body.u32(call.round).u8(call.looks ? 1 : 0).floats(call.centres).numbers(call.clusters).floats(call.probe);
  return body.share();
}

Result<RunCall> decode_run_call(std::span<const std::byte> body) {
  Reader reader(body);
  RunCall call{.round = reader.u32(), .looks = choice<uint8_t>(reader, 2) != 0, .centres = floats(reader)};
  call.clusters = numbers<uint32_t>(reader);
  call.probe = floats(reader);
  return finish(reader, std::move(call), "call");
}

bootstrap::SharedBytes encode(const RunReports& reports) {
  Body body;
  const federated::RepHeader& header = reports.header;
  body.u32(reports.round).u8(static_cast<uint8_t>(header.kind)).u32(header.dims).u64(header.probe_hash).u64(header.seed);
  body.u32(static_cast<uint32_t>(reports.reports.size()));
  for (const RunReports::One& one : reports.reports) body.u64(one.client).u64(one.samples).floats(one.values);
  body.u32(static_cast<uint32_t>(reports.held.size()));
  for (const RunReports::Held& held : reports.held) body.u32(held.cluster).u64(held.model);
  return body.share();
}

Result<RunReports> decode_run_reports(std::span<const std::byte> body) {
  Reader reader(body);
  RunReports reports{.round = reader.u32(), .header = {.kind = choice<federated::RepKind>(reader, 4), .dims = reader.u32()}};
  reports.header.probe_hash = reader.u64();
  reports.header.seed = reader.u64();
  reports.reports.resize(count_of_rest(reader, 20));
  for (RunReports::One& one : reports.reports) {
    one.client = reader.u64();
    one.samples = reader.u64();
    one.values = floats(reader);
  }
  reports.held.resize(count_of_rest(reader, 12));
  for (RunReports::Held& held : reports.held) {
    held.cluster = reader.u32();
    held.model = reader.u64();
  }
  return finish(reader, std::move(reports), "reports");
}

bootstrap::SharedBytes encode(const RunPlan& plan) {
  Body body;
  body.u32(plan.round).u64(plan.epoch).numbers(plan.clusters).u32(static_cast<uint32_t>(plan.parts.size()));
  for (const RunPlan::Part& part : plan.parts) {
    body.u32(part.cluster).u8(static_cast<uint8_t>(part.sum)).u64(part.model).floats(part.values);
  }
  return body.share();
}

Result<RunPlan> decode_run_plan(std::span<const std::byte> body) {
  Reader reader(body);
  RunPlan plan{.round = reader.u32(), .epoch = reader.u64(), .clusters = numbers<uint32_t>(reader)};
  plan.parts.resize(count_of_rest(reader, 17));
  for (RunPlan::Part& part : plan.parts) {
    part.cluster = reader.u32();
    part.sum = choice<SumKind>(reader, 3);
    part.model = reader.u64();
    part.values = floats(reader);
  }
  return finish(reader, std::move(plan), "plan");
}

bootstrap::SharedBytes encode(const RunResult& result) {
  Body body;
  body.u32(result.round).u32(static_cast<uint32_t>(result.parts.size()));
  for (const RunResult::Part& part : result.parts) body.u32(part.cluster).u8(part.counted ? 1 : 0).u64(part.model);
  return body.f64(result.accuracy).u64(result.sent_bytes).u64(result.received_bytes).share();
}

Result<RunResult> decode_run_result(std::span<const std::byte> body) {
  Reader reader(body);
  RunResult result{.round = reader.u32()};
  result.parts.resize(count_of_rest(reader, 13));
  for (RunResult::Part& part : result.parts) {
    part.cluster = reader.u32();
    part.counted = choice<uint8_t>(reader, 2) != 0;
    part.model = reader.u64();
  }
  result.accuracy = f64(reader);
  result.sent_bytes = reader.u64();
  result.received_bytes = reader.u64();
  if (!(result.accuracy >= 0 && result.accuracy <= 1)) reader.fail();
  return finish(reader, std::move(result), "result");
}

bootstrap::SharedBytes encode(const RunEnd& end) { return Body().text(end.why.substr(0, kMaxRunTextBytes)).share(); }

Result<RunEnd> decode_run_end(std::span<const std::byte> body) {
  Reader reader(body);
  RunEnd end{.why = reader.sized_text(kMaxRunTextBytes)};
  return finish(reader, std::move(end), "end");
}

}  // namespace isthmus::cli
