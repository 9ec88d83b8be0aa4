// SPDX-License-Identifier: Apache-2.0
// Reading a whole file that people wrote: topologies, profiles, plans, rules. Fails where it cannot be read, is no file or is too large;
// the caller says which file it was.
#pragma once

#include <string>

#include "base/status.h"

namespace isthmus {

/// At most 16 MiB.
Result<std::string> read_text_file(const std::string& path);

}  // namespace isthmus
