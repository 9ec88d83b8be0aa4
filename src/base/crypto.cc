// SPDX-License-Identifier: Apache-2.0
// crypto.h on libcrypto's one-shot HMAC(). A known answer
// is checked once at loading; after that HMAC() can only fail for lack of memory.
#include "base/crypto.h"

#include <dlfcn.h>
#include <sys/random.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/bytes.h"
#include "base/libcrypto.h"

namespace isthmus {
namespace {

// The prototypes of <openssl/hmac.h> and <openssl/evp.h>, with EVP_MD opaque; the same in OpenSSL 1.1 and 3.
using Sha256Function = const void* (*)();
using HmacFunction = unsigned char* (*)(const void* digest, const void* key, int key_bytes, const unsigned char* data, size_t data_bytes,
                                        unsigned char* tag, unsigned int* tag_bytes);

class LoadedCrypto final : public Crypto {
 public:
  LoadedCrypto(Sha256Function sha256_function, HmacFunction hmac_function) : sha256_(sha256_function), hmac_(hmac_function) {}

  [[nodiscard]] Key hmac(const Key& key, std::span<const std::byte> data) const override {
    Key tag;
    unsigned int tag_bytes = 0;
    const bool made = hmac_(sha256_(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(data.data()),
                            data.size(), reinterpret_cast<unsigned char*>(tag.data()), &tag_bytes) != nullptr;
    if (!made || tag_bytes != tag.size()) throw std::bad_alloc();  // never a guessable tag
    return tag;
  }

 private:
  Sha256Function sha256_;
  HmacFunction hmac_;
};

class NoCrypto final : public Crypto {
 public:
  [[nodiscard]] Key hmac(const Key&, std::span<const std::byte>) const override { return {}; }
};

/// HMAC-SHA-256 of "what do ya want for nothing?" under "Jefe" padded with zeros (RFC 4231, case 2), first eight bytes.
bool answers_correctly(const Crypto& crypto) {
  constexpr std::array<uint8_t, 8> kExpected = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
  Key key{};
  Writer(key).bytes(as_bytes("Jefe"));
  const Key tag = crypto.hmac(key, as_bytes("what do ya want for nothing?"));
  return equal_constant_time(std::span(tag).first(kExpected.size()), std::as_bytes(std::span(kExpected)));
}

Result<LoadedCrypto> load_hmac() {
  ISTHMUS_ASSIGN(void* const handle, open_libcrypto());
  const auto sha256 = reinterpret_cast<Sha256Function>(dlsym(handle, "EVP_sha256"));
  const auto hmac = reinterpret_cast<HmacFunction>(dlsym(handle, "HMAC"));
  if (sha256 == nullptr || hmac == nullptr) return system_error("the libcrypto that was found lacks HMAC or EVP_sha256");
  LoadedCrypto crypto(sha256, hmac);
  if (!answers_correctly(crypto)) return system_error("the libcrypto that was found computes HMAC-SHA-256 wrongly");
  return crypto;
}

}  // namespace

Result<const Crypto*> Crypto::load() {
  static std::mutex mutex;
  // A failure is not kept: it may be a passing one, such as a lack of descriptors. Never deleted: threads may still be inside at exit.
  static const LoadedCrypto* loaded = nullptr;
  const std::lock_guard guard(mutex);
  if (loaded == nullptr) {
    ISTHMUS_ASSIGN(LoadedCrypto fresh, load_hmac());
    loaded = std::make_unique<LoadedCrypto>(fresh).release();
  }
  return loaded;
}

const Crypto& Crypto::none() {
  static const Crypto& instance = *std::make_unique<NoCrypto>().release();
  return instance;
}

Key derive_key(const Crypto& crypto, const Key& secret, std::string_view label) { return crypto.hmac(secret, as_bytes(label)); }

bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;  // volatile: the compiler may not leave the loop early
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<unsigned char>(difference | std::to_integer<unsigned char>(a[i] ^ b[i]));
  return difference == 0;
}

Status random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("getrandom", errno);
    out = out.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace isthmus
