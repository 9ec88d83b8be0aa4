// SPDX-License-Identifier: Apache-2.0
// machines.h.
#include "machines.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace isthmus::bars {
namespace {

using topology::LinkFacts;

uint64_t between(std::mt19937_64& random, uint64_t least, uint64_t most) { return least + random() % (most - least + 1); }

/// Evenly by powers.
uint64_t spread(std::mt19937_64& random, double least, double most) {
  const double at = static_cast<double>(random() % 10001) / 10000;
  return static_cast<uint64_t>(std::llround(least * std::pow(most / least, at)));
}

LinkFacts link(std::mt19937_64& random, std::optional<topology::Level> within, double latency_ns, double rate) {
  LinkFacts facts{.within = within, .from = {}, .to = {}, .gaps = {}};
  facts.latency_ns = static_cast<TimeNs>(spread(random, latency_ns / 4, latency_ns * 4));
  facts.overhead_ns = static_cast<TimeNs>(spread(random, 100, 5000));
  facts.stream_bytes_per_s = spread(random, rate / 4, rate * 4);
  return facts;
}

}  // namespace

topology::Scene random_scene(std::mt19937_64& random, Links links) {
  const bool mixed = links == Links::mixed;
  const uint64_t buildings = mixed ? between(random, 2, 4) : 1;
  std::string text;
  for (uint64_t at = 0; at < buildings; ++at)
    text += fmt::format("{}{}", at == 0 ? "" : "+", between(random, mixed ? 1 : 2, mixed ? 6 : 24));
  const bool shared_hosts = mixed && random() % 3 == 0;
  if (shared_hosts) text += "x2";
  if (mixed && random() % 2 == 0) text += "/cyclic";
  if (!mixed) text = "1x" + text;
  topology::Profile profile;
  if (shared_hosts) profile.links.push_back(link(random, topology::Level::host, 1'000, 5e9));
  profile.links.push_back(link(random, topology::Level::building, 20'000, 1e9));
  if (mixed) {
    profile.links.push_back(link(random, std::nullopt, 2e6, 1e8));
    for (uint64_t at = 0; at < buildings; ++at) {
      LinkFacts uplink{.within = std::nullopt, .from = fmt::format("b{}", at), .to = {}, .gaps = {}};
      uplink.cut_bytes_per_s = spread(random, 1e7, 1e9);
      profile.links.push_back(uplink);
    }
  }
  profile.machine.reduce_bytes_per_s = spread(random, 1e9, 2e10);
  profile.machine.copy_bytes_per_s = 0;
  profile.machine.step_ns = static_cast<TimeNs>(between(random, 0, 200));
  return topology::Scene::make(*topology::parse_layout(text), std::move(profile)).value();
}

uint64_t random_bytes(std::mt19937_64& random) { return spread(random, 4, 64 << 20); }

}  // namespace isthmus::bars
