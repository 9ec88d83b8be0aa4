// SPDX-License-Identifier: Apache-2.0
// Accounts of calls and their comparison. See agreement.h.
#include "comm/agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace isthmus::comm {

namespace {

constexpr size_t kMaxText = 256;
constexpr size_t kMaxEarly = 256;

}  // namespace

void Agreement::tell(int32_t to, const exec::CallRecord& record, bool answer) {
  const std::string text = record.to_text().substr(0, kMaxText);
  std::vector<std::byte> body(32 + text.size());
  Writer writer(body);
  writer.u8(answer ? 1 : 0).u8(static_cast<uint8_t>(record.call_class)).u8(record.is_send ? 1 : 0).u32(record.number).u64(record.key);
  writer.sized_text(text);
  body.resize(writer.written());
  send_(to, body);
}

void Agreement::on_suspect(int32_t rank, wire::CallClass call_class, uint32_t number) {
  const exec::CallRecord* mine =
      endpoint_.find_record(call_class, rank, false, number);  // what does not fit is a message of theirs, a receive of mine
  if (mine != nullptr) tell(rank, *mine, false);
}

void Agreement::on_stalled(const exec::Run& run) {
  run.for_each_missing([&](int32_t rank) {
    const uint64_t kept = std::min<uint64_t>(endpoint_.recorded, exec::Endpoint::kHistory);
    for (uint64_t i = 0; i < kept; ++i) {
      const exec::CallRecord& record = endpoint_.history[i];
      if (record.call_class != run.call_class()) continue;
      const bool collective = record.call_class == wire::CallClass::collective;
      if (collective ? record.number == run.signature().sequence : record.peer == rank) tell(rank, record, false);
    }
  });
}

void Agreement::on_account(int32_t from, std::span<const std::byte> body) {
  Reader reader(body);
  Account account;
  account.answer = reader.u8() != 0;
  const uint8_t call_class = reader.u8();
  account.is_send = reader.u8() != 0;
  account.number = reader.u32();
  account.key = reader.u64();
  account.text = reader.sized_text(kMaxText);
  if (!reader.finished() || call_class > static_cast<uint8_t>(wire::CallClass::send_recv)) return;
  account.call_class = static_cast<wire::CallClass>(call_class);
  if (const exec::CallRecord* mine = endpoint_.find_record(account.call_class, from, !account.is_send, account.number); mine != nullptr) {
    return compare(from, account, *mine);
  }
  if (early_.size() < kMaxEarly) early_.push_back({.from = from, .account = std::move(account)});
}

void Agreement::compare(int32_t from, const Account& account, const exec::CallRecord& mine) {
  if (account.key == mine.key) return;
  if (!account.answer) tell(from, mine, true);
  fail_(invalid_usage(fmt::format("mismatch: rank {} made {}, rank {} made {}", endpoint_.rank, mine.to_text(), from, account.text), from));
}

void Agreement::on_submitted() {
  for (size_t i = 0; i < early_.size(); ++i) {
    const exec::CallRecord* mine =
        endpoint_.find_record(early_[i].account.call_class, early_[i].from, !early_[i].account.is_send, early_[i].account.number);
    if (mine == nullptr) continue;
    const Early early = std::move(early_[i]);
    early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
    return compare(early.from, early.account, *mine);
  }
}

}  // namespace isthmus::comm
