// SPDX-License-Identifier: Apache-2.0
// The pure parts of `isthmus run`: placement of ranks, agents' commands, frames, the exchange, merged output, orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cli/run/cpus.h"
#include "cli/run/exchange.h"
#include "cli/run/frame.h"
#include "cli/run/hosts.h"
#include "cli/run/node.h"
#include "cli/run/output.h"

namespace isthmus::cli {
namespace {

using ::testing::HasSubstr;

std::string placed(std::string_view hosts, int ranks) {
  const Result<std::vector<Placement>> placements = place_ranks(hosts, ranks);
  if (!placements.ok()) return placements.status().text();
  std::string text;
  for (const Placement& p : *placements) text += p.host + "=" + std::to_string(p.first) + "+" + std::to_string(p.count) + " ";
  return text;
}

TEST(Hosts, RanksAreDividedInBlocks) {
  EXPECT_EQ(placed("", 3), "=0+3 ");
  EXPECT_EQ(placed("a,b", 4), "a=0+2 b=2+2 ");
  EXPECT_EQ(placed("a, b,c", 5), "a=0+2 b=2+2 c=4+1 ");
  EXPECT_EQ(placed("a,b,c", 2), "a=0+1 b=1+1 ");
  EXPECT_EQ(placed("a:1,b:3", 0), "a=0+1 b=1+3 ");
  EXPECT_EQ(placed("a:1,b:3", 4), "a=0+1 b=1+3 ");
}

TEST(Hosts, ContradictionsAreSaid) {
  EXPECT_THAT(placed("", 0), HasSubstr("-n"));
  EXPECT_THAT(placed("a,b", 0), HasSubstr("-n"));
  EXPECT_THAT(placed("a:2,b", 3), HasSubstr("every host or for none"));
  EXPECT_THAT(placed("a:2,b:2", 3), HasSubstr("room for 4"));
  EXPECT_THAT(placed("a:x", 3), HasSubstr("a:x"));
  EXPECT_THAT(placed("a:0", 3), HasSubstr("a:0"));
  EXPECT_THAT(placed(":3", 3), HasSubstr(":3"));
  EXPECT_THAT(placed("", 1 << 20), HasSubstr("-n"));
}

TEST(Hosts, AgentsCommandsNameTheHost) {
  EXPECT_EQ(*agent_command("ssh -q {host}", "node-1.lab"), "ssh -q node-1.lab");
  EXPECT_EQ(*agent_command("nsenter --net=/run/{host} env H={host}", "a"), "nsenter --net=/run/a env H=a");
  EXPECT_FALSE(agent_command("ssh", "a").ok());
  for (const char* name : {"", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a'"})
    EXPECT_FALSE(agent_command("ssh {host}", name).ok()) << name;
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

TEST(Frames, AreReadHoweverTheyArrive) {
  std::string bytes = "Welcome!" + std::string(kNodeHello);
  bytes += encode({.kind = FrameKind::request, .rank = 3, .payload = "block"});
  bytes += encode({.kind = FrameKind::left, .rank = -1, .payload = ""});
  FrameReader reader(kNodeHello);
  std::vector<Frame> frames;
  for (char byte : bytes) {
    reader.feed({&byte, 1});
    Result<std::optional<Frame>> frame = reader.next();
    ASSERT_TRUE(frame.ok());
    if (frame->has_value()) frames.push_back(**frame);
  }
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].kind, FrameKind::request);
  EXPECT_EQ(frames[0].rank, 3);
  EXPECT_EQ(frames[0].payload, "block");
  EXPECT_EQ(frames[1].rank, -1);
  EXPECT_EQ(reader.greeting(), "");
}

TEST(Frames, NonsenseIsRefused) {
  FrameReader reader;
  reader.feed("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_FALSE(reader.next().ok());
  FrameReader long_reader;
  std::string header = encode({.kind = FrameKind::request});
  header[11] = '\x7f';  // a length of two gigabytes
  long_reader.feed(header);
  EXPECT_FALSE(long_reader.next().ok());
  FrameReader silent(kNodeHello);
  silent.feed("Permission denied");
  EXPECT_FALSE((*silent.next()).has_value());
  EXPECT_EQ(silent.greeting(), "Permission denied");
}

/// An answer as a rank reads it: "status:payload".
std::string read_answer(const Exchange::Answer& answer) {
  uint32_t header[2];
  std::memcpy(header, answer.bytes.data(), sizeof header);
  EXPECT_EQ(header[1] + sizeof header, answer.bytes.size());
  return std::to_string(header[0]) + ":" + answer.bytes.substr(sizeof header);
}

TEST(ExchangeService, GathersByRankWhateverTheOrder) {
  Exchange exchange(3);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(exchange.submit(2, "cc").empty());
    EXPECT_TRUE(exchange.submit(0, "aa").empty());
    const auto answers = exchange.submit(1, "bb");
    ASSERT_EQ(answers.size(), 3U);
    for (const auto& answer : answers) EXPECT_EQ(read_answer(answer), "0:aabbcc");
  }
}

TEST(ExchangeService, FailsForThoseWhoWaitWhenOneLeaves) {
  Exchange exchange(3);
  EXPECT_TRUE(exchange.submit(0, "a").empty());
  const auto answers = exchange.leave(1);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].rank, 0);
  EXPECT_THAT(read_answer(answers[0]), HasSubstr("1:rank 1 has left"));
  const auto later = exchange.submit(2, "c");
  ASSERT_EQ(later.size(), 1U);
  EXPECT_THAT(read_answer(later[0]), HasSubstr("rank 1 has left"));
  EXPECT_TRUE(exchange.leave(0).empty());
}

TEST(ExchangeService, DifferentLengthsAreAMistake) {
  Exchange exchange(2);
  EXPECT_TRUE(exchange.submit(0, "a").empty());
  const auto answers = exchange.submit(1, "bb");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_THAT(read_answer(answers[0]), HasSubstr("same program"));
}

TEST(ExchangeService, RequestsArriveInPieces) {
  const uint32_t length = 3;
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  EXPECT_FALSE(take_request(bytes));
  bytes += "ab";
  EXPECT_FALSE(take_request(bytes));
  bytes += "cX";
  EXPECT_EQ(take_request(bytes), "abc");
  EXPECT_EQ(bytes, "X");
}

TEST(Output, TaggedLinesStayWhole) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  OutputMerger merger(true);
  merger.write(file, 0, "be");
  merger.write(file, 1, "one\ntwo\nthr");
  merger.write(file, 0, "gin\n");
  merger.flush();
  std::fclose(file);
  EXPECT_STREQ(text, "[1] one\n[1] two\n[0] begin\n[1] thr\n");
  std::free(text);
}

TEST(NodeOrder, SurvivesItsJson) {
  const NodeOrder order = {.size = 4,
                           .first = 2,
                           .count = 2,
                           .argv = {"p", "a b"},
                           .environment = {"X=\"1\""},
                           .directory = "/d",
                           .capture = true,
                           .bind = false};
  const Result<NodeOrder> back = NodeOrder::from_json(order.to_json());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->argv, order.argv);
  EXPECT_EQ(back->environment, order.environment);
  EXPECT_EQ(back->first, 2);
  EXPECT_TRUE(back->capture);
  EXPECT_FALSE(back->bind);
  for (const char* text : {"", "{", "[]", "{\"size\":1}"}) EXPECT_FALSE(NodeOrder::from_json(text).ok()) << text;
  std::string no_program = order.to_json();
  no_program.replace(no_program.find("[\"p\",\"a b\"]"), 11, "[]");
  EXPECT_FALSE(NodeOrder::from_json(no_program).ok());
}

TEST(Cpus, AreSharedOutEvenlyInWholeCores) {
  std::vector<CpuPlace> cpus;  // two packages of two cores of two threads, numbered as systems do: threads far apart
  cpus.reserve(8);
  for (int cpu = 0; cpu < 8; ++cpu) cpus.push_back({.package = cpu / 2 % 2, .core = cpu % 2, .cpu = cpu});
  EXPECT_EQ(share_cpus(cpus, 2), (std::vector<CpuSet>{{0b00110011}, {0b11001100}}));
  EXPECT_EQ(share_cpus(cpus, 4), (std::vector<CpuSet>{{0b00010001}, {0b00100010}, {0b01000100}, {0b10001000}}));
  EXPECT_EQ(share_cpus(cpus, 8).size(), 8U);
  EXPECT_EQ(share_cpus(cpus, 3).size(), 3U);
  EXPECT_TRUE(share_cpus(cpus, 9).empty()) << "fewer CPUs than ranks";
  EXPECT_TRUE(share_cpus(cpus, 1).empty()) << "nobody to share with";
  EXPECT_EQ(share_cpus({{.cpu = 3}, {.cpu = 130}}, 2), (std::vector<CpuSet>{{0b1000}, {0, 0, 0b100}}));
}

TEST(Cpus, AreFound) {
  const CpuSet own = read_cpu_set();
  const std::vector<CpuPlace> places = read_cpu_places(own);
  ASSERT_FALSE(places.empty());
  CpuSet again(own.size());
  for (const CpuPlace& place : places) again[static_cast<size_t>(place.cpu) / 64] |= uint64_t{1} << place.cpu % 64;
  EXPECT_EQ(again, own);
}

}  // namespace
}  // namespace isthmus::cli
