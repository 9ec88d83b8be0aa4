// SPDX-License-Identifier: Apache-2.0
// Explanations: prices with parts of the profile taken away or changed. See explain.h.
#include "topology/planner/explain.h"

#include <algorithm>
#include <array>
#include <functional>

#include "topology/planner/fields.h"
#include "topology/planner/plan_file.h"

namespace isthmus::topology {
namespace {

using collectives::Choice;

/// By how much inputs are changed, the nearest changes first.
constexpr std::array kFactors = {0.8, 1.25, 0.5, 2.0, 0.25, 4.0, 0.1, 10.0, 0.01, 100.0};
constexpr size_t kMostInputs = 6, kMostOthers = 4;
constexpr uint64_t kEnoughEvents = 5'000'000;

using Change = std::function<void(Profile&)>;

Result<Scene> changed(const Scene& scene, const Change& change) {
  Profile profile = scene.profile();
  change(profile);
  return Scene::make(scene.layout(), std::move(profile));
}

Result<TimeNs> time_of(const Scene& scene, const Choice& choice, uint64_t bytes) {
  Pricer pricer(scene, kEnoughEvents);
  ISTHMUS_ASSIGN(const Price price, pricer.price(choice, bytes));
  return price.time_ns;
}

void without_bytes(Profile& profile) {
  for (LinkFacts& link : profile.links) {
    link.stream_bytes_per_s = link.port_bytes_per_s = link.cut_bytes_per_s = 0;
    link.gaps.clear();
  }
}

void without_overhead(Profile& profile) {
  for (LinkFacts& link : profile.links) link.overhead_ns = 0;
  profile.machine.step_ns = 0;
}

void without_computing(Profile& profile) { profile.machine.reduce_bytes_per_s = profile.machine.copy_bytes_per_s = 0; }

Result<Terms> terms_of(const Scene& scene, const Price& price, uint64_t bytes) {
  Terms terms;
  // Priced anew, so that all parts are walked or none is.
  ISTHMUS_ASSIGN(terms.total_ns, time_of(scene, price.choice, bytes));
  ISTHMUS_ASSIGN(const Scene no_bytes, changed(scene, without_bytes));
  ISTHMUS_ASSIGN(const Scene no_computing, changed(no_bytes, without_computing));
  ISTHMUS_ASSIGN(const Scene no_overhead, changed(no_computing, without_overhead));
  ISTHMUS_ASSIGN(const TimeNs first, time_of(no_bytes, price.choice, bytes));
  ISTHMUS_ASSIGN(const TimeNs second, time_of(no_computing, price.choice, bytes));
  ISTHMUS_ASSIGN(terms.latency_ns, time_of(no_overhead, price.choice, bytes));
  terms.bandwidth_ns = terms.total_ns - first;
  terms.compute_ns = first - second;
  terms.overhead_ns = second - terms.latency_ns;
  return terms;
}

/// The facts about links between the job's ranks, the widest first, and those about cuts.
std::vector<const LinkFacts*> inputs_of(const Scene& scene) {
  std::vector<const LinkFacts*> inputs;
  const auto add = [&](const LinkFacts* link) {
    if (std::find(inputs.begin(), inputs.end(), link) == inputs.end()) inputs.push_back(link);
  };
  const int32_t ranks = scene.ranks(), stride = std::max(1, ranks / 64);
  const int32_t first_cut = 2 * scene.layout().count(Level::host);
  for (int32_t from = 0; from < ranks; from += stride) {
    for (int32_t to = 0; to < ranks; to += stride) {
      if (from == to) continue;
      add(&scene.facts(from, to));
      for (const plan::SharedLink& one : scene.shared(from, to)) {
        if (one.id >= first_cut) add(&scene.profile().links[static_cast<size_t>(one.id - first_cut)]);
      }
    }
  }
  const auto width = [](const LinkFacts* link) { return link->within ? static_cast<int>(*link->within) : static_cast<int>(kLevels); };
  std::stable_sort(inputs.begin(), inputs.end(), [&](const LinkFacts* a, const LinkFacts* b) { return width(a) > width(b); });
  return inputs;
}

std::string name_of(const LinkFacts& link) {
  std::string name(within_name(link.within));
  if (!link.from.empty() || !link.to.empty()) {
    name += fmt::format(" {} -> {}", link.from.empty() ? "any" : link.from, link.to.empty() ? "any" : link.to);
  }
  return name;
}

/// Whether they are the same algorithm, in however many segments and with however many leaders.
bool alike(const Choice& a, const Choice& b) { return a.algorithm == b.algorithm && a.across == b.across; }

/// Looks for the nearest change of one input that makes another choice the better one.
Status find_flip(const Scene& scene, const Explanation& so_far, size_t index, bool latency, double hysteresis, std::vector<Flip>& flips) {
  const LinkFacts& link = scene.profile().links[index];
  const uint64_t rate = link.cut_bytes_per_s != 0 ? link.cut_bytes_per_s : link.stream_bytes_per_s;
  if (latency ? link.latency_ns == 0 : rate == 0) return {};
  const auto scaled = [](auto value, double factor) { return static_cast<decltype(value)>(static_cast<double>(value) * factor); };
  for (const double factor : kFactors) {
    const auto change = [&](Profile& profile) {
      LinkFacts& changing = profile.links[index];
      if (latency) {
        changing.latency_ns = scaled(changing.latency_ns, factor);
        return;
      }
      changing.stream_bytes_per_s = scaled(changing.stream_bytes_per_s, factor);
      changing.port_bytes_per_s = scaled(changing.port_bytes_per_s, factor);
      changing.cut_bytes_per_s = scaled(changing.cut_bytes_per_s, factor);
      for (plan::Knot& knot : changing.gaps) knot.gap_ns = scaled(knot.gap_ns, 1 / factor);
    };
    ISTHMUS_ASSIGN(const Scene then, changed(scene, change));
    Pricer pricer(then, kEnoughEvents);
    ISTHMUS_ASSIGN(const std::vector<Price> prices, pricer.best(so_far.collective, so_far.bytes, so_far.chosen.choice, hysteresis));
    ISTHMUS_ASSIGN(const Price stays, pricer.price(so_far.chosen.choice, so_far.bytes));
    const bool better = static_cast<double>(stays.time_ns) > static_cast<double>(prices.front().time_ns) * (1 + hysteresis);
    if (!better || alike(prices.front().choice, so_far.chosen.choice)) continue;
    flips.push_back({.input = fmt::format("{} of {}", latency ? "latency" : "rate", name_of(link)),
                     .factor = factor,
                     .latency_ns = latency ? scaled(link.latency_ns, factor) : 0,
                     .rate_bytes_per_s = latency ? 0 : scaled(rate, factor),
                     .choice = prices.front().choice});
    return {};
  }
  return {};
}

/// The best segments of each other algorithm, by time.
std::vector<Price> others_of(const std::vector<Price>& prices, const Choice& chosen) {
  std::vector<Price> others;
  for (const Price& one : prices) {
    const auto same = [&](const Price& known) { return alike(known.choice, one.choice); };
    if (alike(one.choice, chosen) || std::any_of(others.begin(), others.end(), same)) continue;
    if (others.size() < kMostOthers) others.push_back(one);
  }
  return others;
}

std::string rate_text(uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? "unlimited" : fmt::format("{:.4g} MB/s", static_cast<double>(bytes_per_s) / 1e6);
}

std::string terms_text(const Terms& terms) {
  return fmt::format("{} latency, {} bandwidth, {} overhead, {} adding and copying", time_text(terms.latency_ns),
                     time_text(terms.bandwidth_ns), time_text(terms.overhead_ns), time_text(terms.compute_ns));
}

std::string input_text(const LinkFacts& link, int64_t now_s) {
  std::string text = fmt::format("  {:<28}", name_of(link));
  if (link.from.empty() == link.to.empty()) {
    text += fmt::format(" latency {}, overhead {}, stream {}", time_text(link.latency_ns), time_text(link.overhead_ns),
                        rate_text(link.stream_bytes_per_s));
  }
  if (link.port_bytes_per_s != 0) text += fmt::format(", port {}", rate_text(link.port_bytes_per_s));
  if (link.cut_bytes_per_s != 0) text += fmt::format(" cut {}", rate_text(link.cut_bytes_per_s));
  text += fmt::format("; {}", topology::name_of(link.confidence));
  if (link.confidence == Confidence::measured) {
    const int64_t age_s = std::max<int64_t>(now_s - link.measured_at_s, 0);
    text += fmt::format(" {} ago, {} samples", age_s < 7200 ? fmt::format("{} s", age_s) : fmt::format("{} h", age_s / 3600), link.samples);
  }
  return text + "\n";
}

Json json_of(const Terms& terms) {
  return {{"total_ns", terms.total_ns},
          {"latency_ns", terms.latency_ns},
          {"bandwidth_ns", terms.bandwidth_ns},
          {"overhead_ns", terms.overhead_ns},
          {"compute_ns", terms.compute_ns}};
}

Json json_of(const Price& price) {
  return {{"algorithm", price.choice.algorithm->name},     {"segments", price.choice.segments}, {"leaders", price.choice.leaders},
          {"across", plan::name_of(price.choice.across)},  {"predicted_ns", price.time_ns},     {"least_ns", price.bound_ns},
          {"priced_by", price.walked ? "walk" : "formula"}};
}

}  // namespace

Result<Explanation> explain(const Scene& scene, Collective collective, uint64_t bytes, const Choice& chosen, double hysteresis) {
  Explanation result{
      .collective = collective, .bytes = bytes, .chosen = {}, .terms = {}, .others = {}, .terms_of_other = {}, .inputs = {}, .flips = {}};
  Pricer pricer(scene, kEnoughEvents);
  // Everything that could be up to 50 % slower is priced, to have somebody to compare with.
  ISTHMUS_ASSIGN(const std::vector<Price> prices, pricer.best(collective, bytes, chosen, -0.5));
  if (prices.empty()) return invalid_argument("one rank has nothing to choose");
  result.chosen = preferred(prices);
  if (chosen.algorithm != nullptr) {
    ISTHMUS_ASSIGN(result.chosen, pricer.price(chosen, bytes));
  }
  ISTHMUS_ASSIGN(result.terms, terms_of(scene, result.chosen, bytes));
  result.others = others_of(prices, result.chosen.choice);
  if (!result.others.empty()) {
    ISTHMUS_ASSIGN(result.terms_of_other, terms_of(scene, result.others.front(), bytes));
  }
  result.bound_ns = pricer.formulas().physical_bound_ns(collective, bytes);
  result.inputs = inputs_of(scene);
  for (size_t at = 0; at < std::min(result.inputs.size(), kMostInputs); ++at) {
    const auto index = static_cast<size_t>(result.inputs[at] - scene.profile().links.data());
    ISTHMUS_TRY(find_flip(scene, result, index, true, hysteresis, result.flips));
    ISTHMUS_TRY(find_flip(scene, result, index, false, hysteresis, result.flips));
  }
  return result;
}

std::string to_text(const Explanation& explanation, int64_t now_s) {
  std::string text =
      fmt::format("{} of {} bytes: {}, {}{}\n  {}\n", isthmus::name_of(explanation.collective), bytes_text(explanation.bytes),
                  text_of(explanation.chosen.choice), time_text(explanation.chosen.time_ns),
                  explanation.chosen.walked ? "" : " by closed form (too large to be walked)", terms_text(explanation.terms));
  text += fmt::format("no algorithm takes less than {}\n", time_text(explanation.bound_ns));
  for (const Price& other : explanation.others) {
    text += fmt::format("then {}: {}, {:+.1f} %\n", text_of(other.choice), time_text(other.time_ns),
                        100.0 * static_cast<double>(other.time_ns - explanation.chosen.time_ns) /
                            std::max(1.0, static_cast<double>(explanation.chosen.time_ns)));
    if (&other == &explanation.others.front()) text += fmt::format("  {}\n", terms_text(explanation.terms_of_other));
  }
  text += "known of the links:\n";
  for (const LinkFacts* link : explanation.inputs) text += input_text(*link, now_s);
  if (explanation.flips.empty()) text += "no change of one of these by up to 100 times would make another algorithm the better one\n";
  for (const Flip& flip : explanation.flips) {
    text += fmt::format("{} would be better if the {} were {} ({:.4g} times)\n", text_of(flip.choice), flip.input,
                        flip.rate_bytes_per_s == 0 ? time_text(flip.latency_ns) : rate_text(flip.rate_bytes_per_s), flip.factor);
  }
  return text;
}

std::string to_json(const Explanation& explanation) {
  Json others = Json::array(), flips = Json::array(), inputs = Json::array();
  for (const Price& other : explanation.others) others.push_back(json_of(other));
  for (const LinkFacts* link : explanation.inputs) {
    inputs.push_back(
        {{"link", name_of(*link)}, {"confidence", topology::name_of(link->confidence)}, {"measured_at_s", link->measured_at_s}});
  }
  for (const Flip& flip : explanation.flips) {
    flips.push_back({{"input", flip.input},
                     {"factor", flip.factor},
                     {"algorithm", flip.choice.algorithm->name},
                     {"segments", flip.choice.segments},
                     {"leaders", flip.choice.leaders},
                     {"across", plan::name_of(flip.choice.across)}});
  }
  Json json = {{"schema", "isthmus.explain/1"},
               {"collective", isthmus::name_of(explanation.collective)},
               {"bytes", explanation.bytes},
               {"chosen", json_of(explanation.chosen)},
               {"terms", json_of(explanation.terms)},
               {"bound_ns", explanation.bound_ns},
               {"others", std::move(others)},
               {"inputs", std::move(inputs)},
               {"flips", std::move(flips)}};
  if (!explanation.others.empty()) json["terms_of_first_other"] = json_of(explanation.terms_of_other);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace isthmus::topology
