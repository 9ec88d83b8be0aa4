// SPDX-License-Identifier: Apache-2.0
// premises.h.
#include "cli/aggregate/premises.h"

#include <fmt/format.h>

#include "base/host_identity.h"
#include "base/text.h"
#include "bootstrap/comm_id.h"
#include "federated/aggregator.h"

namespace isthmus::cli {

Result<std::unique_ptr<Premises>> prepare(const MeetingWords& words) {
  auto premises = std::make_unique<Premises>();
  SettingsReport report;
  ISTHMUS_ASSIGN(premises->settings, settings_from_environment(&report));
  Settings& settings = premises->settings;
  for (const std::string& warning : report.warnings) fmt::print(stderr, "isthmus {}: warning: {}\n", words.command, warning);
  if (!words.secret_file.empty()) settings.secret_file = words.secret_file;
  if (!words.auth.empty()) settings.auth = words.auth;
  const HostIdentity host = read_host_identity(settings);
  premises->log = Logger::from_settings(settings, host.hostname, host.pid);

  const Crypto* crypto = &Crypto::none();
  if (settings.auth == "none") {
    premises->log.warn("connections are not authenticated: anybody who reaches {} may take part", words.address);
  } else {
    ISTHMUS_ASSIGN(crypto, Crypto::load());
  }
  const auto addresses = bootstrap::resolve(words.address, settings);
  if (!addresses.ok()) return addresses.status().with_context(words.address);
  premises->addresses = *addresses;
  ISTHMUS_ASSIGN(const Key secret, bootstrap::common_secret(settings, *addresses, *crypto, random_bytes));
  premises->key = federated::aggregator_key(*crypto, secret);

  transport::SocketOptions sockets{.ifname = settings.socket_ifname, .family = settings.socket_family};
  sockets.accepted.user_timeout_ns = settings.peer_timeout_ns;
  premises->network = std::make_unique<transport::Sockets>(std::move(sockets));
  premises->surroundings = std::make_unique<bootstrap::Surroundings>(
      bootstrap::Surroundings{.network = *premises->network, .crypto = *crypto, .log = premises->log});
  ISTHMUS_TRY(random_bytes(std::as_writable_bytes(std::span(premises->surroundings->process))));
  return premises;
}

Result<TimeNs> duration_of(const char* option, const std::string& text) {
  auto duration = parse_duration(text);
  return duration.ok() ? duration : duration.status().with_context(fmt::format("{} {}", option, text));
}

Result<uint64_t> count_of(const char* option, const std::string& text) {
  auto count = parse_bytes(text);
  if (count.ok()) return count;
  return invalid_argument(fmt::format("{} {}: a number is accepted, such as 4096, 256K, 64M or 1G", option, text));
}

Result<codec::ThcConfig> codec_of(const MeetingWords& words) {
  auto config = codec::parse_thc(words.codec.empty() ? "thc" : words.codec);
  return config.ok() ? config : config.status().with_context("--codec " + words.codec);
}

std::optional<federated::GroupRules> group_of(const MeetingWords& words) {
  if (!words.cohort && !words.masked) return std::nullopt;
  federated::GroupRules rules{.largest_weight = words.largest_weight};
  if (!words.masked) return rules;
  rules.masked = true;
  rules.masks = {.min_cohort = words.min_cohort, .degree = words.neighbours};
  rules.clip = words.clip;
  return rules;
}

Result<const Masking*> masking_of(const MeetingWords& words) {
  if (!words.masked) return static_cast<const Masking*>(nullptr);
  return Masking::load();
}

int complain(const Status& status, std::string_view command) {
  fmt::print(stderr, "isthmus {}: {}\n", command, status.text());
  return status.code() == Code::invalid_argument ? 2 : 1;
}

}  // namespace isthmus::cli
