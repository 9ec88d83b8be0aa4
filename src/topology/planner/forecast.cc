// SPDX-License-Identifier: Apache-2.0
// Forecasts, and what has changed. See forecast.h.
#include "topology/planner/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace isthmus::topology {
namespace {

/// Larger jobs' plans take too long to walk beside calls: closed forms do.
constexpr int32_t kMostWalkedRanks = 16;
constexpr uint64_t kMostEvents = 100'000;
constexpr uint64_t kLeastBytes = 8;
constexpr double kChanged = 1.2;
/// Latencies and rates below this are not what calls between hosts wait for.
constexpr double kLeastLatencyNs = 100e3;

void append(std::string& text, const std::string& what) { text += (text.empty() ? "" : "; ") + what; }

bool changed(double before, double after) { return std::max(before, after) > kChanged * std::min(before, after); }

std::string link_changes(const LinkFacts& before, const LinkFacts& after) {
  const std::string name = after.from.empty() && after.to.empty()
                               ? std::string(within_name(after.within))
                               : fmt::format("{} -> {}", after.from.empty() ? "any" : after.from, after.to.empty() ? "any" : after.to);
  std::string text;
  const auto latency = [](const LinkFacts& facts) { return std::max(kLeastLatencyNs, static_cast<double>(facts.latency_ns)); };
  if (changed(latency(before), latency(after))) {
    append(text, fmt::format("{}: latency {}, now {}", name, time_text(before.latency_ns), time_text(after.latency_ns)));
  }
  const auto rate = [&](const char* what, uint64_t old_rate, uint64_t new_rate) {
    if (old_rate == 0 || new_rate == 0 || !changed(static_cast<double>(old_rate), static_cast<double>(new_rate))) return;
    append(text, fmt::format("{}: {} {:.1f} MB/s, now {:.1f}", name, what, static_cast<double>(old_rate) / 1e6,
                             static_cast<double>(new_rate) / 1e6));
  };
  rate("one stream", before.stream_bytes_per_s, after.stream_bytes_per_s);
  rate("all streams", before.cut_bytes_per_s, after.cut_bytes_per_s);
  return text;
}

}  // namespace

Forecast::Forecast(Scene scene) : scene_(std::move(scene)), pricer_(scene_, scene_.ranks() > kMostWalkedRanks ? 0 : kMostEvents) {}

Result<std::unique_ptr<Forecast>> Forecast::make(Layout layout, Profile profile) {
  ISTHMUS_ASSIGN(Scene scene, Scene::make(std::move(layout), std::move(profile)));
  return std::make_unique<Forecast>(std::move(scene));
}

Result<TimeNs> Forecast::of(const collectives::Choice& choice, uint64_t bytes) {
  const uint64_t low = std::bit_floor(std::max(bytes, kLeastBytes)), high = 2 * low;
  ISTHMUS_ASSIGN(const Price at_low, pricer_.price(choice, low));
  ISTHMUS_ASSIGN(const Price at_high, pricer_.price(choice, high));
  const double share = static_cast<double>(std::max(bytes, low) - low) / static_cast<double>(low);
  return at_low.time_ns + static_cast<TimeNs>(share * static_cast<double>(at_high.time_ns - at_low.time_ns));
}

std::string profile_changes(const Profile& before, const Profile& after) {
  std::string text;
  for (const LinkFacts& one : after.links) {
    const auto old = std::find_if(before.links.begin(), before.links.end(), [&](const LinkFacts& other) {
      return other.within == one.within && other.from == one.from && other.to == one.to;
    });
    if (old == before.links.end() || one.confidence != Confidence::measured || old->confidence != Confidence::measured) continue;
    if (const std::string changes = link_changes(*old, one); !changes.empty()) append(text, changes);
  }
  return text;
}

std::string plan_changes(const PlanFile& before, const PlanFile& after) {
  std::string text;
  for (const Interval& one : after.intervals) {
    const auto old = std::find_if(before.intervals.begin(), before.intervals.end(), [&](const Interval& other) {
      return other.collective == one.collective && other.min_bytes <= one.at_bytes && one.at_bytes <= other.max_bytes;
    });
    if (old == before.intervals.end() || old->choice == one.choice) continue;
    append(text,
           fmt::format("{} from {} bytes: {}, now {}", name_of(one.collective), one.min_bytes, text_of(old->choice), text_of(one.choice)));
  }
  return text;
}

}  // namespace isthmus::topology
