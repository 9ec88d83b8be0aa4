// SPDX-License-Identifier: Apache-2.0
// Plan files and their text. See plan_file.h.
#include "topology/planner/plan_file.h"

#include <array>
#include <charconv>

#include "base/hash.h"
#include "base/text.h"
#include "collectives/registry.h"
#include "topology/planner/fields.h"

namespace isthmus::topology {
namespace {

using collectives::Choice;

constexpr std::string_view kSchema = "isthmus.plan/1";
constexpr size_t kMostIntervals = 10'000;

std::string hash_name(uint64_t hash) { return fmt::format("xxh3:{:016x}", hash); }

Json json_of(const Choice& choice) {
  Json json = {{"algorithm", choice.algorithm->name}, {"segments", choice.segments}};
  if (choice.leaders > 0) json["leaders"] = choice.leaders;
  if (choice.across != plan::Across::direct) json["across"] = name_of(choice.across);
  return json;
}

Json json_of(const Interval& one) {
  Json json = {{"collective", name_of(one.collective)}, {"min_bytes", one.min_bytes}};
  if (one.max_bytes != UINT64_MAX) json["max_bytes"] = one.max_bytes;
  json.update(json_of(one.choice));
  if (one.pinned) json["pinned"] = true;
  json["at_bytes"] = one.at_bytes;
  json["predicted_ns"] = one.predicted_ns;
  json["bound_ns"] = one.bound_ns;
  json["priced_by"] = one.walked ? "walk" : "formula";
  if (one.runner_up.algorithm != nullptr) {
    json["runner_up"] = json_of(one.runner_up);
    json["runner_up"]["predicted_ns"] = one.runner_up_ns;
  }
  return json;
}

Json json_of(const Pin& pin) {
  Json json = {{"collective", name_of(pin.collective)}, {"min_bytes", pin.min_bytes}};
  if (pin.max_bytes != UINT64_MAX) json["max_bytes"] = pin.max_bytes;
  json.update(json_of(pin.choice));
  return json;
}

uint64_t read_hash(Fields& fields, const char* key) {
  std::string text;
  fields.text(key, text);
  uint64_t hash = 0;
  constexpr std::string_view kPrefix = "xxh3:";
  const char* const end = text.data() + text.size();
  const bool formed = text.size() == kPrefix.size() + 16 && text.starts_with(kPrefix) &&
                      std::from_chars(text.data() + kPrefix.size(), end, hash, 16).ptr == end;
  if (!formed) fields.fail(fmt::format("{}: 'xxh3:' and 16 hexadecimal digits are accepted", key));
  return hash;
}

void read_choice(Fields& fields, Collective collective, Choice& choice) {
  std::string name;
  fields.text("algorithm", name);
  fields.number("segments", choice.segments);
  fields.number("leaders", choice.leaders);
  std::string across(name_of(choice.across));
  fields.text("across", across);
  if (!fields.ok()) return;
  choice.algorithm = collectives::find(collective, name);
  if (choice.algorithm == nullptr) {
    return fields.fail(fmt::format("{} has no algorithm '{}'; it has {}", name_of(collective), name, collectives::names_of(collective)));
  }
  if (!collectives::allows_segments(*choice.algorithm, choice.segments)) {
    fields.fail(fmt::format("{} {} does not run in {} segments", name_of(collective), name, choice.segments));
  }
  if (!collectives::allows_leaders(*choice.algorithm, choice.leaders)) {
    fields.fail(fmt::format("{} {} does not run with {} leaders", name_of(collective), name, choice.leaders));
  }
  const auto way = plan::parse_across(across);
  if (!way.ok()) return fields.fail(fmt::format("across: {}", way.status().text()));
  choice.across = *way;
  if (!collectives::allows_across(*choice.algorithm, choice.across)) {
    fields.fail(fmt::format("{} {} does not run across sites by {}", name_of(collective), name, across));
  }
}

/// Collective, sizes and choice: what intervals and pins have in common.
template <typename T>
void read_range(Fields& fields, T& range) {
  std::string name;
  fields.text("collective", name);
  constexpr std::array kPlanned = {Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                                   Collective::broadcast, Collective::reduce,         Collective::alltoall};
  const auto* const found = std::find_if(kPlanned.begin(), kPlanned.end(), [&](Collective each) { return name_of(each) == name; });
  if (found == kPlanned.end()) {
    return fields.fail(fmt::format("collective: '{}' is none of allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall", name));
  }
  range.collective = *found;
  fields.number("min_bytes", range.min_bytes);
  fields.number("max_bytes", range.max_bytes);
  if (range.max_bytes < range.min_bytes) fields.fail("max_bytes is below min_bytes");
  read_choice(fields, range.collective, range.choice);
}

Result<Interval> parse_interval(const Json& json, std::string where, std::vector<std::string>& warnings) {
  Fields fields(json, std::move(where));
  Interval one;
  read_range(fields, one);
  std::string priced_by = "formula";
  fields.flag("pinned", one.pinned);
  fields.number("at_bytes", one.at_bytes);
  fields.number("predicted_ns", one.predicted_ns);
  fields.number("bound_ns", one.bound_ns);
  fields.text("priced_by", priced_by);
  one.walked = priced_by == "walk";
  if (const Json* other = fields.find("runner_up"); other != nullptr) {
    Fields of_other(*other, fields.where() + ": runner_up");
    read_choice(of_other, one.collective, one.runner_up);
    of_other.number("predicted_ns", one.runner_up_ns);
    ISTHMUS_TRY(of_other.finish(warnings));
  }
  ISTHMUS_TRY(fields.finish(warnings));
  return one;
}

Result<Pin> parse_pin(const Json& json, std::string where, std::vector<std::string>& warnings) {
  Fields fields(json, std::move(where));
  Pin pin;
  read_range(fields, pin);
  ISTHMUS_TRY(fields.finish(warnings));
  return pin;
}

Result<PlanFile> parse_document(const Json& json, std::vector<std::string>& warnings) {
  Fields fields(json, "plan");
  PlanFile file;
  std::string schema, comment;
  fields.text("schema", schema);
  if (schema != kSchema) fields.fail(fmt::format("schema must be \"{}\", so that later forms can be told from this one", kSchema));
  fields.text("comment", comment);
  fields.number("epoch", file.epoch);
  fields.number("ranks", file.ranks);
  fields.text("layout", file.layout);
  file.layout_hash = read_hash(fields, "layout_hash");
  file.profile_hash = read_hash(fields, "profile_hash");
  const Json* intervals = fields.find("collectives");
  const Json* pins = fields.find("pins");
  ISTHMUS_TRY(fields.finish(warnings));
  const auto is_list = [](const Json* list) { return list == nullptr || (list->is_array() && list->size() <= kMostIntervals); };
  if (!is_list(intervals) || !is_list(pins)) {
    return invalid_argument(fmt::format("plan: collectives and pins must be lists of at most {} objects", kMostIntervals));
  }
  for (const Json& one : intervals == nullptr ? Json::array() : *intervals) {
    ISTHMUS_ASSIGN(Interval interval, parse_interval(one, fmt::format("collectives[{}]", file.intervals.size()), warnings));
    file.intervals.push_back(interval);
  }
  for (const Json& one : pins == nullptr ? Json::array() : *pins) {
    ISTHMUS_ASSIGN(Pin pin, parse_pin(one, fmt::format("pins[{}]", file.pins.size()), warnings));
    file.pins.push_back(pin);
  }
  return file;
}

}  // namespace

std::vector<collectives::PlannedRange> PlanFile::ranges() const {
  std::vector<collectives::PlannedRange> ranges;
  for (const Pin& pin : pins) ranges.push_back({pin.collective, pin.min_bytes, pin.max_bytes, pin.choice});
  for (const Interval& one : intervals) ranges.push_back({one.collective, one.min_bytes, one.max_bytes, one.choice});
  return ranges;
}

Result<PlanFile> make_plan_file(const Scene& scene, const SearchOptions& options) {
  PlanFile file{.epoch = scene.profile().epoch,
                .layout_hash = scene.layout().hash(),
                .profile_hash = hash_text(to_json(scene.profile())),
                .ranks = scene.ranks(),
                .layout = scene.layout().text(),
                .intervals = {},
                .pins = options.pins};
  ISTHMUS_ASSIGN(file.intervals, search(scene, options));
  return file;
}

std::string to_json(const PlanFile& file) {
  Json intervals = Json::array(), pins = Json::array();
  for (const Interval& one : file.intervals) intervals.push_back(json_of(one));
  for (const Pin& pin : file.pins) pins.push_back(json_of(pin));
  const Json json = {{"schema", kSchema},
                     {"epoch", file.epoch},
                     {"ranks", file.ranks},
                     {"layout", file.layout},
                     {"layout_hash", hash_name(file.layout_hash)},
                     {"profile_hash", hash_name(file.profile_hash)},
                     {"collectives", std::move(intervals)},
                     {"pins", std::move(pins)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<PlanFile> parse_plan_file(std::string_view text, std::vector<std::string>& warnings) {
  try {
    return parse_document(Json::parse(text), warnings);
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("plan: no JSON: {}", error.what()));
  }
}

std::string to_text(const PlanFile& file) {
  std::string text = fmt::format("{}, profile epoch {}\n", file.layout, file.epoch);
  text += fmt::format("{:<15} {:>10} {:>10}  {:<32} {:>10} {:>11} {:>11}  {}\n", "collective", "from", "to", "algorithm", "at", "predicted",
                      "bound", "runner-up");
  for (const Interval& one : file.intervals) {
    const std::string other =
        one.runner_up.algorithm == nullptr ? std::string() : fmt::format("{} {}", text_of(one.runner_up), time_text(one.runner_up_ns));
    text += fmt::format("{:<15} {:>10} {:>10}  {:<32} {:>10} {:>11} {:>11}  {}\n", name_of(one.collective), bytes_text(one.min_bytes),
                        one.max_bytes == UINT64_MAX ? "" : bytes_text(one.max_bytes), text_of(one.choice) + (one.pinned ? " (pinned)" : ""),
                        bytes_text(one.at_bytes), time_text(one.predicted_ns), time_text(one.bound_ns), other);
  }
  return text;
}

std::string text_of(const Choice& choice) {
  std::string text(choice.algorithm->name);
  if (choice.segments != 1) text += fmt::format(" in {} segments", choice.segments);
  if (choice.leaders == 1) text += " with 1 leader";
  if (choice.leaders > 1) text += fmt::format(" with {} leaders", choice.leaders);
  if (choice.across != plan::Across::direct) text += fmt::format(", across by {}", name_of(choice.across));
  return text;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::string time_text(TimeNs time) {
  const auto ns = static_cast<double>(time);
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.2f} ms", ns / 1e6) : fmt::format("{:.2f} s", ns / 1e9);
}

}  // namespace isthmus::topology
