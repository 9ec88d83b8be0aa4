// SPDX-License-Identifier: Apache-2.0
// The abstract machine: runs the plans of all ranks together, with no data and no time. It knows when a step is ready, which send
// belongs to which receive, and when a message may move; whoever drives it decides what happens next. Driven by the symbolic
// checker (random order), the deadlock checker (any order) and the cost walk (virtual time). Fails only if messages do not match.
//
// A message moves when its send's dependencies are complete and the receiver can land it: a recv when its own dependencies are
// complete, a recv_reduce when its inbox slot is free, and in ordinal order per (sender, receiver): everything before it must be
// landable too. A pushed send is complete when its bytes have left; one that is read in place when the receiving step is.
// Every condition is of the form "after these events", so what can happen at all does not depend on the order of events, and a
// world that completes with fewer messages, more slots or fewer in-place reads completes too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/check.h"

namespace isthmus::plan {

class Walk {
 public:
  /// A step of one of the plans; `plan` is an index into the world.
  struct At {
    uint32_t plan = 0;
    uint32_t step = 0;
    friend bool operator==(const At&, const At&) = default;
  };
  /// Something that can happen: a message moves (`at` is its send), or else a step computes (an apply, a local step, or any
  /// end of a message without bytes).
  struct Event {
    At at;
    bool is_move = false;
  };

  /// Matches all messages and enables what depends on nothing. `count` elements per block: messages without bytes do not travel.
  /// `world` must outlive the walk. Fails with internal_error if a message has no counterpart.
  static Result<Walk> start(World world, uint64_t count, Reads reads);

  /// What has become possible since the driver last emptied the list. Each event appears once.
  [[nodiscard]] std::vector<Event>& enabled() { return enabled_; }
  /// The step has computed.
  void computed(At at);
  /// The message's bytes have left: a pushed send is complete.
  void left(At send);
  /// The message has landed; call after left().
  void landed(At send);

  [[nodiscard]] bool done() const { return remaining_ == 0; }
  [[nodiscard]] World world() const { return world_; }
  [[nodiscard]] const Step& step(At at) const { return world_[at.plan].steps[at.step]; }
  /// The other end of a message.
  [[nodiscard]] At partner(At at) const;
  /// A number for every directed pair that exchanges messages, the same for all messages from one rank to the other, below pairs().
  [[nodiscard]] size_t pair(At message) const { return state(message).channel; }
  [[nodiscard]] size_t pairs() const { return channels_.size(); }
  /// A number for every step of the world, dense from 0.
  [[nodiscard]] size_t number(At at) const { return first_[at.plan] + at.step; }
  [[nodiscard]] size_t steps() const { return states_.size(); }
  [[nodiscard]] const Binding& binding() const { return binding_; }
  /// Elements that each operand of the step has.
  [[nodiscard]] uint64_t elements(const Step& step) const;
  /// When nothing is enabled and the walk is not done: the circle (or the dead end) of steps that wait for each other.
  [[nodiscard]] std::string describe_stall() const;

 private:
  struct State {
    uint32_t pending = 0;           ///< predecessors to come
    uint32_t channel = UINT32_MAX;  ///< messages: index into channels_
    uint32_t slot_next = kNoStep;   ///< the recv_reduce that takes over this step's inbox slot
    bool arrived = false;           ///< recv_reduce: the message is in its slot
    bool complete = false;
  };
  /// One rank's messages from and to one peer.
  struct Channel {
    uint32_t plan = 0;
    int32_t peer = -1;                    ///< communicator rank
    uint32_t counterpart = UINT32_MAX;    ///< the peer's channel to this rank
    uint32_t sends_begin = 0, sends = 0;  ///< in send_steps_, by ordinal
    uint32_t recvs_begin = 0, recvs = 0;  ///< in recv_steps_, by ordinal
    uint32_t landable = 0;                ///< messages from the peer with a lower ordinal can land
  };

  Walk() = default;
  Status open_channels();
  Status list_messages(uint32_t plan, std::vector<uint32_t>& channel_of_rank);
  Status match();
  void begin();

  [[nodiscard]] bool travels(const Step& step) const;
  [[nodiscard]] bool slot_is_free(const Step& what, uint32_t plan) const;
  [[nodiscard]] bool has_room(uint32_t plan, uint32_t step) const;
  void ready(At at);
  void complete(At at);
  void advance(Channel& channel);
  const char* blocker(At& at) const;
  [[nodiscard]] State& state(At at) { return states_[number(at)]; }
  [[nodiscard]] const State& state(At at) const { return states_[number(at)]; }
  [[nodiscard]] bool read_in_place(At send) const;

  World world_;
  Reads reads_ = Reads::pushed;
  Binding binding_;
  std::vector<size_t> first_;  ///< plan -> number of its first step
  std::vector<State> states_;
  std::vector<Channel> channels_;
  std::vector<uint32_t> channels_begin_;  ///< plan -> its first channel; one more at the end
  std::vector<uint32_t> send_steps_, recv_steps_;
  std::vector<Event> enabled_;
  size_t remaining_ = 0;
};

}  // namespace isthmus::plan
