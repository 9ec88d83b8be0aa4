// SPDX-License-Identifier: Apache-2.0
// Where peers come in: listeners on this host's addresses, and the strangers who have knocked but not proved anything yet. Few at
// a time, each with a deadline, so that scans and floods cost little and disturb nobody. Used by Tcp. Fails only to open.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/context.h"
#include "transport/tcp/greeting.h"

namespace isthmus::transport {

class Door {
 public:
  using KeyLookup = wire::Handshake::KeyLookup;
  using Admit = std::function<Status(const wire::Hello&, std::unique_ptr<Stream>)>;

  /// `lookup` finds the key for a claim; `admit` gets every stream that proved it, and may still refuse.
  Door(TcpContext& context, KeyLookup lookup, Admit admit);
  ~Door();

  /// Listens on all addresses of this host that others are told. Fails when none works.
  Status open();
  [[nodiscard]] const std::vector<Address>& addresses() const { return addresses_; }
  /// Admits and refuses strangers; to be called after every round of turns.
  void poll(TimeNs now);

  /// Called with a line about everybody who was refused.
  std::function<void(const std::string&)> on_refused = [](const std::string&) {};

 private:
  class Entrance;

  bool make_room(TimeNs now);
  Status receive(std::unique_ptr<Stream> stream, TimeNs now);
  /// True when the stranger at `index` is dealt with and gone.
  bool settle(size_t index, TimeNs now);
  void refuse(const Greeting& stranger, const Status& why, uint64_t& counter);

  TcpContext& context_;
  KeyLookup lookup_;
  Admit admit_;
  std::vector<std::unique_ptr<Entrance>> entrances_;
  std::vector<Address> addresses_;
  std::vector<std::unique_ptr<Greeting>> strangers_;  ///< oldest first
  TimeNs next_check_at_ = 0;
};

}  // namespace isthmus::transport
