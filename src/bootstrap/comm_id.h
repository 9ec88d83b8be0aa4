// SPDX-License-Identifier: Apache-2.0
// Meeting by address: host:port and a secret file, instead of an id that the program passes around. NCCL_COMM_ID makes such an id; the
// aggregator is met that way too. A wall: resolves names and touches files, so it may block; called once, when setting up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/unique_id.h"

namespace isthmus::bootstrap {

/// The addresses that host:port means, at most UniqueId::kRoots. invalid_argument: not host:port, or the name is unknown.
Result<std::vector<transport::Address>> resolve(const std::string& text, const Settings& settings);

/// The secret of those who meet at `addresses`: from settings.secret_file; without one, and only when all are on the loopback interface,
/// from a file that the first process of this user makes in settings.runtime_dir, else in a folder of settings.temp_dir. auth "none" needs
/// neither.
///   system_error  the file is missing, readable by others, or of another owner; the text says which and what to do
Result<Key> common_secret(const Settings& settings, std::span<const transport::Address> addresses, const Crypto& crypto,
                          const RandomSource& random);

/// The id that settings.comm_id names; equal on all ranks whose settings and secret files are. Rank 0 opens a Root at id.roots.
/// Fails as the two above do, with the variable named.
Result<UniqueId> id_from_comm_id(const Settings& settings, const Crypto& crypto, const RandomSource& random);

/// The key in a secret file (16 to 4096 bytes, mode 0600 or less, owned by this user or root).
Result<Key> read_secret_file(const std::string& path, const Crypto& crypto);

}  // namespace isthmus::bootstrap
