// SPDX-License-Identifier: Apache-2.0
// Accounts of calls from other ranks of a communicator: whatever is said, only an account of another call ends it.
#include <optional>

#include "comm/agreement.h"
#include "target.h"

namespace isthmus::fuzz {

using namespace comm;

namespace {

constexpr int32_t kFrom = 2;

exec::Endpoint endpoint_with_calls() {
  exec::Endpoint endpoint;
  endpoint.ranks = 4;
  endpoint.record({.number = 0, .key = 5, .signature = {}, .how = "ring"});
  endpoint.record(
      {.call_class = wire::CallClass::send_recv, .peer = kFrom, .is_send = true, .number = 0, .key = 6, .signature = {}, .how = ""});
  return endpoint;
}

/// What a rank with these calls says about them.
std::vector<Bytes> accounts_of(const exec::Endpoint& endpoint) {
  std::vector<Bytes> said;
  Agreement agreement(
      endpoint, [&](int32_t, std::span<const std::byte> body) { said.push_back(to_bytes(body)); }, [](const Status&) {});
  agreement.on_suspect(kFrom, wire::CallClass::collective, 0);
  return said;
}

}  // namespace

void run(Input input) {
  const exec::Endpoint endpoint = endpoint_with_calls();
  int answers = 0;
  std::optional<Status> failure;
  Agreement agreement(
      endpoint, [&](int32_t to, std::span<const std::byte>) { answers += to == kFrom ? 1 : 100; },
      [&](const Status& why) { failure = why; });
  agreement.on_account(kFrom, input);
  promise(answers <= 1, "an account is answered at most once, and to its rank");
  if (failure) promise(failure->origin_rank() == kFrom && failure->code() == Code::invalid_usage, "a mismatch names the other rank");
  const bool same = !accounts_of(endpoint).empty() && accounts_of(endpoint).front() == to_bytes(input);
  promise(!same || !failure, "equal calls are no mismatch");
  agreement.on_submitted();
}

std::vector<Bytes> seeds() {
  exec::Endpoint other = endpoint_with_calls();
  other.history[0].key = 7;
  exec::Endpoint later = endpoint_with_calls();
  later.history[0].number = 9;
  std::vector<Bytes> all;
  for (const Bytes& account : accounts_of(endpoint_with_calls())) all.push_back(account);
  for (const Bytes& account : accounts_of(other)) all.push_back(account);
  Agreement agreement(
      later, [&](int32_t, std::span<const std::byte> body) { all.push_back(to_bytes(body)); }, [](const Status&) {});
  agreement.on_suspect(kFrom, wire::CallClass::collective, 9);
  return all;
}

}  // namespace isthmus::fuzz
