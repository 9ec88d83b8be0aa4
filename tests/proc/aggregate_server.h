// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate --listen` as a child process, its ranks' command lines, and what they print. Used by the process tests of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/proc/job.h"

namespace isthmus::proc {

using nlohmann::json;
using Words = std::vector<std::string>;

inline std::string g_isthmus, g_secret, g_wrong_secret;  // set once by main

inline std::vector<json> lines_of(const std::string& output) {
  std::vector<json> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    json one = json::parse(line, nullptr, false);
    if (one.is_object()) lines.push_back(std::move(one));
  }
  return lines;
}

inline Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// An aggregator on a port of its own.
class Server {
 public:
  explicit Server(int ranks, const Words& more = {})
      : ranks_(ranks),
        job_(
            plus({g_isthmus, "aggregate", "--listen", "127.0.0.1:0", "--ranks", std::to_string(ranks), "--secret-file", g_secret, "--json"},
                 more)) {
    EXPECT_TRUE(job_.wait_for("max_elements"));
    const std::vector<json> lines = lines_of(job_.output());
    if (!lines.empty()) address_ = lines[0]["listening"][0];
  }
  [[nodiscard]] const std::string& address() const { return address_; }
  Words rank(int rank, const Words& more = {}) const {
    return plus({g_isthmus, "aggregate", "--connect", address_, "--rank", std::to_string(rank), "--ranks", std::to_string(ranks_),
                 "--secret-file", g_secret, "--json"},
                more);
  }
  Job& job() { return job_; }

 private:
  int ranks_;
  Job job_;
  std::string address_;
};

/// Results by round: all ranks that have one must have the same.
inline void collect(const Ended& ended, std::map<uint64_t, std::set<std::string>>& results) {
  for (const json& line : lines_of(ended.output)) {
    if (!line.contains("result")) continue;
    results[line["round"]].insert(line["result"]);
    EXPECT_TRUE(line["right"]) << line;
  }
}

}  // namespace isthmus::proc
