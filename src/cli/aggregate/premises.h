// SPDX-License-Identifier: Apache-2.0
// What both sides of `isthmus aggregate` need first: settings, log, network, the common secret. A wall: reads the environment, files and
// names. Fails with what is wrong and what to do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "bootstrap/surroundings.h"
#include "codec/thc.h"
#include "transport/tcp/sockets.h"

namespace isthmus::cli {

/// The words of the command line that both sides know.
struct MeetingWords {
  std::string address;            ///< host:port
  std::string secret_file, auth;  ///< "": as the settings say
  std::string codec;
  uint32_t ranks = 0;
  bool json = false;
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

/// Prints to standard error what failed, and gives the exit code: 2 for wrong arguments, else 1.
int complain(const Status& status);

}  // namespace isthmus::cli
