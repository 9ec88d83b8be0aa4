// SPDX-License-Identifier: Apache-2.0
// linkemu's wall: one TAP device per site, in this network namespace or in another process's. Used by linkemu's main only. Fails with
// system_error where the kernel refuses a device: only root may make one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "linkemu/shaper.h"

namespace linkemu {

struct DeviceName {
  std::string site;
  std::string device;
  int pid = 0;  ///< of a process in the device's network namespace; 0 for this one's
};
/// "SITE=DEVICE" or "SITE=DEVICE@PID"
isthmus::Result<DeviceName> parse_device(std::string_view text);

class Device {
 public:
  /// Makes the device, which goes away with this object. Whoever uses it sets its MTU and brings it up.
  static isthmus::Result<Device> open(const DeviceName& name);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// One frame into `buffer`, and its bytes; 0 if none is waiting.
  isthmus::Result<size_t> read(std::span<std::byte> buffer);
  /// False if the kernel did not take the frame: the device is down, or memory is short.
  bool write(std::span<const std::byte> frame);

 private:
  explicit Device(isthmus::Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  isthmus::Fd fd_;
  std::string name_;
};

}  // namespace linkemu
