// SPDX-License-Identifier: Apache-2.0
// OpenSSL's libcrypto, found with dlopen when first needed, so that the preloaded libraries need no OpenSSL to load. Used by crypto.cc and
// masking.cc alone. Fails, naming the package to install, where there is none.
#pragma once

#include "base/status.h"

namespace isthmus {

/// For dlsym; valid for the life of the process.
Result<void*> open_libcrypto();

}  // namespace isthmus
