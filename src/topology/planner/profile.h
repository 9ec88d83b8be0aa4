// SPDX-License-Identifier: Apache-2.0
// The profile: what links and machines of a job do, measured or assumed. Made by probing (comm/), read from a file, or the built-in
// assumptions; used by the planner. One text for one content, so that its hash tells whether ranks know the same. Pure; reading fails on
// malformed text, and says where and what is accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/cost.h"
#include "topology/planner/layout.h"

namespace isthmus::topology {

enum class Confidence : uint8_t { prior, given, measured };
std::string_view name_of(Confidence confidence);

/// What messages between ranks so far apart cost. Rates are of payload, in bytes per second; 0: not limited, or not known.
struct LinkFacts {
  std::optional<Level> within;      ///< the lowest level that holds both ends: host for two processes of a host; nothing: two regions
  std::string from, to;             ///< only between these members of the level below, by name; "": any
  TimeNs latency_ns = 0;            ///< one way: half of the least round trip
  TimeNs jitter_ns = 0;             ///< what the 99th percentile of round trips takes more than the least, halved
  TimeNs overhead_ns = 0;           ///< CPU time of sender and of receiver, per message
  uint64_t stream_bytes_per_s = 0;  ///< one stream
  uint64_t port_bytes_per_s = 0;    ///< all that one host sends, or receives, over links of this kind
  uint64_t cut_bytes_per_s = 0;     ///< all between the two members; with only one of them named, all that leaves or enters it
  std::vector<plan::Knot> gaps;     ///< by ascending bytes, how long one message occupies the link; empty: by stream_bytes_per_s
  Confidence confidence = Confidence::given;
  uint32_t samples = 0;
  int64_t measured_at_s = 0;  ///< seconds since 1970; 0: not measured
  friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
};

struct CodecFacts {
  std::string name;                                                                     ///< "thc:b=4"
  uint64_t encode_bytes_per_s = 0, accumulate_bytes_per_s = 0, decode_bytes_per_s = 0;  ///< of the elements as they are, one thread
  friend bool operator==(const CodecFacts&, const CodecFacts&) = default;
};

struct MachineFacts {
  uint64_t reduce_bytes_per_s = 0, copy_bytes_per_s = 0;  ///< one thread
  TimeNs step_ns = 0;
  Confidence confidence = Confidence::given;
  std::vector<CodecFacts> codecs;
  friend bool operator==(const MachineFacts&, const MachineFacts&) = default;
};

struct Profile {
  uint64_t epoch = 1;  ///< rises with each change that all ranks take over together
  std::vector<LinkFacts> links;
  MachineFacts machine;
  friend bool operator==(const Profile&, const Profile&) = default;

  /// What is known of messages from rank to rank: the facts about their two members, else those about their kind of link, else those of
  /// the nearest kind that spans more, or less. Null only if there are no facts at all.
  [[nodiscard]] const LinkFacts* find(const Layout& layout, int32_t from, int32_t to) const;
  /// Facts about all that leaves the member (`to` empty), or enters it (`from` empty); null: none.
  [[nodiscard]] const LinkFacts* find_cut(std::optional<Level> within, std::string_view from, std::string_view to) const;
};

/// Members that the profile speaks of and the layout does not have, each once.
std::vector<std::string> unknown_members(const Layout& layout, const Profile& profile);

/// Assumptions for where nothing was measured: a current server, 10 Gbit/s in a building, 1 Gbit/s and 5 ms one way between buildings.
Profile prior_profile();

/// JSON, schema "isthmus.profile/1".
Result<Profile> parse_profile(std::string_view text);
std::string to_json(const Profile& profile);

/// "host", "zone", "building", "region", and "job" for nothing.
std::string_view within_name(std::optional<Level> within);
std::optional<std::optional<Level>> within_named(std::string_view name);

}  // namespace isthmus::topology
