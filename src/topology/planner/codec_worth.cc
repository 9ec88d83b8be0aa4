// SPDX-License-Identifier: Apache-2.0
// codec_worth.h.
#include "topology/planner/codec_worth.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "topology/planner/plan_file.h"

namespace isthmus::topology {
namespace {

constexpr uint64_t kEnoughEvents = 20'000'000;
constexpr double kFarthest = 1024;
constexpr int kBisections = 8;  // to within 6 %

struct Both {
  Price exact, coded;
};

Result<Price> quickest(const Scene& scene, Collective collective, uint64_t bytes, const codec::Named* codec) {
  Pricer pricer(scene, kEnoughEvents, codec);
  ISTHMUS_ASSIGN(const std::vector<Price> prices, pricer.best(collective, bytes, {}, 0));
  if (prices.empty()) {
    return invalid_argument(fmt::format("{} has no algorithm for codec {}", name_of(collective), codec == nullptr ? "none" : codec->text));
  }
  if (codec != nullptr && !prices.front().walked) return invalid_argument("the job is too large for plans with codecs to be walked");
  return preferred(prices);
}

Result<Both> price_both(const Scene& scene, Collective collective, uint64_t bytes, const codec::Named& codec) {
  Both both;
  ISTHMUS_ASSIGN(both.exact, quickest(scene, collective, bytes, nullptr));
  ISTHMUS_ASSIGN(both.coded, quickest(scene, collective, bytes, &codec));
  return both;
}

/// With the links of one kind so many times as fast.
Result<Scene> faster(const Scene& scene, std::optional<Level> within, double factor) {
  Profile profile = scene.profile();
  const auto scaled = [&](uint64_t rate) {
    return rate == 0 ? 0 : std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(rate) * factor));
  };
  for (LinkFacts& link : profile.links) {
    if (link.within != within) continue;
    link.stream_bytes_per_s = scaled(link.stream_bytes_per_s);
    link.port_bytes_per_s = scaled(link.port_bytes_per_s);
    link.cut_bytes_per_s = scaled(link.cut_bytes_per_s);
    for (plan::Knot& knot : link.gaps) knot.gap_ns = static_cast<TimeNs>(static_cast<double>(knot.gap_ns) / factor);
  }
  return Scene::make(scene.layout(), std::move(profile));
}

/// The kind of link that spans most, of those between the ranks.
std::optional<Level> widest_links(const Layout& layout) {
  const auto widest = layout.widest();
  if (!widest) return Level::host;
  return *widest == Level::region ? std::nullopt : std::optional(static_cast<Level>(static_cast<size_t>(*widest) + 1));
}

}  // namespace

Result<CodecWorth> worth_of(const Scene& scene, Collective collective, uint64_t bytes, const codec::Named& codec) {
  const std::optional<Level> within = widest_links(scene.layout());
  ISTHMUS_ASSIGN(const Both now, price_both(scene, collective, bytes, codec));
  CodecWorth worth{.codec = codec.text, .exact = now.exact, .coded = now.coded, .links = std::string(within_name(within))};
  for (const LinkFacts& link : scene.profile().links) {
    if (link.within != within) continue;
    const uint64_t rate = link.cut_bytes_per_s != 0 ? link.cut_bytes_per_s : link.stream_bytes_per_s;
    if (rate != 0 && (worth.rate_bytes_per_s == 0 || rate < worth.rate_bytes_per_s)) worth.rate_bytes_per_s = rate;
  }
  const auto pays = [&](double factor) -> Result<bool> {
    ISTHMUS_ASSIGN(const Scene then, faster(scene, within, factor));
    ISTHMUS_ASSIGN(const Both both, price_both(then, collective, bytes, codec));
    return both.coded.time_ns < both.exact.time_ns;
  };
  double low = 1 / kFarthest, high = kFarthest;  // it pays at low, and does not at high
  ISTHMUS_ASSIGN(const bool at_low, pays(low));
  ISTHMUS_ASSIGN(const bool at_high, pays(high));
  if (!at_low) return worth;
  if (at_high) {
    worth.break_even = std::numeric_limits<double>::infinity();
    return worth;
  }
  for (int step = 0; step < kBisections; ++step) {
    const double middle = std::sqrt(low * high);
    ISTHMUS_ASSIGN(const bool still, pays(middle));
    (still ? low : high) = middle;
  }
  worth.break_even = std::sqrt(low * high);
  return worth;
}

std::string to_text(const CodecWorth& worth) {
  const double ratio = static_cast<double>(worth.exact.time_ns) / static_cast<double>(std::max<TimeNs>(worth.coded.time_ns, 1));
  std::string text = fmt::format("through {}: {}, {}, {:.2f} times as quick\n", worth.codec, text_of(worth.coded.choice),
                                 time_text(worth.coded.time_ns), ratio);
  if (worth.break_even == 0) return text + fmt::format("it would not pay at any rate of the links within a {}\n", worth.links);
  if (std::isinf(worth.break_even)) return text + fmt::format("it pays however fast the links within a {} are\n", worth.links);
  return text + fmt::format("it pays while links within a {} carry less than {:.4g} MB/s (now {:.4g})\n", worth.links,
                            static_cast<double>(worth.rate_bytes_per_s) * worth.break_even / 1e6,
                            static_cast<double>(worth.rate_bytes_per_s) / 1e6);
}

}  // namespace isthmus::topology
