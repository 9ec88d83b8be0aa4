// SPDX-License-Identifier: Apache-2.0
// Fd: sole owner of a file descriptor. Used by every wall that opens one; nothing here can fail (close errors are not actionable).
// Which descriptors are owned is known process-wide, so that a child made by fork() can let go of them.
#pragma once

#include <unistd.h>

#include <utility>

namespace isthmus {

/// Descriptors are numbers of the process, so is the record of those that are owned. Safe in a child made by fork().
namespace owned_descriptors {
void add(int fd);
void remove(int fd);
/// Closes them all, whatever their owners believe: for a child that never uses them.
void close_all();
}  // namespace owned_descriptors

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {
    if (fd_ >= 0) owned_descriptors::add(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Closes what is owned and owns `fd` instead.
  void reset(int fd = -1) {
    if (fd_ >= 0) {
      owned_descriptors::remove(fd_);
      ::close(fd_);
    }
    fd_ = fd;
    if (fd_ >= 0) owned_descriptors::add(fd_);
  }

 private:
  int fd_ = -1;
};

}  // namespace isthmus
