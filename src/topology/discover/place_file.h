// SPDX-License-Identifier: Apache-2.0
// Topology files (ISTHMUS_TOPOLOGY_FILE) as text, in two forms: JSON that says where many hosts are, and KEY=VALUE lines that say where
// this one is. Called by the ladder. Parsing fails with the line or the field, and what is accepted there.
//
//   {"schema": "isthmus.topology/1",
//    "places": {"fra1-r1-*": "eu/fra1/r1", "10.2.0.0/16": "eu/ams2", "*": "/elsewhere"}}
//
//   REGION=eu
//   BUILDING=fra1
//   ZONE=r1
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/discover/ip.h"
#include "topology/model.h"

namespace isthmus::topology {

/// What a host may be found by.
struct Self {
  uint64_t host_id = 0;
  std::string hostname;  ///< may be qualified; patterns are held against all of it and the part before the first dot
  std::vector<Ip> addresses;
};

struct PlaceFile {
  struct Entry {
    std::string pattern;             ///< of host names, with * ? [...]; "": this host
    std::optional<Network> network;  ///< instead of the pattern's meaning for names
    std::map<Level, std::string> names;
  };
  std::vector<Entry> entries;
};

Result<PlaceFile> parse_place_file(std::string_view text);

/// What the file says about this host: of the entries that match, the first that names a level counts for that level. `path` is for
/// the claims' sources.
std::vector<Claim> claims_of(const PlaceFile& file, const Self& self, std::string_view path);

/// Fails, saying why, unless `name` can name a member of a level: 1 to 100 printable characters without '/'.
Status check_name(std::string_view name);

}  // namespace isthmus::topology
