// SPDX-License-Identifier: Apache-2.0
// All methods over several episodes, on a few threads, and what they come to: the table and the JSON of `isthmus federated simulate`.
// Results do not depend on the threads.
#pragma once

#include <string>
#include <vector>

#include "cli/federated/methods.h"

namespace isthmus::cli {

struct StudyRules {
  EpisodeRules episode;
  MethodRules method;
  std::vector<Method> methods;
  uint64_t first_seed = 0;
  uint32_t seeds = 5;
  double target = 0.9;  ///< accuracy that rounds are counted to
  uint32_t threads = 2;
};

struct Study {
  StudyRules rules;
  std::string source;                           ///< of the images
  std::vector<std::vector<History>> histories;  ///< by method, by seed
  std::vector<std::vector<Summary>> summaries;  ///< by method, by seed
};

Result<Study> run_study(const StudyRules& rules, const Digits& digits);
std::string study_text(const Study& study);
std::string study_json(const Study& study);

}  // namespace isthmus::cli
