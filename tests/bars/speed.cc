// SPDX-License-Identifier: Apache-2.0
// V8: how long planning takes: all collectives at 24 sizes, from a layout and a profile to a plan file; at most 50 ms for jobs that are
// walked. The median of several, because other programs run too.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bars.h"
#include "topology/planner/plan_file.h"

namespace isthmus::bars {
namespace {

constexpr int kRepetitions = 9;
constexpr double kMost_ms = 50;

topology::Profile two_speeds() {
  topology::Profile profile = topology::prior_profile();
  topology::LinkFacts uplink{.within = std::nullopt, .from = "b0", .to = {}, .gaps = {}};
  uplink.cut_bytes_per_s = 24'000'000;
  profile.links.push_back(uplink);
  uplink.from = "b1";
  profile.links.push_back(uplink);
  return profile;
}

double median_ms(const char* layout) {
  std::vector<double> times;
  for (int at = 0; at < kRepetitions; ++at) {
    const auto begin = std::chrono::steady_clock::now();
    const auto scene = topology::Scene::make(*topology::parse_layout(layout), two_speeds());
    const auto plan = topology::make_plan_file(*scene, {});
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    if (!plan.ok()) fmt::print("{}: {}\n", layout, plan.status().text());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

bool planner_speed(const Options&) {
  bool reached = true;
  fmt::print("V8: planning five collectives at 24 sizes (bar: {} ms up to 8 ranks)\n{:<12}{:>12}\n", kMost_ms, "layout", "median ms");
  for (const char* layout : {"2x2", "2x4", "2x4/cyclic", "3+5", "4x2", "3+1+2+2", "4x4", "2x32", "4x256", "4x1024"}) {
    const double ms = median_ms(layout);
    const bool counts = topology::parse_layout(layout)->ranks() <= 8;
    fmt::print("{:<12}{:>12.1f}\n", layout, ms);
    reached = reached && (!counts || ms <= kMost_ms);
  }
  fmt::print("V8 {}\n", reached ? "reached" : "MISSED");
  return reached;
}

}  // namespace isthmus::bars
