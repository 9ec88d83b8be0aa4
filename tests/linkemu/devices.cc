// SPDX-License-Identifier: Apache-2.0
// TAP devices by the kernel's interface (see devices.h).
#include "linkemu/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/text.h"

namespace linkemu {
namespace {

using isthmus::errno_error;
using isthmus::Fd;
using isthmus::invalid_argument;
using isthmus::Result;

/// Of process `pid`; 0: of this one.
Result<Fd> network_of(int pid) {
  const std::string path = pid == 0 ? "/proc/self/ns/net" : fmt::format("/proc/{}/ns/net", pid);
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error(fmt::format("open {}", path), errno);
  return fd;
}

Result<Fd> make_tap(const std::string& name) {
  Fd fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return errno_error("open /dev/net/tun", errno);
  ifreq request = {};
  std::copy(name.begin(), name.end(), request.ifr_name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) return errno_error(fmt::format("make TAP device {}", name), errno);
  return fd;
}

}  // namespace

Result<DeviceName> parse_device(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t at = std::min(text.find('@'), text.size());
  if (equals == std::string_view::npos || equals > at) {
    return invalid_argument(fmt::format("site '{}': write SITE=DEVICE or SITE=DEVICE@PID", text));
  }
  DeviceName name{.site = std::string(text.substr(0, equals)), .device = std::string(text.substr(equals + 1, at - equals - 1))};
  if (name.device.empty() || name.device.size() >= IFNAMSIZ) {
    return invalid_argument(fmt::format("device '{}': 1 to {} letters are accepted", name.device, IFNAMSIZ - 1));
  }
  if (at < text.size()) {
    ISTHMUS_ASSIGN(const uint64_t pid, isthmus::parse_unsigned(text.substr(at + 1), INT_MAX));
    name.pid = static_cast<int>(pid);
  }
  return name;
}

Result<Device> Device::open(const DeviceName& name) {
  // a device belongs to the namespace in which /dev/net/tun is opened
  ISTHMUS_ASSIGN(const Fd home, network_of(0));
  ISTHMUS_ASSIGN(const Fd there, network_of(name.pid));
  if (name.pid != 0 && setns(there.get(), CLONE_NEWNET) != 0) {
    return errno_error(fmt::format("enter the network of process {}", name.pid), errno);
  }
  auto fd = make_tap(name.device);
  if (name.pid != 0 && setns(home.get(), CLONE_NEWNET) != 0) return errno_error("return to the own network", errno);
  if (!fd.ok()) return fd.status();
  return Device(std::move(*fd), name.device);
}

Result<size_t> Device::read(std::span<std::byte> buffer) {
  const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
  if (got >= 0) return static_cast<size_t>(got);
  if (errno == EAGAIN || errno == EINTR || errno == EIO) return size_t{0};  // EIO: brought down just now
  return errno_error(fmt::format("read from {}", name_), errno);
}

bool Device::write(std::span<const std::byte> frame) {
  return ::write(fd_.get(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

}  // namespace linkemu
