// SPDX-License-Identifier: Apache-2.0
// Pricing: plans of all ranks, built once a choice, walked at each size. See search.h.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "collectives/registry.h"
#include "plan/builder.h"
#include "plan/form.h"
#include "topology/planner/search.h"

namespace isthmus::topology {
namespace {

using collectives::Choice;

/// Cells of calls with codecs are not cut smaller: some groups of the codec.
constexpr uint64_t kLeastCodedBytes = 64 << 10;

/// Worlds with more messages than this are not built to see how many steps they have.
constexpr uint64_t kMostWorldSteps = 400'000;

/// Where walks have become too many.
std::vector<Price> by_formula(std::vector<Price> estimates) {
  std::stable_sort(estimates.begin(), estimates.end(), [](const Price& a, const Price& b) { return a.time_ns < b.time_ns; });
  return estimates;
}

TimeNs times_as_long(TimeNs time_ns, double factor) {
  const double product = static_cast<double>(time_ns) * factor;
  return product < static_cast<double>(kNever) ? static_cast<TimeNs>(product) : kNever;
}

}  // namespace

Pricer::Pricer(const Scene& scene, uint64_t most_events, const codec::Named* codec)
    : scene_(scene), formulas_(scene), most_events_(most_events), codec_(codec) {}

std::vector<Choice> Pricer::candidates(Collective collective, uint64_t bytes) const {
  std::vector<Choice> result;
  for (const plan::Algorithm* algorithm : codec_ == nullptr ? collectives::registry() : collectives::compressed_registry()) {
    if (algorithm->collective != collective || !formulas_.suits(*algorithm)) continue;
    if (codec_ != nullptr && !codes_with(*algorithm, *codec_->codec)) continue;
    for (const uint32_t leaders : formulas_.leaders(*algorithm)) {
      for (const plan::Across across : formulas_.ways_across(*algorithm)) {
        for (uint32_t segments = 1; collectives::allows_segments(*algorithm, segments); segments *= 2) {
          result.push_back({algorithm, segments, leaders, across});
          if (codec_ == nullptr ? formulas_.finest(result.back(), bytes) : finest_coded(segments, bytes)) break;
        }
      }
    }
  }
  return result;
}

bool Pricer::finest_coded(uint32_t segments, uint64_t bytes) const {
  return uint64_t{segments} * static_cast<uint64_t>(scene_.ranks()) * kLeastCodedBytes >= bytes;
}

Result<const Pricer::World*> Pricer::world_of(const Choice& choice) {
  const auto found = worlds_.find({choice.algorithm, choice.segments, choice.leaders, choice.across});
  if (found != worlds_.end()) return &found->second;
  World world;
  const Collective collective = choice.algorithm->collective;
  const bool several = scene_.layout().count(Level::building) > 1;
  const auto buildings = several ? std::span<const int32_t>(scene_.layout().sites()) : std::span<const int32_t>();
  const auto sites = codec_ == nullptr ? formulas_.divisions() : buildings;  // compressed hierarchies have two levels
  plan::Shape shape = {.collective = collective,
                       .group = {.ranks = {}, .size = scene_.ranks()},
                       .root = is_rooted(collective) ? 0 : -1,
                       .segments = choice.segments,
                       .codec = codec_ == nullptr ? nullptr : codec_->codec,
                       .sites = sites,
                       .leaders = choice.leaders,
                       .across = choice.across};
  for (; shape.group.position < scene_.ranks(); ++shape.group.position) {
    ISTHMUS_ASSIGN(plan::Plan plan, plan::build(*choice.algorithm, shape));
    ISTHMUS_TRY(plan::check_form(plan));
    world.steps += plan.steps.size();
    world.plans.push_back(std::move(plan));
    // One rank's plan tells how large the world would be.
    if (world.steps * static_cast<uint64_t>(scene_.ranks()) > kMostWorldSteps * world.plans.size()) break;
  }
  if (world.plans.size() < static_cast<size_t>(scene_.ranks())) world.plans.resize(1);
  return &worlds_.emplace(std::tuple(choice.algorithm, choice.segments, choice.leaders, choice.across), std::move(world)).first->second;
}

Result<Price> Pricer::price(const Choice& choice, uint64_t bytes, TimeNs limit_ns) {
  const auto [known, is_new] = prices_.try_emplace({choice.algorithm, choice.segments, choice.leaders, choice.across, bytes});
  Price& price = known->second;
  if (!is_new && !(price.given_up && price.time_ns < limit_ns)) return price;
  if (is_new) {
    const Formulas::Times times = formulas_.times(choice, bytes);
    price = {.choice = choice, .time_ns = times.estimate_ns, .bound_ns = times.least_ns};
    if (events_ >= most_events_) return price;
  }
  ISTHMUS_ASSIGN(const World* world, world_of(choice));
  if (world->plans.size() < static_cast<size_t>(scene_.ranks())) return price;
  ISTHMUS_ASSIGN(const plan::Cost cost,
                 plan::cost(world->plans, formulas_.elements_of(choice.algorithm->collective, bytes), Formulas::kElementBytes,
                            scene_.model(codec_), {.well_formed = true, .limit_ns = limit_ns}));
  if (is_new) events_ += world->steps;  // however far the walk came: what else is walked must not depend on it
  ++walks_;
  price.time_ns = cost.total_ns;
  price.walked = true;
  price.given_up = cost.given_up;
  return price;
}

Result<std::vector<Price>> Pricer::best(Collective collective, uint64_t bytes, const Choice& favourite, double margin, double patience) {
  std::vector<Price> waiting;
  for (const Choice& choice : candidates(collective, bytes)) {
    const Formulas::Times times = formulas_.times(choice, bytes);
    waiting.push_back({.choice = choice, .time_ns = times.estimate_ns, .bound_ns = times.least_ns});
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const Price& a, const Price& b) { return a.bound_ns < b.bound_ns; });
  std::vector<Price> priced;
  const auto quicker = [](const Price& a, const Price& b) { return a.time_ns < b.time_ns; };
  if (events_ >= most_events_) return by_formula(std::move(waiting));
  if (favourite.algorithm != nullptr) {
    ISTHMUS_ASSIGN(const Price price, this->price(favourite, bytes));
    if (!price.walked) return by_formula(std::move(waiting));
    priced.push_back(price);
  }
  for (const Price& one : waiting) {
    if (!priced.empty() && static_cast<double>(one.bound_ns) * (1 + margin) >= static_cast<double>(priced[0].time_ns)) break;
    if (one.choice == favourite) continue;
    const TimeNs limit_ns = priced.empty() ? kNever : times_as_long(priced[0].time_ns, patience);
    ISTHMUS_ASSIGN(const Price price, this->price(one.choice, bytes, limit_ns));
    if (!price.walked) return by_formula(std::move(waiting));  // the two kinds cannot be compared
    if (price.time_ns > limit_ns) continue;
    priced.insert(std::upper_bound(priced.begin(), priced.end(), price, quicker), price);
  }
  const TimeNs limit_ns = priced.empty() ? kNever : times_as_long(priced[0].time_ns, patience);
  std::erase_if(priced, [&](const Price& one) { return one.time_ns > limit_ns; });  // priced before the quickest was known
  return priced;
}

const Price& preferred(std::span<const Price> prices) {
  constexpr double kNearly = 1.02;
  // What needs a reason: more segments, fewer leaders, another way across.
  const auto oddness = [](const Choice& choice) { return std::tuple(choice.segments, choice.leaders != 0, choice.across); };
  const Price* best = &prices.front();
  for (const Price& one : prices) {
    if (one.choice.algorithm != best->choice.algorithm || oddness(one.choice) >= oddness(best->choice)) continue;
    if (static_cast<double>(one.time_ns) <= static_cast<double>(prices.front().time_ns) * kNearly) best = &one;
  }
  return *best;
}

}  // namespace isthmus::topology
