// SPDX-License-Identifier: Apache-2.0
// Settings and configuration files as users write them. What is refused is refused with a text; what a row shows is what was given.
#include "base/settings.h"

#include "target.h"

namespace isthmus::fuzz {

void run(Input input) {
  SettingsReport report;
  const SettingSource source = parse_conf("file", text_of(input));
  const auto settings = parse_settings(std::span(&source, 1), &report);
  if (!settings.ok()) {
    promise(!settings.status().text().empty(), "a refusal says why");
    return;
  }
  for (const SettingRow& row : report.rows) promise(row.source == "default" || row.source.starts_with("file"), "a row says who set it");
}

std::vector<Bytes> seeds() {
  SettingsReport report;
  (void)parse_settings({}, &report);
  std::string everything = "# all settings at their defaults\n";
  for (const SettingRow& row : report.rows) everything += std::string(row.name) + "=" + std::string(row.default_text) + "\n";
  return {
      to_bytes(everything),
      to_bytes("ISTHMUS_SETUP_TIMEOUT=1.5s\nISTHMUS_EAGER_BYTES=4KiB\nNCCL_DEBUG=INFO\nISTHMUS_PORT_RANGE=4000-4100\n"),
      to_bytes("ISTHMUS_ALGO=allreduce:ring,broadcast:binomial\nNCCL_ALGO=^Ring;allreduce:tree\nISTHMUS_PROGRESS_CPUS=0-3,8\n"),
      to_bytes("  NCCL_SOCKET_IFNAME = ^docker,lo \n\n#\nISTHMUS_TYPO=1\nNCCL_DEBUG_SUBSYS=^INIT,NET\n"),
  };
}

}  // namespace isthmus::fuzz
