// SPDX-License-Identifier: Apache-2.0
// unique_id.h and comm_id.h: layout, damage, derived keys, secret files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "bootstrap/comm_id.h"
#include "bootstrap/unique_id.h"

namespace isthmus::bootstrap {
namespace {

using ::testing::HasSubstr;

const Crypto& crypto() { return *Crypto::load().value(); }

UniqueId example() {
  UniqueId id = fresh_id(random_bytes).value();
  id.roots[0] = transport::parse_address("10.1.2.3:4000").value();
  id.roots[1] = transport::parse_address("[fe80::1%7]:65535").value();
  return id;
}

/// A folder of this test's own, removed with everything directly in it.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "/isthmus_id_XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { EXPECT_EQ(std::system(("rm -rf '" + path_ + "'").c_str()), 0); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name, const std::string& content, mode_t mode) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path) << content;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

 private:
  std::string path_;
};

TEST(UniqueId, RoundTripsAndIsPacked) {
  const UniqueId id = example();
  const PackedId bytes = pack(id);
  auto back = unpack(bytes);
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(*back, id);
  for (size_t i = 125; i < 128; ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

TEST(UniqueId, ForeignAndDamagedOnesAreRefused) {
  PackedId zeros{};
  EXPECT_THAT(unpack(zeros).status().text(), HasSubstr("not made by Isthmus"));
  for (const size_t at : {size_t{0}, size_t{7}, size_t{127}}) {
    PackedId bytes = pack(example());
    bytes[at] ^= std::byte{1};
    EXPECT_EQ(unpack(bytes).status().code(), Code::invalid_argument) << at;
  }
  PackedId family = pack(example());
  family[8 + 16 + 32 + 22] = std::byte{5};
  EXPECT_THAT(unpack(family).status().text(), HasSubstr("damaged"));
  EXPECT_THAT(unpack(pack(fresh_id(random_bytes).value())).status().text(), HasSubstr("damaged")) << "no root";
}

TEST(UniqueId, EverythingDerivedDiffers) {
  const UniqueId a = example(), b = example();
  EXPECT_NE(rendezvous_number(a), rendezvous_number(b));
  const Session one{std::byte{1}}, two{std::byte{2}};
  EXPECT_NE(communicator_number(one), communicator_number(two));
  const std::set<Key> keys = {rendezvous_key(crypto(), a),
                              rendezvous_key(crypto(), b),
                              session_key(crypto(), a.secret, one, "data"),
                              session_key(crypto(), a.secret, one, "control"),
                              session_key(crypto(), a.secret, two, "data"),
                              session_key(crypto(), b.secret, one, "data")};
  EXPECT_EQ(keys.size(), 6u);
}

TEST(CommId, AddressesAndNonce) {
  Settings settings;
  settings.auth = "none";
  settings.comm_id = "10.0.0.1:4000";
  const UniqueId id = id_from_comm_id(settings, crypto(), random_bytes).value();
  EXPECT_EQ(transport::to_string(id.roots[0]), "10.0.0.1:4000");
  EXPECT_EQ(id.roots[1].family, 0);
  EXPECT_EQ(id_from_comm_id(settings, crypto(), random_bytes).value(), id) << "every rank makes the same";
  settings.comm_id = "10.0.0.1:4001";
  EXPECT_NE(rendezvous_number(id_from_comm_id(settings, crypto(), random_bytes).value()), rendezvous_number(id));

  settings.comm_id = "localhost:4000";
  settings.socket_family = "AF_INET";
  EXPECT_EQ(transport::to_string(id_from_comm_id(settings, crypto(), random_bytes).value().roots[0]), "127.0.0.1:4000");
  for (const char* bad : {"localhost", "localhost:", "localhost:0", "localhost:99999", ":", ""}) {
    settings.comm_id = bad;
    EXPECT_EQ(id_from_comm_id(settings, crypto(), random_bytes).status().code(), Code::invalid_argument) << bad;
  }
}

TEST(CommId, OtherHostsNeedASecretFile) {
  Settings settings;
  settings.comm_id = "10.0.0.1:4000";
  EXPECT_THAT(id_from_comm_id(settings, crypto(), random_bytes).status().text(), HasSubstr("ISTHMUS_SECRET_FILE"));
  const Folder folder;
  settings.secret_file = folder.file("secret", "0123456789abcdef", 0600);
  auto id = id_from_comm_id(settings, crypto(), random_bytes);
  ASSERT_TRUE(id.ok()) << id.status().text();
  settings.secret_file = folder.file("other", "0123456789abcdeF", 0400);
  EXPECT_NE(id_from_comm_id(settings, crypto(), random_bytes)->secret, id->secret);
}

TEST(CommId, SecretFilesOpenToOthersAreRefused) {
  const Folder folder;
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    EXPECT_THAT(read_secret_file(folder.file("open", "0123456789abcdef", mode), crypto()).status().text(), HasSubstr("chmod"));
  }
  EXPECT_THAT(read_secret_file(folder.file("short", "0123456789abcde", 0600), crypto()).status().text(), HasSubstr("16 to 4096"));
  EXPECT_FALSE(read_secret_file(folder.file("long", std::string(4097, 'x'), 0600), crypto()).ok());
  EXPECT_FALSE(read_secret_file(folder.path(), crypto()).ok()) << "a folder";
  EXPECT_THAT(read_secret_file(folder.path() + "/missing", crypto()).status().text(), HasSubstr("/missing"));
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(read_secret_file(pipe, crypto()).ok()) << "and does not hang";
  if (geteuid() == 0) {
    const std::string foreign = folder.file("foreign", "0123456789abcdef", 0600);
    ASSERT_EQ(chown(foreign.c_str(), 12345, 12345), 0);
    EXPECT_THAT(read_secret_file(foreign, crypto()).status().text(), HasSubstr("12345"));
  }
}

TEST(CommId, LoopbackMakesItsOwnSecretOnce) {
  const Folder folder;
  Settings settings;
  settings.comm_id = "127.0.0.1:4000";
  settings.runtime_dir = folder.path();
  const Key first = id_from_comm_id(settings, crypto(), random_bytes).value().secret;
  EXPECT_NE(first, Key{});
  EXPECT_EQ(id_from_comm_id(settings, crypto(), random_bytes).value().secret, first);
  struct stat facts {};
  ASSERT_EQ(stat((folder.path() + "/isthmus.secret").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  settings.comm_id = "[::1]:4000";
  EXPECT_EQ(id_from_comm_id(settings, crypto(), random_bytes).value().secret, first);
}

TEST(CommId, RanksThatStartTogetherAgreeOnOneSecret) {
  const Folder folder;
  Settings settings;
  settings.comm_id = "127.0.0.1:4000";
  settings.temp_dir = folder.path();  // no runtime folder: a folder is made, too
  std::vector<Key> keys(8);
  std::vector<std::thread> ranks;
  for (Key& key : keys) ranks.emplace_back([&key, &settings] { key = id_from_comm_id(settings, crypto(), random_bytes).value().secret; });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(std::set<Key>(keys.begin(), keys.end()).size(), 1u);
  struct stat facts {};
  ASSERT_EQ(stat((folder.path() + "/isthmus-" + std::to_string(geteuid())).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST(CommId, DefaultFoldersOfOthersAreNotTrusted) {
  const Folder folder;
  Settings settings;
  settings.comm_id = "127.0.0.1:4000";
  settings.temp_dir = folder.path();
  const std::string made = folder.path() + "/isthmus-" + std::to_string(geteuid());
  ASSERT_EQ(mkdir(made.c_str(), 0700), 0);
  ASSERT_EQ(chmod(made.c_str(), 0777), 0);
  EXPECT_THAT(id_from_comm_id(settings, crypto(), random_bytes).status().text(), HasSubstr("open to other users"));
  ASSERT_EQ(rmdir(made.c_str()), 0);
  ASSERT_EQ(symlink("/tmp", made.c_str()), 0);
  EXPECT_FALSE(id_from_comm_id(settings, crypto(), random_bytes).ok()) << "a link";
}

}  // namespace
}  // namespace isthmus::bootstrap
