// SPDX-License-Identifier: Apache-2.0
// NCCL_COMM_ID: an id that every rank makes for itself from host:port and a secret file, instead of one that the program passes
// around. A wall: resolves names and touches files, so it may block; called once, from ncclGetUniqueId.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/unique_id.h"

namespace isthmus::bootstrap {

/// The id that settings.comm_id names; equal on all ranks whose settings and secret files are. Rank 0 opens a Root at id.roots.
///   invalid_argument  not host:port, or the name is unknown
///   system_error      the secret file is missing, readable by others, or of another owner; the text says which and what to do
/// The secret comes from settings.secret_file; without one, and only when the address is on the loopback interface, from a file that
/// the first process of this user makes in settings.runtime_dir, else in a folder of settings.temp_dir. auth "none" needs neither.
Result<UniqueId> id_from_comm_id(const Settings& settings, const Crypto& crypto, const RandomSource& random);

/// The key in a secret file (16 to 4096 bytes, mode 0600 or less, owned by this user or root).
Result<Key> read_secret_file(const std::string& path, const Crypto& crypto);

}  // namespace isthmus::bootstrap
