// SPDX-License-Identifier: Apache-2.0
// Where members of `isthmus federated run` come in and are heard: a place for each number, held by the process that proved to know the
// secret until its connection is gone. A state machine without threads or clocks. Only opening it fails; whatever members do is an event.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/link.h"
#include "bootstrap/reception.h"
#include "bootstrap/surroundings.h"
#include "cli/federated/run/messages.h"
#include "federated/rank_set.h"

namespace isthmus::cli {

/// Claims of both ends are for this, and their key is derived from the common secret's for this alone.
uint64_t run_number();
Key run_key(const Crypto& crypto, const Key& key);

class Door final : private bootstrap::Reception::Host {
 public:
  struct Event {
    enum class Kind : uint8_t { joined, said, gone } kind = Kind::joined;
    uint32_t member = 0;
    RunType type = RunType::join;  ///< of what it said
    std::vector<std::byte> body;
    std::string why;  ///< it is gone
  };
  struct Counters : bootstrap::Reception::Counters {
    uint64_t turned_away = 0;  ///< proved the secret, but cannot be let in
    uint64_t joined = 0, lost = 0;
  };

  /// `most_bytes`: of a message of a member.
  static Result<std::unique_ptr<Door>> open(const bootstrap::Surroundings& surroundings, const Key& key, uint32_t members,
                                            size_t most_bytes, std::span<const transport::Address> listen_at);

  /// What has happened, in order.
  std::vector<Event> poll(TimeNs now);
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }

  void say(uint32_t member, RunType type, const bootstrap::SharedBytes& body);
  void say_to_all(RunType type, const bootstrap::SharedBytes& body);
  /// It is told why, and its place is free.
  void turn_away(uint32_t member, const std::string& why, TimeNs now);
  [[nodiscard]] const federated::RankSet& here() const { return here_; }  ///< who has joined
  [[nodiscard]] bool has_said_all() const;
  [[nodiscard]] std::vector<transport::Address> addresses() const { return reception_.addresses(); }
  [[nodiscard]] Counters counters() const;

 private:
  struct Seat {
    std::optional<bootstrap::Link> link;
    transport::ProcessId process{};
    TimeNs came_at = 0, moved_at = 0, beat_at = 0;
    size_t unsent_bytes = 0;
  };

  Door(const bootstrap::Surroundings& surroundings, const Key& key, uint32_t members, size_t most_bytes)
      : surroundings_(surroundings),
        key_(key),
        most_bytes_(most_bytes),
        reception_(surroundings, *this, "the coordinator"),
        seats_(members) {}
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const override;
  void admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) override;
  [[nodiscard]] bool has_come(int32_t rank, const transport::ProcessId& process) const override;
  void dismiss(bootstrap::Link link, const Status& why, TimeNs now);
  void hear(uint32_t member, TimeNs now);
  Status on_message(uint32_t member, const bootstrap::Message& message);
  Status keep(uint32_t member, TimeNs now);
  void lose(uint32_t member, const std::string& why);

  bootstrap::Surroundings surroundings_;
  Key key_;
  size_t most_bytes_;
  bootstrap::Reception reception_;
  bootstrap::Farewells farewells_;
  std::vector<Seat> seats_;  ///< by member
  federated::RankSet here_;
  std::vector<Event> events_;
  Counters counters_;
  TimeNs due_at_ = 0;
};

}  // namespace isthmus::cli
