// SPDX-License-Identifier: Apache-2.0
// mask_messages.h.
#include "federated/mask_messages.h"

#include "base/bytes.h"

namespace isthmus::federated {

std::vector<std::byte> encode(const CohortMessage& message) {
  std::vector<std::byte> body(CohortMessage::kHeadBytes + message.payload.size());
  Writer writer(body);
  writer.u64(message.round);
  write_ranks(writer, message.ranks);
  writer.bytes(message.payload);
  return body;
}

std::vector<std::byte> encode(const MemberMessage& message) {
  std::vector<std::byte> body(MemberMessage::kHeadBytes + message.payload.size());
  Writer(body).u64(message.round).bytes(message.payload);
  return body;
}

Result<CohortMessage> decode_cohort_message(std::span<const std::byte> body, uint32_t ranks) {
  Reader reader(body);
  CohortMessage message;
  message.round = reader.u64();
  message.ranks = read_ranks(reader, ranks);
  message.payload = reader.bytes(reader.remaining());
  if (!reader.ok()) return remote_error("malformed message to a cohort");
  return message;
}

Result<MemberMessage> decode_member_message(std::span<const std::byte> body) {
  Reader reader(body);
  MemberMessage message;
  message.round = reader.u64();
  message.payload = reader.bytes(reader.remaining());
  if (!reader.ok()) return remote_error("malformed message of a cohort's member");
  return message;
}

}  // namespace isthmus::federated
