// SPDX-License-Identifier: Apache-2.0
// Boxes within boxes, as text and as a drawing (SVG): the one way in which topologies are shown. Pure; nothing here fails.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/host.h"
#include "topology/model.h"

namespace isthmus::topology {

struct Box {
  std::string kind;   ///< "building", "host", "package": chooses the colour
  std::string title;  ///< "building fra1"
  std::string note;   ///< "2 hosts, 4 ranks", who said so; may be empty
  std::vector<Box> children;
};

/// What is in hosts, by host id.
using Insides = std::map<uint64_t, Part>;

/// A job or a part of it, hosts with their insides where these are given. Without `counts`, notes tell no numbers of hosts and ranks.
Box box_of(const Node& node, const Insides& insides = {}, bool counts = true);
/// The inside of a host.
Box box_of(const Part& part);

/// A line for each box, below each other and connected by lines.
std::string to_text(const Box& box);
/// A whole SVG document. Sizes are in pixels and follow the text.
std::string to_svg(const Box& box);

}  // namespace isthmus::topology
