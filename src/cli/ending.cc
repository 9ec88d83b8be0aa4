// SPDX-License-Identifier: Apache-2.0
// ending.h.
#include "cli/ending.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace isthmus::cli {

Fd ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int pending_signal(const Fd& signals) {
  signalfd_siginfo info;
  return read(signals.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace isthmus::cli
