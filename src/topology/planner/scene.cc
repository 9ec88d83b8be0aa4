// SPDX-License-Identifier: Apache-2.0
// Scenes. See scene.h.
#include "topology/planner/scene.h"

#include <algorithm>

namespace isthmus::topology {
namespace {

/// Kinds of link by number: the levels, and what joins regions.
size_t kind_of(std::optional<Level> within) { return within ? static_cast<size_t>(*within) : kLevels; }

}  // namespace

Result<Scene> Scene::make(Layout layout, Profile profile) {
  if (profile.links.empty()) return invalid_argument("the profile says nothing about any link");
  Scene scene;
  scene.layout_ = std::make_shared<const Layout>(std::move(layout));
  scene.profile_ = std::make_shared<const Profile>(std::move(profile));
  scene.told_apart_.resize(kLevels + 1);
  for (const LinkFacts& link : scene.profile_->links) {
    if (!link.from.empty() || !link.to.empty()) scene.told_apart_[kind_of(link.within)] = true;
  }
  // A host whose CPUs are not known has enough of them.
  scene.cpus_ = scene.layout_->cpus_of_hosts;
  std::vector<int32_t> ranks(scene.cpus_.size(), 0);
  for (const int32_t host : scene.layout_->hosts()) ++ranks[static_cast<size_t>(host)];
  for (size_t host = 0; host < ranks.size(); ++host) {
    if (scene.cpus_[host] == 0) scene.cpus_[host] = ranks[host];
  }
  return scene;
}

const LinkFacts& Scene::facts(int32_t from, int32_t to) const { return *way(from, to).facts; }

plan::LinkCost Scene::link(int32_t from, int32_t to) const {
  const LinkFacts& facts = *way(from, to).facts;
  return {.latency_ns = facts.latency_ns,
          .overhead_ns = facts.overhead_ns,
          .rate_bytes_per_s = static_cast<double>(facts.stream_bytes_per_s),
          .gaps = facts.gaps};
}

std::span<const plan::SharedLink> Scene::shared(int32_t from, int32_t to) const {
  const Way& way = this->way(from, to);
  const uint64_t rate = way.facts->port_bytes_per_s;
  if (rate == 0) return way.cuts;
  answer_ = way.cuts;
  answer_.push_back(port(from, true, rate));
  answer_.push_back(port(to, false, rate));
  return answer_;
}

plan::CostModel Scene::model(const codec::Named* codec) const {
  plan::CostModel model{.link = [this](int from, int to) { return link(from, to); },
                        .reduce_bytes_per_s = static_cast<double>(profile_->machine.reduce_bytes_per_s),
                        .copy_bytes_per_s = static_cast<double>(profile_->machine.copy_bytes_per_s),
                        .step_ns = profile_->machine.step_ns,
                        .shared = [this](int from, int to) { return shared(from, to); },
                        .hosts = layout_->hosts(),
                        .cpus_of_hosts = cpus_};
  for (const CodecFacts& facts : profile_->machine.codecs) {
    if (codec == nullptr || facts.name != codec->text) continue;
    model.codec = {.encode_bytes_per_s = static_cast<double>(facts.encode_bytes_per_s),
                   .accumulate_bytes_per_s = static_cast<double>(facts.accumulate_bytes_per_s),
                   .decode_bytes_per_s = static_cast<double>(facts.decode_bytes_per_s)};
  }
  return model;
}

Scene::Pair Scene::pair_of(int32_t from, int32_t to) const {
  const size_t kind = kind_of(layout_->common(from, to));
  if (!told_apart_[kind]) return {kind, -1, -1};
  const auto level = static_cast<Level>(kind == 0 ? 0 : kind - 1);
  return {kind, layout_->member(level, from), layout_->member(level, to)};
}

Scene::Way Scene::make_way(int32_t from, int32_t to) const {
  Way way{.facts = profile_->find(*layout_, from, to), .cuts = {}};
  const auto [kind, source, target] = pair_of(from, to);
  if (source < 0 || kind == 0) return way;
  const auto& names = layout_->names[kind - 1];
  const std::string &leaves = names[static_cast<size_t>(source)], &enters = names[static_cast<size_t>(target)];
  const auto within = kind == kLevels ? std::nullopt : std::optional(static_cast<Level>(kind));
  const std::pair<std::string_view, std::string_view> ends[] = {{leaves, enters}, {leaves, {}}, {{}, enters}};
  for (const auto& [a, b] : ends) {
    const LinkFacts* cut = profile_->find_cut(within, a, b);
    if (cut == nullptr) continue;
    const auto id = 2 * layout_->count(Level::host) + static_cast<int32_t>(cut - profile_->links.data());
    way.cuts.push_back({.id = id, .cost = {.rate_bytes_per_s = static_cast<double>(cut->cut_bytes_per_s)}});
  }
  return way;
}

const Scene::Way& Scene::way(int32_t from, int32_t to) const {
  const Pair pair = pair_of(from, to);
  const auto found = ways_.find(pair);
  return found != ways_.end() ? found->second : ways_.emplace(pair, make_way(from, to)).first->second;
}

plan::SharedLink Scene::port(int32_t rank, bool leaving, uint64_t rate_bytes_per_s) const {
  const int32_t host = layout_->member(Level::host, rank);
  return {.id = 2 * host + (leaving ? 0 : 1), .cost = {.rate_bytes_per_s = static_cast<double>(rate_bytes_per_s)}};
}

}  // namespace isthmus::topology
