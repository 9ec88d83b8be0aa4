// SPDX-License-Identifier: Apache-2.0
// How far from our caches are those who read our results? Two CPUs without a common cache hand over a line that one of them has just
// written at a tenth of memory's speed (two virtual CPUs may come to be that far apart at any time), so then results are stored past
// the caches; between CPUs with a common cache that would cost a factor of two. Readers measure and tell with each `done`; here
// is what a writer makes of it. Used by Run and Buffers; cannot fail.
#pragma once

#include <algorithm>

#include "base/types.h"

namespace isthmus::exec {

/// One process's guess about all its peers on this host.
class Distance {
 public:
  /// Reading slower than this (bytes per ns) means far: memory itself is faster, also when all CPUs use it at once.
  static constexpr double kFarBytesPerNs = 2.5;
  /// So long results go past the caches before a trial of the other way, which costs a slow call if nothing has changed. The first wait
  /// is short, since first reads are slow for other reasons (page faults); each failed trial doubles it.
  static constexpr TimeNs kFirstTrialNs = kMillisecondNs;
  static constexpr TimeNs kLastTrialNs = 128 * kMillisecondNs;
  static constexpr int kConvincing = 256;

  /// A reader has measured a message of ours.
  void told(bool far, TimeNs now) {
    if (far) {
      if (!far_) {
        wait_ns_ = std::min(2 * wait_ns_, kLastTrialNs);
        trial_at_ns_ = now + wait_ns_;
      }
      far_ = true;
      near_messages_ = 0;
    } else if (!far_ && ++near_messages_ >= kConvincing) {  // while far, and just after, it is what went past the caches that is read
      wait_ns_ = kFirstTrialNs / 2;
    }
  }
  /// Shall results go past the caches?
  [[nodiscard]] bool far(TimeNs now) {
    if (far_ && now >= trial_at_ns_) far_ = false;
    return far_;
  }

 private:
  bool far_ = false;
  int near_messages_ = 0;  ///< in a row
  TimeNs trial_at_ns_ = 0;
  TimeNs wait_ns_ = kFirstTrialNs / 2;
};

}  // namespace isthmus::exec
