// SPDX-License-Identifier: Apache-2.0
// Do all ranks make the same calls? Each call's frames carry a key; a rank that sees another key than its own, or that has waited long
// with nothing arriving, tells the other what it called and is told the same. So both sides fail, each naming both calls, also the
// one that had returned already. One per communicator; called by it under the driver's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/endpoint.h"
#include "exec/run.h"

namespace isthmus::comm {

class Agreement {
 public:
  using Send = std::function<void(int32_t to, std::span<const std::byte> body)>;
  using Fail = std::function<void(const Status& why)>;
  /// `send` carries an account to another rank, `fail` ends the communicator.
  Agreement(const exec::Endpoint& endpoint, Send send, Fail fail) : endpoint_(endpoint), send_(std::move(send)), fail_(std::move(fail)) {}

  /// As exec::Observer.
  void on_suspect(int32_t rank, wire::CallClass call_class, uint32_t number);
  void on_stalled(const exec::Run& run);
  /// Another rank's account.
  void on_account(int32_t from, std::span<const std::byte> body);
  /// A call was made: was anything said about it before?
  void on_submitted();

 private:
  /// What a rank says about a call of its own.
  struct Account {
    bool answer = false;  ///< needs no answer itself
    wire::CallClass call_class = wire::CallClass::collective;
    bool is_send = false;
    uint32_t number = 0;
    uint64_t key = 0;
    std::string text;
  };
  struct Early {
    int32_t from;
    Account account;
  };
  void tell(int32_t to, const exec::CallRecord& record, bool answer);
  void compare(int32_t from, const Account& account, const exec::CallRecord& mine);

  const exec::Endpoint& endpoint_;
  Send send_;
  Fail fail_;
  std::vector<Early> early_;  ///< accounts of calls that this rank has not made yet
};

}  // namespace isthmus::comm
