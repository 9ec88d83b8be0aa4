// SPDX-License-Identifier: Apache-2.0
// Names and sizes of the sweeps' element types and operators (see element.h).
#include "element.h"

#include <array>

namespace sweep {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeRow, ncclNumTypes> kTypes = {{{"int8", 1},
                                                       {"uint8", 1},
                                                       {"int32", 4},
                                                       {"uint32", 4},
                                                       {"int64", 8},
                                                       {"uint64", 8},
                                                       {"half", 2},
                                                       {"float", 4},
                                                       {"double", 8},
                                                       {"bfloat16", 2},
                                                       {"f8e4m3", 1},
                                                       {"f8e5m2", 1}}};
constexpr std::array<std::string_view, 7> kOpNames = {"none", "sum", "prod", "max", "min", "avg", "mulsum"};

}  // namespace

std::string_view name_of(Op op) { return kOpNames[static_cast<size_t>(op)]; }
std::string_view name_of(ncclDataType_t type) { return kTypes[static_cast<size_t>(type)].name; }
size_t bytes_of(ncclDataType_t type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::optional<Op> op_named(std::string_view name) {
  for (Op op : kOps) {
    if (name_of(op) == name) return op;
  }
  return std::nullopt;
}

std::optional<ncclDataType_t> type_named(std::string_view name) {
  for (size_t type = 0; type < kTypes.size(); ++type) {
    if (kTypes[type].name == name) return static_cast<ncclDataType_t>(type);
  }
  return std::nullopt;
}

}  // namespace sweep
