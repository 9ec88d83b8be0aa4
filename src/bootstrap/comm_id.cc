// SPDX-License-Identifier: Apache-2.0
// comm_id.h. Files are checked through their open descriptor, never by path first; the default secret is linked into place whole, so
// that ranks which start together agree on one.
#include "bootstrap/comm_id.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/text.h"

namespace isthmus::bootstrap {
namespace {

constexpr size_t kMinSecretBytes = 16;
constexpr size_t kMaxSecretBytes = 4096;
constexpr const char* kDefaultName = "isthmus.secret";

using transport::Address;

// --- host:port -------------------------------------------------------------------------------------------------------------------

Address from_sockaddr(const sockaddr* from, uint16_t port) {
  Address address{.port = port};
  if (from->sa_family == AF_INET) {
    address.family = 4;
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(from)->sin_addr, 4);
  } else {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(from);
    address.family = 6;
    address.scope = six->sin6_scope_id;
    std::memcpy(address.bytes.data(), &six->sin6_addr, 16);
  }
  return address;
}

int wanted_family(const Settings& settings) {
  if (settings.socket_family == "AF_INET") return AF_INET;
  return settings.socket_family == "AF_INET6" ? AF_INET6 : AF_UNSPEC;
}

bool is_loopback(const Address& address) {
  if (address.family == 4) return address.bytes[0] == 127;
  constexpr std::array<uint8_t, 16> kLoopback6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.bytes == kLoopback6;
}

// --- the secret ------------------------------------------------------------------------------------------------------------------

Status check_private(int fd, const std::string& path, bool owner_may_be_root) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return errno_error(path, errno);
  if (facts.st_uid != geteuid() && !(owner_may_be_root && facts.st_uid == 0)) {
    return system_error(fmt::format("{} belongs to user {}, not to this one ({})", path, facts.st_uid, geteuid()));
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return system_error(fmt::format("{} is open to other users (mode {:o}): chmod go= {}", path, facts.st_mode & 07777, path));
  }
  return {};
}

Result<Key> read_secret(const Fd& fd, const std::string& path, const Crypto& crypto) {
  ISTHMUS_TRY(check_private(fd.get(), path, true));
  std::vector<std::byte> content(kMaxSecretBytes + 1);
  const ssize_t got = pread(fd.get(), content.data(), content.size(), 0);
  if (got < 0) return errno_error(path, errno);
  content.resize(static_cast<size_t>(got));
  if (content.size() < kMinSecretBytes || content.size() > kMaxSecretBytes) {
    return system_error(fmt::format("{} must hold {} to {} bytes", path, kMinSecretBytes, kMaxSecretBytes));
  }
  Key salt{};
  Writer(salt).bytes(as_bytes("isthmus secret file"));
  return crypto.hmac(salt, content);
}

/// `folder` opened, if it is this user's alone.
Result<Fd> open_private_folder(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return errno_error(folder, errno);
  ISTHMUS_TRY(check_private(fd.get(), folder, false));
  return fd;
}

struct Folder {
  Fd fd;
  std::string path;
};

Result<Folder> default_folder(const Settings& settings) {
  if (!settings.runtime_dir.empty()) {
    if (auto fd = open_private_folder(settings.runtime_dir); fd.ok()) return Folder{std::move(*fd), settings.runtime_dir};
  }
  const std::string path = fmt::format("{}/isthmus-{}", settings.temp_dir, geteuid());
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) return errno_error(path, errno);
  ISTHMUS_ASSIGN(Fd fd, open_private_folder(path));
  return Folder{std::move(fd), path};
}

/// Makes the default secret unless it exists. It appears under its name with all its bytes or not at all.
Status make_secret(const Folder& folder, const RandomSource& random) {
  std::array<std::byte, 32> secret{};
  std::array<std::byte, 8> unique{};
  ISTHMUS_TRY(random(secret));
  ISTHMUS_TRY(random(unique));
  const std::string draft = fmt::format("{}.{}.{:016x}", kDefaultName, getpid(), hash_bytes(unique));
  const Fd fd(openat(folder.fd.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.valid()) return errno_error(folder.path + '/' + draft, errno);
  Status status;
  if (write(fd.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    status = errno_error(folder.path + '/' + draft, errno);
  } else if (linkat(folder.fd.get(), draft.c_str(), folder.fd.get(), kDefaultName, 0) != 0 && errno != EEXIST) {
    status = errno_error(folder.path + '/' + kDefaultName, errno);
  }
  unlinkat(folder.fd.get(), draft.c_str(), 0);
  return status;
}

Result<Key> default_secret(const Settings& settings, const Crypto& crypto, const RandomSource& random) {
  ISTHMUS_ASSIGN(const Folder folder, default_folder(settings));
  const std::string path = folder.path + '/' + kDefaultName;
  for (int attempt = 0;; ++attempt) {
    const Fd fd(openat(folder.fd.get(), kDefaultName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (fd.valid()) return read_secret(fd, path, crypto);
    if (errno != ENOENT || attempt > 0) return errno_error(path, errno);
    ISTHMUS_TRY(make_secret(folder, random));
  }
}

}  // namespace

Result<std::vector<Address>> resolve(const std::string& text, const Settings& settings) {
  if (auto numeric = transport::parse_address(text); numeric.ok()) return std::vector<Address>{*numeric};
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? Result<uint64_t>(uint64_t{0}) : parse_unsigned(text.substr(colon + 1), UINT16_MAX);
  if (!port.ok() || *port == 0) return invalid_argument("host:port is accepted");

  addrinfo hints{};
  hints.ai_family = wanted_family(settings);
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(text.substr(0, colon).c_str(), nullptr, &hints, &found);
  if (error != 0) return invalid_argument(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr && addresses.size() < UniqueId::kRoots; each = each->ai_next) {
    addresses.push_back(from_sockaddr(each->ai_addr, static_cast<uint16_t>(*port)));
  }
  return addresses;
}

Result<Key> common_secret(const Settings& settings, std::span<const Address> addresses, const Crypto& crypto, const RandomSource& random) {
  if (settings.auth == "none") return Key{};
  if (!settings.secret_file.empty()) return read_secret_file(settings.secret_file, crypto);
  if (std::all_of(addresses.begin(), addresses.end(), is_loopback)) return default_secret(settings, crypto, random);
  return system_error(
      "another host than loopback is named, so the ranks need a common secret: put at least 16 random bytes into a file of mode "
      "0600 on every host and name it in ISTHMUS_SECRET_FILE (or set ISTHMUS_AUTH=none where every host is trusted)");
}

Result<UniqueId> id_from_comm_id(const Settings& settings, const Crypto& crypto, const RandomSource& random) {
  const std::string name = "NCCL_COMM_ID=" + settings.comm_id;
  const auto addresses = resolve(settings.comm_id, settings);
  if (!addresses.ok()) return addresses.status().with_context(name);
  const auto secret = common_secret(settings, *addresses, crypto, random);
  if (!secret.ok()) return secret.status().with_context(name);
  UniqueId id;
  id.secret = *secret;
  std::copy(addresses->begin(), addresses->end(), id.roots.begin());
  // Ranks may resolve a name to different addresses, so the nonce, which names the rendezvous, comes from the text.
  Writer(id.nonce).u64(hash_text(settings.comm_id, 1)).u64(hash_text(settings.comm_id, 2));
  return id;
}

Result<Key> read_secret_file(const std::string& path, const Crypto& crypto) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block us; pread refuses it
  if (!fd.valid()) return errno_error(path, errno);
  return read_secret(fd, path, crypto);
}

}  // namespace isthmus::bootstrap
