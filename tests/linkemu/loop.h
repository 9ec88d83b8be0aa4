// SPDX-License-Identifier: Apache-2.0
// linkemu's loop: frames from devices into links and back, at their times, and commands as they come. Used by linkemu's main. Fails with
// system_error if a device or poll() fails; wrong commands are reported on stderr and change nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "linkemu/devices.h"
#include "linkemu/forwarding.h"
#include "linkemu/network.h"

namespace linkemu {

class Loop {
 public:
  /// `devices`: one per site of the network. `script`: runs from the order `start` on.
  Loop(Network network, std::vector<Device> devices, std::vector<Command> script)
      : network_(std::move(network)), devices_(std::move(devices)), script_(std::move(script)), buffer_(kBufferBytes) {}

  /// Now, or at its time.
  void schedule(const Command& command, TimeNs now) { agenda_.emplace(isthmus::later(now, command.after_ns), command.what); }
  /// Until the order `quit`, or until `signals` has one.
  [[nodiscard]] isthmus::Status run(int commands, int signals);
  /// One line of JSON: the network's, and the frames that devices did not take.
  [[nodiscard]] std::string report() const;

 private:
  static constexpr size_t kBufferBytes = 66'000;  // more than any device's frame
  static constexpr int kBatch = 64;               // frames of one device before others have their turn
  static constexpr size_t kLongestLine = 4096;

  isthmus::Status take_frames(size_t site);
  void deliver(TimeNs now);
  bool take_commands(int commands);
  void take_lines(TimeNs now);
  void act(TimeNs now);
  void obey(Order order, TimeNs now);
  [[nodiscard]] TimeNs next_event() const;

  Network network_;
  std::vector<Device> devices_;
  std::vector<Command> script_;
  Forwarding forwarding_;
  std::multimap<TimeNs, std::variant<Change, Order>> agenda_;
  std::string typed_;  // of a line whose end has not come yet
  std::vector<std::byte> buffer_;
  uint64_t refused_ = 0;
  bool ending_ = false;
};

/// Of the monotonic clock.
TimeNs read_clock();

}  // namespace linkemu
