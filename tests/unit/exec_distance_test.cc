// SPDX-License-Identifier: Apache-2.0
// What a writer makes of its readers' measurements: when results go past the caches, when the other way is tried again.
#include "exec/distance.h"

#include <gtest/gtest.h>

namespace isthmus::exec {
namespace {

TEST(Distance, NearUntilSomebodySaysFar) {
  Distance distance;
  EXPECT_FALSE(distance.far(0));
  distance.told(false, 0);
  EXPECT_FALSE(distance.far(0));
  distance.told(true, 10);
  EXPECT_TRUE(distance.far(10));
}

TEST(Distance, WhatWentPastTheCachesSaysNothing) {
  Distance distance;
  distance.told(true, 0);
  for (int i = 0; i < 1000; ++i) distance.told(false, 1);
  EXPECT_TRUE(distance.far(1));
}

// Plays a pair that stays far for a second: how many of its calls, one every 100 us, were trials?
int trials(Distance& distance, TimeNs begin_ns) {
  int tried = 0;
  for (TimeNs now = begin_ns; now < begin_ns + kSecondNs; now += kMillisecondNs / 10) {
    const bool far = distance.far(now);
    tried += far ? 0 : 1;
    distance.told(!far, now);  // what was stored in the caches is slow to read
    distance.told(false, now);
  }
  return tried;
}

TEST(Distance, TrialsBecomeRare) {
  Distance distance;
  EXPECT_LE(trials(distance, 0), 20);
  EXPECT_GE(trials(distance, kSecondNs), 2);
}

TEST(Distance, ComesBackWhenTheReadersAreNear) {
  Distance distance;
  (void)trials(distance, 0);
  const TimeNs later = 10 * kSecondNs;
  EXPECT_FALSE(distance.far(later));
  for (int i = 0; i < Distance::kConvincing; ++i) distance.told(false, later);
  EXPECT_FALSE(distance.far(later));
  distance.told(true, later);  // an interrupted reader: forgotten soon
  EXPECT_TRUE(distance.far(later));
  EXPECT_FALSE(distance.far(later + Distance::kFirstTrialNs));
}

}  // namespace
}  // namespace isthmus::exec
