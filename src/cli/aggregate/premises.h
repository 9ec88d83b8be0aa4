// SPDX-License-Identifier: Apache-2.0
// What both sides of `isthmus aggregate`, and of `isthmus federated run`, need first: settings, log, network, the common secret. A wall:
// reads the environment, files and names. Fails with what is wrong and what to do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "bootstrap/surroundings.h"
#include "codec/thc.h"
#include "federated/group_rules.h"
#include "transport/tcp/sockets.h"

namespace isthmus::cli {

/// The words of the command line that both sides know.
struct MeetingWords {
  std::string command = "aggregate";  ///< for messages
  std::string address;                ///< host:port
  std::string secret_file, auth;      ///< "": as the settings say
  std::string codec;
  uint32_t ranks = 0;
  bool json = false;
  bool cohort = false;      ///< weighted means of a cohort, with one deadline for a round
  bool masked = false;      ///< such that nobody sees more than the sum
  float clip = 0;           ///< masked
  uint32_t min_cohort = 3;  ///< masked
  uint32_t neighbours = 0;  ///< masked; 0: all
  double largest_weight = 1;
  uint64_t epoch = 0;
};

struct Premises {
  Settings settings;
  Logger log = Logger::silent();
  std::unique_ptr<transport::Sockets> network;
  std::unique_ptr<bootstrap::Surroundings> surroundings;
  std::vector<transport::Address> addresses;
  Key key{};
};

Result<std::unique_ptr<Premises>> prepare(const MeetingWords& words);

/// Values of options; what is wrong names the option.
Result<TimeNs> duration_of(const char* option, const std::string& text);
/// Of bytes or elements: "256K".
Result<uint64_t> count_of(const char* option, const std::string& text);
/// --codec, or the default one.
Result<codec::ThcConfig> codec_of(const MeetingWords& words);

/// None unless --cohort or --masked.
std::optional<federated::GroupRules> group_of(const MeetingWords& words);
/// Null unless it is needed.
Result<const Masking*> masking_of(const MeetingWords& words);

/// Prints to standard error what failed, and gives the exit code: 2 for wrong arguments, else 1.
int complain(const Status& status, std::string_view command = "aggregate");

}  // namespace isthmus::cli
