// SPDX-License-Identifier: Apache-2.0
// Profiles: their text and what is looked up in them. See profile.h.
#include "topology/planner/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codec/named.h"
#include "topology/planner/fields.h"

namespace isthmus::topology {
namespace {

constexpr std::string_view kSchema = "isthmus.profile/1";
constexpr size_t kMostLinks = 10'000, kMostKnots = 64;
/// Times of whole calls are sums of these; within an hour each, and a kilobyte a second, they fit.
constexpr uint64_t kMostNs = 3'600 * uint64_t{kSecondNs}, kLeastRate = 1000;
constexpr std::array kConfidences = {Confidence::prior, Confidence::given, Confidence::measured};
/// From the narrowest to the widest.
constexpr std::array<std::optional<Level>, 5> kWithin = {Level::host, Level::zone, Level::building, Level::region, std::nullopt};

size_t index_of(std::optional<Level> within) { return within ? static_cast<size_t>(*within) : kWithin.size() - 1; }

/// The level whose members a kind of link joins.
Level joined_level(std::optional<Level> within) {
  return !within ? Level::region : *within == Level::host ? Level::host : static_cast<Level>(static_cast<size_t>(*within) - 1);
}

void read_confidence(Fields& fields, Confidence& confidence) {
  std::string name(name_of(confidence));
  fields.text("confidence", name);
  const auto* const found = std::find_if(kConfidences.begin(), kConfidences.end(), [&](Confidence each) { return name_of(each) == name; });
  if (found == kConfidences.end()) return fields.fail(fmt::format("confidence: '{}' is none of prior, given, measured", name));
  confidence = *found;
}

/// 0 is no limit.
void read_rate(Fields& fields, const char* key, uint64_t& rate_bytes_per_s) {
  fields.number(key, rate_bytes_per_s);
  if (rate_bytes_per_s != 0 && rate_bytes_per_s < kLeastRate) {
    fields.fail(fmt::format("{}: 0 (no limit) or at least {} is accepted", key, kLeastRate));
  }
}

void read_gaps(Fields& fields, std::vector<plan::Knot>& gaps) {
  const Json* list = fields.find("gaps");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() > kMostKnots) return fields.fail(fmt::format("gaps: up to {} pairs are accepted", kMostKnots));
  for (const Json& pair : *list) {
    const bool numbers = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
    if (!numbers) return fields.fail("gaps: pairs of whole numbers are accepted, [bytes, nanoseconds]");
    const plan::Knot knot{.bytes = pair[0].get<uint64_t>(), .gap_ns = static_cast<TimeNs>(std::min(pair[1].get<uint64_t>(), kMostNs))};
    if (knot.bytes <= (gaps.empty() ? 0 : gaps.back().bytes)) return fields.fail("gaps: bytes must ascend from 1 on");
    gaps.push_back(knot);
  }
}

Result<LinkFacts> parse_link(const Json& json, std::string where) {
  Fields fields(json, std::move(where));
  LinkFacts link;
  std::string within;
  fields.text("within", within);
  if (const auto named = within_named(within)) {
    link.within = *named;
  } else {
    fields.fail(fmt::format("within: '{}' is none of host, zone, building, region, job", within));
  }
  fields.text("from", link.from);
  fields.text("to", link.to);
  fields.number("latency_ns", link.latency_ns, kMostNs);
  fields.number("jitter_ns", link.jitter_ns, kMostNs);
  fields.number("overhead_ns", link.overhead_ns, kMostNs);
  read_rate(fields, "stream_bytes_per_s", link.stream_bytes_per_s);
  read_rate(fields, "port_bytes_per_s", link.port_bytes_per_s);
  read_rate(fields, "cut_bytes_per_s", link.cut_bytes_per_s);
  read_gaps(fields, link.gaps);
  read_confidence(fields, link.confidence);
  fields.number("samples", link.samples);
  fields.number("measured_at_s", link.measured_at_s);
  ISTHMUS_TRY(fields.finish());
  return link;
}

/// To the shortest text, by which codecs are known.
void read_codec_name(Fields& fields, std::string& name) {
  fields.text("name", name);
  if (const Status known = codec::check_name(name); !known.ok()) return fields.fail("name: " + known.text());
  if (const auto thc = codec::parse_thc(name); thc.ok()) name = codec::to_text(*thc);
}

Result<MachineFacts> parse_machine(const Json& json) {
  Fields fields(json, "machine");
  MachineFacts machine;
  read_rate(fields, "reduce_bytes_per_s", machine.reduce_bytes_per_s);
  read_rate(fields, "copy_bytes_per_s", machine.copy_bytes_per_s);
  fields.number("step_ns", machine.step_ns, kMostNs);
  read_confidence(fields, machine.confidence);
  const Json* codecs = fields.find("codecs");
  ISTHMUS_TRY(fields.finish());
  if (codecs == nullptr) return machine;
  if (!codecs->is_array()) return invalid_argument("machine: codecs must be a list");
  for (const Json& one : *codecs) {
    Fields of_codec(one, "machine: codecs");
    CodecFacts& codec = machine.codecs.emplace_back();
    read_codec_name(of_codec, codec.name);
    read_rate(of_codec, "encode_bytes_per_s", codec.encode_bytes_per_s);
    read_rate(of_codec, "accumulate_bytes_per_s", codec.accumulate_bytes_per_s);
    read_rate(of_codec, "decode_bytes_per_s", codec.decode_bytes_per_s);
    ISTHMUS_TRY(of_codec.finish());
  }
  return machine;
}

Result<Profile> parse_document(const Json& json) {
  Fields fields(json, "profile");
  Profile profile;
  std::string schema, comment;
  fields.text("schema", schema);
  fields.text("comment", comment);
  if (schema != kSchema) fields.fail(fmt::format("schema must be \"{}\", so that later forms can be told from this one", kSchema));
  fields.number("epoch", profile.epoch);
  const Json* links = fields.find("links");
  const Json* machine = fields.find("machine");
  ISTHMUS_TRY(fields.finish());
  if (links == nullptr || !links->is_array() || links->empty()) return invalid_argument("profile: links must be a list of at least one");
  if (links->size() > kMostLinks) return invalid_argument(fmt::format("profile: links has more than {} entries", kMostLinks));
  for (const Json& link : *links) {
    ISTHMUS_ASSIGN(LinkFacts facts, parse_link(link, fmt::format("links[{}]", profile.links.size())));
    profile.links.push_back(std::move(facts));
  }
  if (machine != nullptr) {
    ISTHMUS_ASSIGN(profile.machine, parse_machine(*machine));
  }
  return profile;
}

Json json_of(const LinkFacts& link) {
  Json json = {{"within", within_name(link.within)}};
  if (!link.from.empty()) json["from"] = link.from;
  if (!link.to.empty()) json["to"] = link.to;
  json["latency_ns"] = link.latency_ns;
  json["jitter_ns"] = link.jitter_ns;
  json["overhead_ns"] = link.overhead_ns;
  json["stream_bytes_per_s"] = link.stream_bytes_per_s;
  if (link.port_bytes_per_s != 0) json["port_bytes_per_s"] = link.port_bytes_per_s;
  if (link.cut_bytes_per_s != 0) json["cut_bytes_per_s"] = link.cut_bytes_per_s;
  for (const plan::Knot& knot : link.gaps) json["gaps"].push_back({knot.bytes, knot.gap_ns});
  json["confidence"] = name_of(link.confidence);
  if (link.samples != 0) json["samples"] = link.samples;
  if (link.measured_at_s != 0) json["measured_at_s"] = link.measured_at_s;
  return json;
}

}  // namespace

std::string_view name_of(Confidence confidence) {
  constexpr std::array<std::string_view, 3> kNames = {"prior", "given", "measured"};
  return kNames[static_cast<size_t>(confidence)];
}

std::string_view within_name(std::optional<Level> within) { return within ? name_of(*within) : "job"; }

std::optional<std::optional<Level>> within_named(std::string_view name) {
  for (const std::optional<Level> within : kWithin) {
    if (within_name(within) == name) return within;
  }
  return std::nullopt;
}

const LinkFacts* Profile::find(const Layout& layout, int32_t from, int32_t to) const {
  const std::optional<Level> within = layout.common(from, to);
  const auto level = static_cast<size_t>(joined_level(within));
  const std::string& source = layout.names[level][static_cast<size_t>(layout.member_of[level][static_cast<size_t>(from)])];
  const std::string& target = layout.names[level][static_cast<size_t>(layout.member_of[level][static_cast<size_t>(to)])];
  const LinkFacts* best = nullptr;
  size_t best_distance = SIZE_MAX;
  for (const LinkFacts& link : links) {
    const bool named = !link.from.empty() || !link.to.empty();
    if (link.within == within && link.from == source && link.to == target) return &link;
    if (named) continue;
    // What spans more is taken before what spans less: a guess that is too slow costs less than one that is too fast.
    const size_t at = index_of(link.within), wanted = index_of(within);
    const size_t distance = at >= wanted ? at - wanted : kWithin.size() + wanted - at;
    if (distance < best_distance) {
      best = &link;
      best_distance = distance;
    }
  }
  return best != nullptr || links.empty() ? best : &links.front();
}

const LinkFacts* Profile::find_cut(std::optional<Level> within, std::string_view from, std::string_view to) const {
  for (const LinkFacts& link : links) {
    if (link.within == within && link.from == from && link.to == to && link.cut_bytes_per_s != 0) return &link;
  }
  return nullptr;
}

std::vector<std::string> unknown_members(const Layout& layout, const Profile& profile) {
  std::vector<std::string> unknown;
  for (const LinkFacts& link : profile.links) {
    const auto& names = layout.names[static_cast<size_t>(joined_level(link.within))];
    for (const std::string& name : {link.from, link.to}) {
      const bool known = name.empty() || std::find(names.begin(), names.end(), name) != names.end();
      if (!known && std::find(unknown.begin(), unknown.end(), name) == unknown.end()) unknown.push_back(name);
    }
  }
  return unknown;
}

Profile prior_profile() {
  const auto link = [](std::optional<Level> within, TimeNs latency_ns, TimeNs overhead_ns, uint64_t stream, uint64_t port) {
    LinkFacts facts{.within = within, .from = {}, .to = {}, .latency_ns = latency_ns, .overhead_ns = overhead_ns, .gaps = {}};
    facts.stream_bytes_per_s = stream;
    facts.port_bytes_per_s = port;
    facts.confidence = Confidence::prior;
    return facts;
  };
  constexpr uint64_t kMega = 1'000'000;
  Profile profile;
  profile.links = {link(Level::host, 500, 300, 4000 * kMega, 0), link(Level::zone, 15'000, 4'000, 1100 * kMega, 1100 * kMega),
                   link(Level::building, 25'000, 4'000, 1100 * kMega, 1100 * kMega),
                   link(Level::region, 1 * kMillisecondNs, 4'000, 120 * kMega, 1100 * kMega),
                   link(std::nullopt, 5 * kMillisecondNs, 4'000, 120 * kMega, 1100 * kMega)};
  profile.machine = {.reduce_bytes_per_s = 5000 * kMega, .copy_bytes_per_s = 6000 * kMega, .step_ns = 30, .codecs = {}};
  profile.machine.confidence = Confidence::prior;
  profile.machine.codecs = {{"thc", 2800 * kMega, 30'000 * kMega, 5500 * kMega}, {"bf16", 4000 * kMega, 4000 * kMega, 8000 * kMega}};
  return profile;
}

Result<Profile> parse_profile(std::string_view text) {
  try {
    return parse_document(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid_argument(fmt::format("profile: no JSON: {}", error.what()));
  }
}

std::string to_json(const Profile& profile) {
  Json links = Json::array(), codecs = Json::array();
  for (const LinkFacts& link : profile.links) links.push_back(json_of(link));
  for (const CodecFacts& codec : profile.machine.codecs) {
    codecs.push_back({{"name", codec.name},
                      {"encode_bytes_per_s", codec.encode_bytes_per_s},
                      {"accumulate_bytes_per_s", codec.accumulate_bytes_per_s},
                      {"decode_bytes_per_s", codec.decode_bytes_per_s}});
  }
  Json machine = {{"reduce_bytes_per_s", profile.machine.reduce_bytes_per_s},
                  {"copy_bytes_per_s", profile.machine.copy_bytes_per_s},
                  {"step_ns", profile.machine.step_ns},
                  {"confidence", name_of(profile.machine.confidence)}};
  if (!codecs.empty()) machine["codecs"] = std::move(codecs);
  const Json json = {{"schema", kSchema}, {"epoch", profile.epoch}, {"links", std::move(links)}, {"machine", std::move(machine)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace isthmus::topology
