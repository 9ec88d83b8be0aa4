// SPDX-License-Identifier: Apache-2.0
// The interfaces' counters (see link_bytes.h).
#include "link_bytes.h"

#include <fstream>
#include <sstream>
#include <string>

namespace training {

uint64_t sum_sent_bytes(std::istream& counters) {
  constexpr int kSentBytes = 9;  // numbers after the name: eight about what was received come first
  uint64_t sum = 0;
  for (std::string line; std::getline(counters, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // a heading
    std::istringstream name(line.substr(0, colon));
    std::istringstream numbers(line.substr(colon + 1));
    std::string interface;
    name >> interface;
    uint64_t number = 0;
    for (int place = 0; place < kSentBytes; ++place) numbers >> number;
    if (interface != "lo" && !numbers.fail()) sum += number;
  }
  return sum;
}

uint64_t link_bytes_sent() {
  std::ifstream counters("/proc/self/net/dev");
  return sum_sent_bytes(counters);
}

}  // namespace training
