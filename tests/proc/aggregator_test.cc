// SPDX-License-Identifier: Apache-2.0
// `isthmus aggregate` and the C calls with real processes: ranks that are killed, stopped, started again, besieged; the end. Usage:
// test_aggregator ISTHMUS.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "isthmus.h"
#include "tests/patience.h"
#include "tests/proc/aggregate_server.h"

namespace {

using namespace isthmus::proc;
using isthmus::Fd;
using isthmus::kPatience;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AggregateTool, AllRanksGetTheSameAndRightSums) {
  Server server(4, {"--rounds", "3"});
  std::vector<std::unique_ptr<Job>> ranks;
  ranks.reserve(4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::make_unique<Job>(server.rank(rank, {"--count", "600000", "--rounds", "3"})));
  }
  std::map<uint64_t, std::set<std::string>> results;
  for (auto& rank : ranks) {
    const Ended ended = rank->finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    collect(ended, results);
  }
  ASSERT_EQ(results.size(), 3U);
  for (const auto& [round, hashes] : results) EXPECT_EQ(hashes.size(), 1U) << "round " << round;
  const Ended ended = server.job().finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  const std::vector<json> lines = lines_of(ended.output);
  ASSERT_EQ(lines.size(), 5U) << ended.output;
  EXPECT_EQ(lines[3]["round"], 3);
  EXPECT_EQ(lines[3]["contributors"], json({0, 1, 2, 3}));
  EXPECT_EQ(lines[4]["end"]["rounds"], 3);
  EXPECT_EQ(lines[4]["end"]["connections"]["left"], 4);
  EXPECT_EQ(lines[4]["end"]["connections"]["lost"], 0);
}

/// One of four is killed while rounds go on with a quorum of three, and started again.
TEST(AggregateTool, ARankThatIsKilledIsDoneWithoutUntilItComesBack) {
  Server server(4, {"--quorum", "3", "--deadline", "300ms"});
  std::vector<std::unique_ptr<Job>> ranks;
  ranks.reserve(4);
  const Words usual = {"--count", "200000", "--rounds", "60", "--delay", "10ms"};
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(std::make_unique<Job>(server.rank(rank, usual)));
  Job victim(server.rank(3, plus(usual, {"--rounds", "1000"})));
  ASSERT_TRUE(victim.wait_for("\"round\":5,"));
  kill(victim.pid(), SIGKILL);
  std::map<uint64_t, std::set<std::string>> results;
  collect(victim.finish(), results);
  ASSERT_TRUE(ranks[0]->wait_for("\"contributors\":[0,1,2],"));
  Job again(server.rank(3, {"--count", "200000", "--rounds", "5"}));
  const Ended back = again.finish();
  EXPECT_EQ(back.exit_code, 0) << back.output;
  collect(back, results);
  EXPECT_THAT(back.output, HasSubstr("\"contributors\":[0,1,2,3],"));
  for (auto& rank : ranks) {
    const Ended ended = rank->finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    collect(ended, results);
    EXPECT_EQ(lines_of(ended.output).size(), 60U);
  }
  for (const auto& [round, hashes] : results) EXPECT_EQ(hashes.size(), 1U) << "round " << round;
  kill(server.job().pid(), SIGTERM);
  const Ended ended = server.job().finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(lines_of(ended.output).back()["end"]["connections"]["lost"], 1);
}

/// A rank that is stopped for a while comes late, and has what the others have.
TEST(AggregateTool, AStoppedRankGetsTheRoundItMissed) {
  Server server(3, {"--quorum", "2", "--deadline", "200ms", "--rounds", "4"});
  Job first(server.rank(0, {"--count", "100000", "--rounds", "4"}));
  Job second(server.rank(1, {"--count", "100000", "--rounds", "4"}));
  Job slow(server.rank(2, {"--count", "100000", "--rounds", "4", "--delay", "50ms"}));
  ASSERT_TRUE(slow.wait_for("\"round\":1,"));
  kill(slow.pid(), SIGSTOP);
  ASSERT_TRUE(first.wait_for("\"round\":3,"));
  kill(slow.pid(), SIGCONT);
  std::map<uint64_t, std::set<std::string>> results;
  bool was_late = false;
  for (Job* each : {&first, &second, &slow}) {
    const Ended ended = each->finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    collect(ended, results);
    if (each == &slow) was_late = ended.output.find("\"late\":true") != std::string::npos;
  }
  EXPECT_TRUE(was_late);
  for (const auto& [round, hashes] : results) EXPECT_EQ(hashes.size(), 1U) << "round " << round;
  EXPECT_EQ(server.job().finish().exit_code, 0);
}

TEST(AggregateTool, WithoutAQuorumAllAreTold) {
  Server server(3, {"--deadline", "100ms", "--limit", "500ms", "--rounds", "1"});
  Job first(server.rank(0, {"--count", "1000"})), second(server.rank(1, {"--count", "1000"}));
  for (Job* each : {&first, &second}) {
    const Ended ended = each->finish();
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.output, HasSubstr("2 of 3 ranks came within 500 ms, and the quorum is 3; missing: rank 2 (never connected)"));
  }
  EXPECT_EQ(server.job().finish().exit_code, 1);
}

TEST(AggregateTool, InterruptingEndsItAndTellsTheRanks) {
  Server server(2);
  Job rank(server.rank(0, {"--count", "1000"}));
  usleep(300'000);
  kill(server.job().pid(), SIGINT);
  const Ended told = rank.finish();
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.output, HasSubstr("the aggregator was stopped: Interrupt"));
  const Ended ended = server.job().finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_LT(ended.seconds, 10 * kPatience);
}

/// A rank that wants more rounds than there are is told once.
TEST(AggregateTool, ARankEndsWhenTheAggregatorHas) {
  Server server(1, {"--rounds", "2"});
  const Ended ended = run_program(server.rank(0, {"--count", "1000", "--rounds", "1000"}));
  EXPECT_EQ(ended.exit_code, 1);
  const std::vector<json> lines = lines_of(ended.output);
  ASSERT_EQ(lines.size(), 3U) << ended.output;
  EXPECT_EQ(lines[2]["failure"], "the aggregator has ended after its 2 rounds");
  EXPECT_EQ(server.job().finish().exit_code, 0);
}

TEST(AggregateTool, AKilledAggregatorIsNoticed) {
  Server server(2);
  Job rank(server.rank(0, {"--count", "1000", "--rounds", "3"}));
  usleep(300'000);
  kill(server.job().pid(), SIGKILL);
  const Ended told = rank.finish();
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.output, HasSubstr("the aggregator at 127.0.0.1:"));
  EXPECT_LT(told.seconds, 10 * kPatience);
  server.job().finish();
}

/// Scans, rubbish, silence and wrong secrets while rounds go on.
TEST(AggregateTool, StrangersDoNotDisturbRounds) {
  Server server(2, {"--rounds", "30"});
  Job first(server.rank(0, {"--count", "100000", "--rounds", "30", "--delay", "50ms"}));
  Job second(server.rank(1, {"--count", "100000", "--rounds", "30"}));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(std::stoi(server.address().substr(server.address().find(':') + 1))));
  std::mt19937 dice(3);
  std::vector<Fd> held;
  for (int knock = 0; knock < 300; ++knock, usleep(1000)) {
    Fd fd(socket(AF_INET, SOCK_STREAM, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
      ASSERT_GT(knock, 100) << "the rounds are over already";
      break;
    }
    std::string words(knock % 3 == 0 ? 0 : dice() % 300, '\0');
    for (char& each : words) each = static_cast<char>(dice());
    if (knock % 3 == 1) words = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    if (!words.empty()) {
      ASSERT_GT(send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
    }
    if (knock % 4 == 0) held.push_back(std::move(fd));
  }
  Words stranger = server.rank(1, {"--count", "10", "--reach", "500ms"});
  *std::find(stranger.begin(), stranger.end(), g_secret) = g_wrong_secret;
  const Ended refused = run_program(stranger);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("could not reach the aggregator"));
  std::map<uint64_t, std::set<std::string>> results;
  for (Job* each : {&first, &second}) {
    const Ended ended = each->finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    collect(ended, results);
  }
  for (const auto& [round, hashes] : results) EXPECT_EQ(hashes.size(), 1U) << "round " << round;
  const Ended ended = server.job().finish();
  EXPECT_EQ(ended.exit_code, 0);
  const json end = lines_of(ended.output).back()["end"];
  EXPECT_EQ(end["failed"], 0);
  EXPECT_GT(end["connections"]["refused"], 50);
}

TEST(AggregateTool, RanksThatDoNotFitAreRefusedWithTheReason) {
  Server server(2, {"--codec", "thc:b=4"});
  Words other = server.rank(0);
  *(std::find(other.begin(), other.end(), "--ranks") + 1) = "3";
  const Ended misfit = run_program(other);
  EXPECT_EQ(misfit.exit_code, 1);
  EXPECT_THAT(misfit.output, HasSubstr("rank 0 was told that there are 3 ranks, but the aggregator serves 2"));
  const Ended codec = run_program(server.rank(0, {"--codec", "thc:b=8"}));
  EXPECT_EQ(codec.exit_code, 1);
  EXPECT_THAT(codec.output, AllOf(HasSubstr("would encode with 'thc:b=8"), HasSubstr("but the aggregator adds 'thc:")));
  for (const char* much : {"100G", "16777215T"}) {
    const Ended large = run_program(server.rank(0, {"--count", much, "--no-check"}));
    EXPECT_EQ(large.exit_code, 2) << large.output;
    EXPECT_THAT(large.output, HasSubstr("elements: this aggregator has memory for"));
  }
  kill(server.job().pid(), SIGTERM);
  server.job().finish();
}

TEST(AggregateTool, MistakesOnTheCommandLine) {
  const auto tool = [](const Words& words) { return run_program(plus({g_isthmus, "aggregate"}, words)); };
  struct Case {
    Words words;
    std::string said;
  };
  for (const Case& one :
       {Case{{"--ranks", "2"}, "--listen"},
        Case{{"--listen", "127.0.0.1:0"}, "--ranks"},
        Case{{"--listen", "127.0.0.1:0", "--connect", "127.0.0.1:1", "--ranks", "2"}, "excludes"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--count", "5"}, "--count is for --connect"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--quorum", "1"}, "--quorum is for --listen"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--clip", "1"}, "--clip is for --masked"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "3", "--cohort", "--min-cohort", "3"}, "--min-cohort is for --masked"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--epoch", "1"}, "--epoch is for --cohort and --masked"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--weight", "2"}, "--weight is for --cohort and --masked"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--cohort", "--limit", "9s"}, "--limit is for sums without a cohort"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--cohort", "--epoch", "-1"}, "--epoch: -1: a whole number"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "4", "--masked", "--clip", "nan"}, "--clip: nan: a number"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2"}, "--rank"},
        Case{{"--listen", "nowhere", "--ranks", "2"}, "host:port"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--quorum", "3"}, "a quorum of 3 is more than the 2 ranks"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--deadline", "soon"}, "--deadline soon"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--codec", "thc:b=5"}, "an index has 2, 3, 4 or 8 bits"},
        Case{{"--listen", "127.0.0.1:0", "--ranks", "2", "--memory", "1K"}, "not enough for one chunk"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "2"}, "rank 2 of 2 ranks"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--rounds", "0"}, "not in range 1 to 1000000000"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--count", "all"}, "--count all: a number is accepted"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--codec", "bf16"}, "--codec bf16: 'bf16' does not"},
        Case{{"--connect", "127.0.0.1:1", "--ranks", "2", "--rank", "0", "--type", "int"}, "there are float, half and bfloat16"}}) {
    const Ended ended = tool(plus(one.words, {"--secret-file", g_secret}));
    EXPECT_EQ(ended.exit_code, 2) << one.said << ": " << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(one.said));
  }
  EXPECT_THAT(tool({"--help"}).output, AllOf(HasSubstr("--quorum"), HasSubstr("--delay"), HasSubstr("Examples:")));
  const Ended open = tool({"--listen", "0.0.0.0:0", "--ranks", "2", "--secret-file", "/nonexistent"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.output, HasSubstr("/nonexistent"));
}

// --- the C calls -----------------------------------------------------------------------------------------------------------------

/// Runs `body` in a process of its own, which has not used the library before; its exit code.
template <typename Body>
pid_t in_child(const Body& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  _exit(body() ? 0 : 1);
}

bool exits_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  return false;
}

/// `address` must outlive the configuration.
isthmusAggregatorConfig_t config_for(const char* address, int rank, int ranks) {
  isthmusAggregatorConfig_t config = ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER;
  config.address = address;
  config.rank = rank;
  config.ranks = ranks;
  config.secretFile = g_secret.c_str();
  config.connectTimeoutMs = 10'000;
  return config;
}

constexpr size_t kCount = 300'000;

std::vector<float> vector_of(int rank) {
  std::mt19937 dice(static_cast<unsigned>(rank));
  std::normal_distribution<float> normal;
  std::vector<float> vector(kCount);
  for (float& value : vector) value = normal(dice);
  return vector;
}

/// Whether the sum or average of ranks 0 to n - 1 is about right.
bool about_right(const std::vector<float>& result, int ranks, bool average) {
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> one = vector_of(rank);
    for (size_t i = 0; i < kCount; ++i) exact[i] += double{one[i]} / (average ? ranks : 1);
  }
  double error = 0, energy = 0;
  for (size_t i = 0; i < kCount; ++i) {
    error += (double{result[i]} - exact[i]) * (double{result[i]} - exact[i]);
    energy += exact[i] * exact[i];
  }
  return error < 0.05 * energy;
}

TEST(AggregatorCalls, SumInPlaceAndApart) {
  Server server(3, {"--rounds", "2"});
  std::vector<pid_t> children;
  children.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(in_child([&] {
      const isthmusAggregatorConfig_t config = config_for(server.address().c_str(), rank, 3);
      isthmusAggregator_t aggregator = nullptr;
      if (isthmusAggregatorConnect(&aggregator, &config) != ncclSuccess) return fail("connect");
      const std::vector<float> mine = vector_of(rank);
      std::vector<float> sum(kCount), in_place = mine;
      isthmusAggregateResult_t result = ISTHMUS_AGGREGATE_RESULT_INITIALIZER;
      if (isthmusAggregatorSum(aggregator, mine.data(), sum.data(), kCount, ncclFloat32, ncclSum, &result) != ncclSuccess)
        return fail("sum");
      if (result.round != 1 || result.contributors != 3 || result.late != 0 || result.lateRanks != 0 || result.ranks[0] != 7) return false;
      if (result.sentBytes < kCount / 2 || result.receivedBytes < kCount) return false;
      if (isthmusAggregatorSum(aggregator, in_place.data(), in_place.data(), kCount, ncclFloat32, ncclAvg, nullptr) != ncclSuccess) {
        return fail("average");
      }
      if (isthmusAggregatorClose(aggregator) != ncclSuccess) return fail("close");
      return about_right(sum, 3, false) && about_right(in_place, 3, true);
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(exits_well(child));
  EXPECT_EQ(server.job().finish().exit_code, 0);
}

TEST(AggregatorCalls, WrongArgumentsAreRefusedAndLeaveEverythingAsItWas) {
  Server server(1);
  EXPECT_TRUE(exits_well(in_child([&] {
    const auto refuses = [](ncclResult_t result, const char* words) {
      const std::string said = ncclGetLastError(nullptr);
      if (result == ncclInvalidArgument && said.find(words) != std::string::npos) return true;
      std::fprintf(stderr, "%d \"%s\" instead of \"%s\"\n", result, said.c_str(), words);
      return false;
    };
    isthmusAggregator_t aggregator = nullptr;
    isthmusAggregatorConfig_t config = ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER;
    bool good = refuses(isthmusAggregatorConnect(nullptr, &config), "NULL");
    good &= refuses(isthmusAggregatorConnect(&aggregator, nullptr), "ISTHMUS_AGGREGATOR_CONFIG_INITIALIZER");
    good &= refuses(isthmusAggregatorConnect(&aggregator, &config), "address is NULL");
    config = config_for(server.address().c_str(), 1, 1);
    good &= refuses(isthmusAggregatorConnect(&aggregator, &config), "rank 1 of 1 ranks");
    config = config_for("nowhere", 0, 1);
    good &= refuses(isthmusAggregatorConnect(&aggregator, &config), "host:port");
    config = config_for(server.address().c_str(), 0, 1);
    config.codec = "zip";
    good &= refuses(isthmusAggregatorConnect(&aggregator, &config), "does not begin with thc");
    config.codec = nullptr;
    good &= refuses(isthmusAggregatorSum(nullptr, nullptr, nullptr, 0, ncclFloat32, ncclSum, nullptr), "not a handle");
    good &= refuses(isthmusAggregatorClose(reinterpret_cast<isthmusAggregator_t>(&config)), "not a handle");
    if (isthmusAggregatorConnect(&aggregator, &config) != ncclSuccess) return fail("connect");
    std::vector<float> data(100);
    good &= refuses(isthmusAggregatorSum(aggregator, data.data(), data.data(), 100, ncclInt32, ncclSum, nullptr), "type int32");
    good &= refuses(isthmusAggregatorSum(aggregator, data.data(), data.data(), 100, static_cast<ncclDataType_t>(77), ncclSum, nullptr),
                    "77 is not a data type");
    good &= refuses(isthmusAggregatorSum(aggregator, data.data(), data.data(), 100, ncclFloat32, ncclMax, nullptr), "operator max");
    good &= refuses(isthmusAggregatorSum(aggregator, nullptr, data.data(), 100, ncclFloat32, ncclSum, nullptr), "NULL");
    good &= refuses(isthmusAggregatorSum(aggregator, data.data(), data.data() + 1, 99, ncclFloat32, ncclSum, nullptr), "overlap");
    isthmusAggregateResult_t result = {};
    good &= refuses(isthmusAggregatorSum(aggregator, data.data(), data.data(), 100, ncclFloat32, ncclSum, &result),
                    "ISTHMUS_AGGREGATE_RESULT_INITIALIZER");
    if (isthmusAggregatorSum(aggregator, data.data(), data.data(), 100, ncclFloat32, ncclSum, nullptr) != ncclSuccess) return fail("sum");
    if (isthmusAggregatorClose(aggregator) != ncclSuccess) return fail("close");
    good &= refuses(isthmusAggregatorClose(aggregator), "closed already");
    return good;
  })));
  kill(server.job().pid(), SIGTERM);
  server.job().finish();
}

TEST(AggregatorCalls, FailuresSayWhatAndTheNextCallConnectsAgain) {
  Server server(2, {"--quorum", "1", "--deadline", "50ms"});
  EXPECT_TRUE(exits_well(in_child([&] {
    isthmusAggregatorConfig_t config = config_for("127.0.0.1:1", 0, 2);
    config.connectTimeoutMs = 200;
    isthmusAggregator_t aggregator = nullptr;
    if (isthmusAggregatorConnect(&aggregator, &config) != ncclRemoteError) return fail("nobody there");
    if (std::strstr(ncclGetLastError(nullptr), "could not reach the aggregator within 200 ms") == nullptr) return fail("the reason");
    config = config_for(server.address().c_str(), 0, 2);
    if (isthmusAggregatorConnect(&aggregator, &config) != ncclSuccess) return fail("connect");
    isthmusAggregator_t twin = nullptr;
    if (isthmusAggregatorConnect(&twin, &config) != ncclInvalidUsage) return fail("taken");
    if (std::strstr(ncclGetLastError(nullptr), "rank 0 is taken by another process") == nullptr) return fail("the reason");
    std::vector<float> data(1000, 1.0F);
    isthmusAggregateResult_t result = ISTHMUS_AGGREGATE_RESULT_INITIALIZER;
    if (isthmusAggregatorSum(aggregator, data.data(), data.data(), 1000, ncclFloat32, ncclSum, &result) != ncclSuccess) return fail("sum");
    if (result.contributors != 1 || result.ranks[0] != 1) return false;
    isthmusAggregatorClose(aggregator);
    if (isthmusAggregatorConnect(&twin, &config) != ncclSuccess) return fail("free again");
    if (isthmusAggregatorSum(twin, data.data(), data.data(), 1000, ncclFloat32, ncclSum, &result) != ncclSuccess) return fail("sum");
    return result.round == 2 && isthmusAggregatorClose(twin) == ncclSuccess;
  })));
  kill(server.job().pid(), SIGTERM);
  server.job().finish();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  g_isthmus = argv[1];
  std::string folder = (std::filesystem::temp_directory_path() / "isthmus-aggregator-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  for (std::string* each : {&g_secret, &g_wrong_secret}) {
    *each = folder + (each == &g_secret ? "/right" : "/wrong");
    std::ofstream(*each) << "a secret, long enough to be one: " << *each;
    chmod(each->c_str(), 0600);
  }
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  return result;
}
