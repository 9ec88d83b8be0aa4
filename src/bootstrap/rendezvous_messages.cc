// SPDX-License-Identifier: Apache-2.0
// rendezvous_messages.h. Pure.
#include "bootstrap/rendezvous_messages.h"

#include "base/bytes.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kTableHeadBytes = sizeof(Session) + 4 + 4;  // session, hub rank, ranks

Status malformed(std::string_view what) { return remote_error("the root sent a malformed " + std::string(what)); }

/// A verdict's code as the root wrote it; anything that cannot be a verdict counts as remote_error.
Code checked_code(uint8_t code) {
  const bool plausible = code > static_cast<uint8_t>(Code::ok) && code <= static_cast<uint8_t>(Code::timeout);
  return plausible && static_cast<Code>(code) != Code::in_progress ? static_cast<Code>(code) : Code::remote_error;
}

}  // namespace

std::vector<std::byte> encode(const Waiting& waiting) {
  std::vector<std::byte> body(8 + waiting.which.size());
  Writer(body).u32(waiting.missing).sized_text(waiting.which);
  return body;
}

Result<Waiting> decode_waiting(std::span<const std::byte> body) {
  Reader reader(body);
  Waiting waiting;
  waiting.missing = reader.u32();
  waiting.which = reader.sized_text(kMaxTextBytes);
  if (!reader.finished()) return malformed("list of missing ranks");
  return waiting;
}

std::vector<std::byte> encode(const Table& table) {
  size_t bytes = kTableHeadBytes;
  for (const auto& blob : table.blobs) bytes += 4 + blob.size();
  std::vector<std::byte> body(bytes);
  Writer writer(body);
  writer.fill(table.session).i32(table.hub_rank).u32(static_cast<uint32_t>(table.blobs.size()));
  for (const auto& blob : table.blobs) writer.sized_bytes(blob);
  return body;
}

Result<Table> decode_table(std::span<const std::byte> body, int32_t ranks) {
  Reader reader(body);
  Table table;
  reader.fill(table.session);
  table.hub_rank = reader.i32();
  const bool right_size = reader.u32() == static_cast<uint32_t>(ranks);
  if (!right_size || table.hub_rank < -1 || table.hub_rank >= ranks) return malformed("table");
  table.blobs.reserve(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto blob = reader.sized_bytes(kMaxBlobBytes);
    table.blobs.emplace_back(blob.begin(), blob.end());
  }
  if (!reader.finished()) return malformed("table");
  return table;
}

size_t max_table_bytes(int32_t ranks) { return kTableHeadBytes + static_cast<size_t>(ranks) * (4 + kMaxBlobBytes); }

std::vector<std::byte> encode_verdict(const Status& verdict) {
  const std::string_view text = std::string_view(verdict.text()).substr(0, kMaxTextBytes);
  std::vector<std::byte> body(5 + text.size());
  Writer(body).u8(static_cast<uint8_t>(verdict.code())).sized_text(text);
  return body;
}

Status decode_verdict(std::span<const std::byte> body) {
  Reader reader(body);
  const Code code = checked_code(reader.u8());
  std::string text = reader.sized_text(kMaxTextBytes);
  if (!reader.finished()) return malformed("verdict");
  return {code, std::move(text)};
}

}  // namespace isthmus::bootstrap
