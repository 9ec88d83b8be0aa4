// SPDX-License-Identifier: Apache-2.0
// What is in a host, by hwloc 2 or later. See host.h. Keeps what communication can tell apart: packages and dies, memories, caches that
// cores share, network devices and accelerators; private caches, bridges and disks are left out.
#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/text.h"
#include "topology/discover/host.h"

namespace isthmus::topology {
namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

int cores_in(hwloc_topology_t topology, hwloc_obj_t object) {
  return object->cpuset == nullptr ? 0 : hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
}

std::string cpus_of(hwloc_obj_t object) {
  if (object->cpuset == nullptr) return "";
  std::array<char, 512> text{};
  const int size = hwloc_bitmap_list_snprintf(text.data(), text.size(), object->cpuset);
  return size < static_cast<int>(text.size()) ? text.data() : fmt::format("{}...", std::string_view(text.data()).substr(0, 60));
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* text = hwloc_obj_get_info_by_name(object, name);
  return text == nullptr ? "" : std::string(trim(text));
}

/// hwloc's own word for a device ("Net", "OpenFabrics", "CoProc"), which all its versions have, to ours; nothing for disks and others.
std::optional<std::string> device_kind(hwloc_obj_t object) {
  std::array<char, 64> text{};
  hwloc_obj_type_snprintf(text.data(), text.size(), object, 0);
  const std::string word = lower(text.data());
  if (word.starts_with("net")) return "network";
  if (word.starts_with("openfabrics")) return "rdma";
  if (word.starts_with("coproc") || word.starts_with("gpu")) return "accelerator";
  return std::nullopt;
}

/// The rate of the nearest PCI device around it; hwloc gives GB/s.
double link_rate_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object == nullptr ? 0 : static_cast<double>(object->attr->pcidev.linkspeed);
}

/// The object as a part without children; nothing if it does not matter by itself.
std::optional<Part> part_of(hwloc_topology_t topology, hwloc_obj_t object) {
  Part part{.cores = cores_in(topology, object), .cpus = cpus_of(object)};
  switch (object->type) {
    case HWLOC_OBJ_MACHINE:
      part.kind = "host";
      return part;
    case HWLOC_OBJ_PACKAGE:
      part.kind = "package";
      part.name = fmt::format("{}", object->logical_index);
      part.model = info_of(object, "CPUModel");
      return part;
    case HWLOC_OBJ_DIE:
      part.kind = "die";
      part.name = fmt::format("{}", object->logical_index);
      return part;
    case HWLOC_OBJ_NUMANODE:
      return Part{.kind = "numa", .name = fmt::format("{}", object->os_index), .bytes = object->attr->numanode.local_memory};
    case HWLOC_OBJ_L4CACHE:
    case HWLOC_OBJ_L3CACHE:
    case HWLOC_OBJ_L2CACHE:
      if (part.cores < 2 && object->type == HWLOC_OBJ_L2CACHE) return std::nullopt;
      part.kind = fmt::format("l{}", object->attr->cache.depth);
      part.bytes = object->attr->cache.size;
      return part;
    case HWLOC_OBJ_OS_DEVICE: {
      const auto kind = device_kind(object);
      if (!kind) return std::nullopt;
      return Part{.kind = *kind, .name = object->name == nullptr ? "" : object->name, .link_gb_per_s = link_rate_of(object)};
    }
    default:
      return std::nullopt;
  }
}

/// Appends what is in `object` to `parts`: the part that it is, with what is in it, or only the latter. hwloc's trees are a few levels
/// deep.
void append_parts(hwloc_topology_t topology, hwloc_obj_t object, std::vector<Part>& parts) {  // NOLINT(misc-no-recursion)
  auto part = part_of(topology, object);
  std::vector<Part>& into = part ? part->children : parts;
  for (hwloc_obj_t child : {object->memory_first_child, object->first_child, object->io_first_child}) {
    for (; child != nullptr; child = child->next_sibling) append_parts(topology, child, into);
  }
  if (part) parts.push_back(std::move(*part));
}

Status not_loaded(const HostSource& source) {
  if (!source.synthetic.empty()) return invalid_argument(fmt::format("hwloc does not accept the description '{}'", source.synthetic));
  if (!source.xml.empty()) return invalid_argument("hwloc does not accept the XML: is it of hwloc 2 or later (lstopo FILE.xml)?");
  return system_error("hwloc cannot read this host; where HWLOC_XMLFILE or HWLOC_SYNTHETIC is set, is what it names there and valid?");
}

}  // namespace

Result<Part> read_host(const HostSource& source) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return system_error("hwloc cannot start");
  const Topology topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  int failed = 0;
  if (!source.synthetic.empty()) failed |= hwloc_topology_set_synthetic(raw, source.synthetic.c_str());
  if (!source.xml.empty()) failed |= hwloc_topology_set_xmlbuffer(raw, source.xml.c_str(), static_cast<int>(source.xml.size()) + 1);
  if (failed != 0 || hwloc_topology_load(raw) != 0) return not_loaded(source);
  std::vector<Part> parts;
  append_parts(raw, hwloc_get_root_obj(raw), parts);
  if (parts.size() != 1) return internal_error("hwloc's tree does not begin with one machine");
  return std::move(parts.front());
}

}  // namespace isthmus::topology
