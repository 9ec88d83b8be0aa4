// SPDX-License-Identifier: Apache-2.0
// The kinds of data on which the codec's errors are known. Called by the programs of this folder; nothing can fail.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace isthmus::thc {

enum class Data : uint8_t { gauss, gauss_same, half_common, lognormal1, lognormal1_same, lognormal2, spikes, layers };

std::string_view name_of(Data data);
/// True where the largest group norm varies much by draw.
bool is_heavy(Data data);
/// One vector of `elements` per rank.
std::vector<std::vector<float>> make_data(Data data, uint32_t ranks, size_t elements, uint64_t seed);

}  // namespace isthmus::thc
