// SPDX-License-Identifier: Apache-2.0
// aggregate_messages.h. Pure.
#include "federated/aggregate_messages.h"

#include <fmt/format.h>

#include <bit>
#include <string_view>

#include "base/bytes.h"
#include "federated/words.h"

namespace isthmus::federated {
namespace {

Status malformed(std::string_view what) { return remote_error(fmt::format("malformed {}", what)); }

bootstrap::SharedBytes shared(std::vector<std::byte> bytes) { return std::make_shared<const std::vector<std::byte>>(std::move(bytes)); }

std::string_view cut(std::string_view text) { return text.substr(0, kMaxAggregateTextBytes); }

void write_status(Writer& writer, const Status& why) { writer.u8(static_cast<uint8_t>(why.code())).sized_text(cut(why.text())); }

/// Never ok: what cannot be a failure's code counts as remote_error.
Status read_status(Reader& reader) {
  const uint8_t code = reader.u8();
  std::string text = reader.sized_text(kMaxAggregateTextBytes);
  const bool plausible =
      code > static_cast<uint8_t>(Code::ok) && code <= static_cast<uint8_t>(Code::timeout) && static_cast<Code>(code) != Code::in_progress;
  return {plausible ? static_cast<Code>(code) : Code::remote_error, std::move(text)};
}

/// Absent rules are all zeros.
constexpr size_t kGroupBytes = 1 + 8 + 3 * 4 + 4 + 8, kWelcomeBytes = 68 + kGroupBytes;

void write_group(Writer& writer, const std::optional<GroupRules>& group) {
  const GroupRules rules = group.value_or(GroupRules{.largest_weight = 0, .masks = {.min_cohort = 0}});
  writer.u8(static_cast<uint8_t>(!group ? 0 : rules.masked ? 2 : 1)).u64(std::bit_cast<uint64_t>(rules.largest_weight));
  writer.u32(rules.masks.min_cohort).u32(rules.masks.degree).u32(rules.masks.threshold).u32(std::bit_cast<uint32_t>(rules.clip));
  writer.u64(std::bit_cast<uint64_t>(rules.noise));
}

std::optional<GroupRules> read_group(Reader& reader) {
  const uint8_t kind = reader.u8();
  GroupRules rules;
  rules.masked = kind == 2;
  rules.largest_weight = std::bit_cast<double>(reader.u64());
  rules.masks.min_cohort = reader.u32();
  rules.masks.degree = reader.u32();
  rules.masks.threshold = reader.u32();
  rules.clip = std::bit_cast<float>(reader.u32());
  rules.noise = std::bit_cast<double>(reader.u64());
  const bool zeros = rules == GroupRules{.largest_weight = 0, .masks = {.min_cohort = 0}};
  if (kind > 2 || (kind == 0 && !zeros)) reader.fail();
  if (kind == 0) return std::nullopt;
  return rules;
}

size_t status_bytes(const Status& why) { return 5 + cut(why.text()).size(); }

}  // namespace

std::string to_string(const Signature& signature) {
  return fmt::format("{} of {} {}", name_of(signature.op), signature.count, name_of(signature.type));
}

// --- joining ---------------------------------------------------------------------------------------------------------------------

bootstrap::SharedBytes encode(const Join& join) {
  std::vector<std::byte> body(14 + cut(join.codec).size());
  Writer(body).u16(join.version).u64(join.codec_hash).sized_text(cut(join.codec));
  return shared(std::move(body));
}

Result<Join> decode_join(std::span<const std::byte> body) {
  Reader reader(body);
  Join join;
  join.version = reader.u16();
  join.codec_hash = reader.u64();
  join.codec = reader.sized_text(kMaxAggregateTextBytes);
  if (!reader.finished()) return malformed("join message");
  return join;
}

bootstrap::SharedBytes encode(const Welcome& welcome) {
  std::vector<std::byte> body(kWelcomeBytes + cut(welcome.codec).size());
  Writer writer(body);
  writer.u64(welcome.seed).u64(welcome.round).u64(welcome.max_elements).u64(welcome.codec_hash);
  writer.u32(welcome.chunk_elements).u32(welcome.quorum).i64(welcome.deadline_ns).i64(welcome.limit_ns).u64(welcome.epoch);
  write_group(writer, welcome.group);
  writer.sized_text(cut(welcome.codec));
  return shared(std::move(body));
}

Result<Welcome> decode_welcome(std::span<const std::byte> body) {
  Reader reader(body);
  Welcome welcome;
  welcome.seed = reader.u64();
  welcome.round = reader.u64();
  welcome.max_elements = reader.u64();
  welcome.codec_hash = reader.u64();
  welcome.chunk_elements = reader.u32();
  welcome.quorum = reader.u32();
  welcome.deadline_ns = reader.i64();
  welcome.limit_ns = reader.i64();
  welcome.epoch = reader.u64();
  welcome.group = read_group(reader);
  welcome.codec = reader.sized_text(kMaxAggregateTextBytes);
  if (!reader.finished() || welcome.deadline_ns < 0 || welcome.limit_ns < 0) return malformed("welcome");
  return welcome;
}

bootstrap::SharedBytes encode_refusal(const Status& why) {
  std::vector<std::byte> body(status_bytes(why));
  Writer writer(body);
  write_status(writer, why);
  return shared(std::move(body));
}

Status decode_refusal(std::span<const std::byte> body) {
  Reader reader(body);
  Status why = read_status(reader);
  return reader.finished() ? why : malformed("refusal");
}

// --- scales ----------------------------------------------------------------------------------------------------------------------

uint32_t scale_at(std::span<const std::byte> scales, uint64_t index) { return Reader(scales.subspan(4 * index)).u32(); }

void write_scale(std::span<std::byte> scales, uint64_t index, uint32_t bits) { Writer(scales.subspan(4 * index)).u32(bits); }

std::vector<std::byte> encode(const Offer& offer, uint64_t groups) {
  std::vector<std::byte> body(kOfferHeadBytes + 4 * groups);
  Writer writer(body);
  writer.u64(offer.round).u64(offer.epoch).u64(offer.signature.count);
  writer.u8(static_cast<uint8_t>(offer.signature.type)).u8(static_cast<uint8_t>(offer.signature.op));
  return body;
}

Result<Offer> decode_offer(std::span<const std::byte> body) {
  Reader reader(body);
  Offer offer;
  offer.round = reader.u64();
  offer.epoch = reader.u64();
  offer.signature.count = reader.u64();
  const uint8_t type = reader.u8(), op = reader.u8();
  if (type >= kDataTypes || op >= kReduceOps || reader.remaining() % 4 != 0) reader.fail();
  offer.signature.type = static_cast<DataType>(type);
  offer.signature.op = static_cast<ReduceOp>(op);
  offer.scales = reader.bytes(reader.remaining());
  if (!reader.ok()) return malformed("offer");
  return offer;
}

std::vector<std::byte> encode(const Scales& scales, uint64_t groups) {
  std::vector<std::byte> body(kScalesHeadBytes + 4 * groups);
  Writer(body).u64(scales.round);
  return body;
}

Result<Scales> decode_scales(std::span<const std::byte> body) {
  Reader reader(body);
  Scales scales;
  scales.round = reader.u64();
  if (reader.remaining() % 4 != 0) reader.fail();
  scales.scales = reader.bytes(reader.remaining());
  if (!reader.ok()) return malformed("scales");
  return scales;
}

// --- chunks ----------------------------------------------------------------------------------------------------------------------

std::vector<std::byte> encode(const IndicesHead& head, size_t payload_bytes) {
  std::vector<std::byte> body(IndicesHead::kBytes + payload_bytes);
  Writer(body).u64(head.round).u32(head.chunk).u64(head.weight);
  return body;
}

Result<Carried<IndicesHead>> decode_indices(std::span<const std::byte> body) {
  Reader reader(body);
  Carried<IndicesHead> carried;
  carried.head.round = reader.u64();
  carried.head.chunk = reader.u32();
  carried.head.weight = reader.u64();
  carried.payload = reader.bytes(reader.remaining());
  if (!reader.ok()) return malformed("indices");
  return carried;
}

std::vector<std::byte> encode(const SumsHead& head, size_t payload_bytes) {
  std::vector<std::byte> body(SumsHead::kBytes + payload_bytes);
  Writer(body).u64(head.round).u32(head.edition).u32(head.chunk);
  return body;
}

Result<Carried<SumsHead>> decode_sums(std::span<const std::byte> body) {
  Reader reader(body);
  Carried<SumsHead> carried;
  carried.head.round = reader.u64();
  carried.head.edition = reader.u32();
  carried.head.chunk = reader.u32();
  carried.payload = reader.bytes(reader.remaining());
  if (!reader.ok()) return malformed("sums");
  return carried;
}

// --- who counts, and the end -----------------------------------------------------------------------------------------------------

bootstrap::SharedBytes encode(const Roster& roster) {
  std::vector<std::byte> body(16 + kRankSetBytes);
  Writer writer(body);
  writer.u64(roster.round).u32(roster.edition).u32(roster.word_bits);
  write_ranks(writer, roster.ranks);
  return shared(std::move(body));
}

Result<Roster> decode_roster(std::span<const std::byte> body, uint32_t ranks) {
  Reader reader(body);
  Roster roster;
  roster.round = reader.u64();
  roster.edition = reader.u32();
  roster.word_bits = reader.u32();
  if (roster.word_bits > kMaxWordBits) reader.fail();
  roster.ranks = read_ranks(reader, ranks);
  if (!reader.finished() || roster.ranks.none()) return malformed("roster");
  return roster;
}

bootstrap::SharedBytes encode(const End& end) {
  std::vector<std::byte> body(20 + kRankSetBytes);
  Writer writer(body);
  writer.u64(end.round).u32(end.edition).u64(end.weight_sum);
  write_ranks(writer, end.late);
  return shared(std::move(body));
}

Result<End> decode_end(std::span<const std::byte> body, uint32_t ranks) {
  Reader reader(body);
  End end;
  end.round = reader.u64();
  end.edition = reader.u32();
  end.weight_sum = reader.u64();
  end.late = read_ranks(reader, ranks);
  if (!reader.finished()) return malformed("end of a round");
  return end;
}

bootstrap::SharedBytes encode(const Failed& failed) {
  std::vector<std::byte> body(17 + status_bytes(failed.why));
  Writer writer(body);
  writer.u64(failed.round).u64(failed.next_round).u8(failed.ended ? 1 : 0);
  write_status(writer, failed.why);
  return shared(std::move(body));
}

Result<Failed> decode_failed(std::span<const std::byte> body) {
  Reader reader(body);
  Failed failed;
  failed.round = reader.u64();
  failed.next_round = reader.u64();
  const uint8_t ended = reader.u8();
  failed.ended = ended == 1;
  if (ended > 1) reader.fail();
  failed.why = read_status(reader);
  if (!reader.finished()) return malformed("failure of a round");
  return failed;
}

}  // namespace isthmus::federated
