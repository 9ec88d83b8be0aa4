// SPDX-License-Identifier: Apache-2.0
// masking.h on libcrypto's EVP interface. Known answers are checked once at loading.
#include "base/masking.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/libcrypto.h"

namespace isthmus {

// The prototypes of <openssl/evp.h>, with all types opaque; the same in OpenSSL 1.1.1 and 3.
struct Masking::Functions {
  void* (*new_secret)(int type, void* engine, const unsigned char* key, size_t bytes);
  void* (*new_public)(int type, void* engine, const unsigned char* key, size_t bytes);
  int (*get_public)(const void* key, unsigned char* out, size_t* bytes);
  void (*free_key)(void* key);
  void* (*new_agreement)(void* key, void* engine);
  void (*free_agreement)(void* agreement);
  int (*begin_agreement)(void* agreement);
  int (*set_peer)(void* agreement, void* key);
  int (*agree)(void* agreement, unsigned char* out, size_t* bytes);
  void* (*new_cipher)();
  void (*free_cipher)(void* cipher);
  const void* (*chacha20)();
  const void* (*chacha20_poly1305)();
  int (*begin)(void* cipher, const void* type, void* engine, const unsigned char* key, const unsigned char* iv, int encrypts);
  int (*update)(void* cipher, unsigned char* out, int* written, const unsigned char* in, int bytes);
  int (*finish)(void* cipher, unsigned char* out, int* written);
  int (*control)(void* cipher, int what, int number, void* with);
};

namespace {

constexpr int kX25519 = 1034;                  // EVP_PKEY_X25519
constexpr int kGetTag = 0x10, kSetTag = 0x11;  // EVP_CTRL_AEAD_GET_TAG, EVP_CTRL_AEAD_SET_TAG
constexpr size_t kMostAtOnce = 1 << 30;        // lengths are ints

using Handle = std::unique_ptr<void, void (*)(void*)>;

unsigned char* writable(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }
const unsigned char* readable(std::span<const std::byte> bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

Status refused(const char* what) { return system_error(std::string("libcrypto refuses ") + what); }

/// A number as a nonce; 16 bytes also have a block counter before it.
std::array<unsigned char, 16> nonce_of(uint64_t number) {
  std::array<unsigned char, 16> nonce{};
  for (size_t i = 0; i < 8; ++i) nonce[8 + i] = static_cast<unsigned char>(number >> (8 * i));
  return nonce;
}

Result<Masking::Functions> look_up(void* library) {
  Masking::Functions found{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find(found.new_secret, "EVP_PKEY_new_raw_private_key");
  find(found.new_public, "EVP_PKEY_new_raw_public_key");
  find(found.get_public, "EVP_PKEY_get_raw_public_key");
  find(found.free_key, "EVP_PKEY_free");
  find(found.new_agreement, "EVP_PKEY_CTX_new");
  find(found.free_agreement, "EVP_PKEY_CTX_free");
  find(found.begin_agreement, "EVP_PKEY_derive_init");
  find(found.set_peer, "EVP_PKEY_derive_set_peer");
  find(found.agree, "EVP_PKEY_derive");
  find(found.new_cipher, "EVP_CIPHER_CTX_new");
  find(found.free_cipher, "EVP_CIPHER_CTX_free");
  find(found.chacha20, "EVP_chacha20");
  find(found.chacha20_poly1305, "EVP_chacha20_poly1305");
  find(found.begin, "EVP_CipherInit_ex");
  find(found.update, "EVP_CipherUpdate");
  find(found.finish, "EVP_CipherFinal_ex");
  find(found.control, "EVP_CIPHER_CTX_ctrl");
  if (!missing.empty()) return system_error("masked sums need a libcrypto with " + missing + " (OpenSSL 1.1.1 or later)");
  return found;
}

/// X25519 of RFC 7748, section 5.2: the first bytes of the first vector's answer.
Status check(const Masking& masking) {
  constexpr std::array<uint8_t, 32> kScalar = {0xa5, 0x46, 0xe3, 0x6b, 0xf0, 0x52, 0x7c, 0x9d, 0x3b, 0x16, 0x15,
                                               0x4b, 0x82, 0x46, 0x5e, 0xdd, 0x62, 0x14, 0x4c, 0x0a, 0xc1, 0xfc,
                                               0x5a, 0x18, 0x50, 0x6a, 0x22, 0x44, 0xba, 0x44, 0x9a, 0xc4};
  constexpr std::array<uint8_t, 32> kPoint = {0xe6, 0xdb, 0x68, 0x67, 0x58, 0x30, 0x30, 0xdb, 0x35, 0x94, 0xc1,
                                              0xa4, 0x24, 0xb1, 0x5f, 0x7c, 0x72, 0x66, 0x24, 0xec, 0x26, 0xb3,
                                              0x35, 0x3b, 0x10, 0xa9, 0x03, 0xa6, 0xd0, 0xab, 0x1c, 0x4c};
  constexpr std::array<uint8_t, 8> kAnswer = {0xc3, 0xda, 0x55, 0x37, 0x9d, 0xe9, 0xc6, 0x90};
  Secret scalar;
  Key point;
  Writer(scalar.bytes()).fill(kScalar);
  Writer(point).fill(kPoint);
  ISTHMUS_ASSIGN(const Secret answer, masking.agree(scalar, point));
  if (equal_constant_time(std::span(answer.bytes()).first(8), std::as_bytes(std::span(kAnswer)))) return {};
  return system_error("the libcrypto that was found computes X25519 wrongly");
}

}  // namespace

void wipe(std::span<std::byte> memory) {
  if (memory.empty()) return;
  std::memset(memory.data(), 0, memory.size());
  asm volatile("" : : "r"(memory.data()) : "memory");  // somebody might read it, for all that the compiler knows
}

Result<const Masking*> Masking::load() {
  static std::mutex mutex;
  // As Crypto::load: a failure is not kept, and nothing is deleted.
  static const Masking* loaded = nullptr;
  const std::lock_guard guard(mutex);
  if (loaded == nullptr) {
    ISTHMUS_ASSIGN(const Crypto* const crypto, Crypto::load());
    ISTHMUS_ASSIGN(void* const library, open_libcrypto());
    ISTHMUS_ASSIGN(const Functions functions, look_up(library));
    const Functions* kept = std::make_unique<Functions>(functions).release();
    std::unique_ptr<Masking> fresh(new Masking(*crypto, *kept));
    ISTHMUS_TRY(check(*fresh));
    loaded = fresh.release();
  }
  return loaded;
}

Result<Key> Masking::public_of(const Secret& secret) const {
  const Functions& call = *functions_;
  const Handle key(call.new_secret(kX25519, nullptr, readable(secret.bytes()), sizeof(Key)), call.free_key);
  Key out;
  size_t bytes = out.size();
  if (!key || call.get_public(key.get(), writable(out), &bytes) != 1 || bytes != out.size()) return refused("a secret key");
  return out;
}

Result<Secret> Masking::agree(const Secret& mine, const Key& theirs) const {
  const Functions& call = *functions_;
  const Handle key(call.new_secret(kX25519, nullptr, readable(mine.bytes()), sizeof(Key)), call.free_key);
  const Handle peer(call.new_public(kX25519, nullptr, readable(theirs), sizeof(Key)), call.free_key);
  if (!key || !peer) return refused("a key");
  const Handle agreement(call.new_agreement(key.get(), nullptr), call.free_agreement);
  if (!agreement || call.begin_agreement(agreement.get()) != 1) return refused("a key agreement");
  Secret out;
  size_t bytes = out.bytes().size();
  // A point of small order would make the common secret known to everybody.
  if (call.set_peer(agreement.get(), peer.get()) != 1 || call.agree(agreement.get(), writable(out.bytes()), &bytes) != 1 ||
      bytes != out.bytes().size() || equal_constant_time(out.bytes(), Key{})) {
    return remote_error("a public key is none");
  }
  return out;
}

Secret Masking::derive(std::span<const std::byte> secret, std::span<const std::byte> info) const {
  const Secret extracted(crypto_->hmac(Key{}, secret));
  std::vector<std::byte> expanding(info.begin(), info.end());
  expanding.push_back(std::byte{1});
  return Secret(crypto_->hmac(extracted.bytes(), expanding));
}

Status Masking::key_stream(const Secret& key, uint64_t number, std::span<std::byte> out) const {
  const Functions& call = *functions_;
  const Handle cipher(call.new_cipher(), call.free_cipher);
  if (!cipher || call.begin(cipher.get(), call.chacha20(), nullptr, readable(key.bytes()), nonce_of(number).data(), 1) != 1) {
    return refused("a key stream");
  }
  std::fill(out.begin(), out.end(), std::byte{0});
  while (!out.empty()) {
    const std::span<std::byte> part = out.first(std::min(out.size(), kMostAtOnce));
    int written = 0;
    if (call.update(cipher.get(), writable(part), &written, readable(part), static_cast<int>(part.size())) != 1)
      return refused("a key stream");
    out = out.subspan(part.size());
  }
  return {};
}

Status Masking::seal(const Secret& key, std::span<const std::byte> text, std::span<std::byte> out) const {
  const Functions& call = *functions_;
  if (out.size() != text.size() + kTagBytes) return internal_error("a sealed message has its text's bytes and a tag's");
  const Handle cipher(call.new_cipher(), call.free_cipher);
  const auto nonce = nonce_of(0);
  int written = 0, rest = 0;
  const bool sealed = cipher && call.begin(cipher.get(), call.chacha20_poly1305(), nullptr, readable(key.bytes()), nonce.data(), 1) == 1 &&
                      call.update(cipher.get(), writable(out), &written, readable(text), static_cast<int>(text.size())) == 1 &&
                      call.finish(cipher.get(), writable(out) + written, &rest) == 1 &&
                      call.control(cipher.get(), kGetTag, kTagBytes, out.last(kTagBytes).data()) == 1;
  return sealed ? Status() : refused("to seal");
}

Status Masking::open(const Secret& key, std::span<const std::byte> sealed, std::span<std::byte> out) const {
  const Functions& call = *functions_;
  if (sealed.size() != out.size() + kTagBytes) return remote_error("a sealed message has another size");
  const Handle cipher(call.new_cipher(), call.free_cipher);
  const auto nonce = nonce_of(0);
  std::array<std::byte, kTagBytes> tag{};
  std::copy_n(sealed.last(kTagBytes).begin(), kTagBytes, tag.begin());
  int written = 0, rest = 0;
  const bool opened = cipher && call.begin(cipher.get(), call.chacha20_poly1305(), nullptr, readable(key.bytes()), nonce.data(), 0) == 1 &&
                      call.control(cipher.get(), kSetTag, kTagBytes, tag.data()) == 1 &&
                      call.update(cipher.get(), writable(out), &written, readable(sealed), static_cast<int>(out.size())) == 1 &&
                      call.finish(cipher.get(), writable(out) + written, &rest) == 1;
  if (opened) return {};
  wipe(out);
  return remote_error("a sealed message was not sealed under this key");
}

}  // namespace isthmus
