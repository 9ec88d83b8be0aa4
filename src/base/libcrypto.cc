// SPDX-License-Identifier: Apache-2.0
// libcrypto.h.
#include "base/libcrypto.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace isthmus {
namespace {

using InitFunction = int (*)(uint64_t options, const void* settings);
constexpr uint64_t kInitNoAtExit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT

void* open_library() {
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  }
  return nullptr;
}

}  // namespace

Result<void*> open_libcrypto() {
  if (const Fd spare(open("/dev/null", O_RDONLY | O_CLOEXEC)); !spare.valid() && errno == EMFILE)
    return errno_error("load libcrypto", errno);
  void* handle = open_library();  // never closed: libcrypto registers exit handlers
  if (handle == nullptr) {
    const char* reason = dlerror();
    return system_error(std::string("libcrypto cannot be loaded (") + (reason != nullptr ? reason : "no reason given") +
                        "), and connections cannot be authenticated without it: install OpenSSL's library (Debian: libssl3, Fedora: "
                        "openssl-libs), or set ISTHMUS_AUTH=none on a network where every host is trusted");
  }
  // A program may exit while other threads still authenticate: libcrypto must not take itself apart under them. If the program has
  // initialised it already, this has no effect.
  if (const auto init = reinterpret_cast<InitFunction>(dlsym(handle, "OPENSSL_init_crypto")); init != nullptr) {
    static_cast<void>(init(kInitNoAtExit, nullptr));
  }
  return handle;
}

}  // namespace isthmus
