// SPDX-License-Identifier: Apache-2.0
// linkemu's words: what is written comes to the links and queues that are meant, and mistakes are told with what would be right. And
// where frames go.
#include "linkemu/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "linkemu/forwarding.h"

namespace linkemu {
namespace {

using isthmus::kMillisecondNs;
using isthmus::kSecondNs;
using testing::HasSubstr;

Network network_of(std::vector<std::string> sites, std::vector<std::string> cuts = {}) {
  auto network = Network::make(std::move(sites), cuts, 1);
  EXPECT_TRUE(network.ok()) << network.status().text();
  return std::move(*network);
}

void tell(Network& network, std::string_view line) {
  const auto command = network.parse(line);
  ASSERT_TRUE(command.ok()) << command.status().text();
  network.apply(std::get<Change>(command->what), 0);
}

nlohmann::json report_of(const Network& network) { return nlohmann::json::parse(network.report()); }

TEST(LinkemuNetwork, ChangesComeToTheLinksThatAreMeant) {
  Network network = network_of({"a", "b", "c"}, {"sea=a->b,c->b"});
  tell(network, "delay * 10ms");
  tell(network, "delay a->b 20ms");
  tell(network, "jitter b<->c 1ms");
  tell(network, "loss *->c 0.1%");
  tell(network, "rate out:* 200Mbit");
  tell(network, "rate in:b 1G");
  tell(network, "rate a->c 64k");
  tell(network, "rate sea 5M");
  tell(network, "queue sea 1M");
  const auto report = report_of(network);
  const auto& links = report["links"];
  const auto& queues = report["queues"];
  EXPECT_EQ(links["a->b"]["delay_ns"], 20 * kMillisecondNs);
  EXPECT_EQ(links["b->a"]["delay_ns"], 10 * kMillisecondNs);
  EXPECT_EQ(links["b->c"]["jitter_ns"], kMillisecondNs);
  EXPECT_EQ(links["c->b"]["jitter_ns"], kMillisecondNs);
  EXPECT_EQ(links["a->c"]["jitter_ns"], 0);
  EXPECT_EQ(links["b->c"]["loss"], 0.001);
  EXPECT_EQ(links["c->b"]["loss"], 0.0);
  EXPECT_EQ(queues["out:c"]["rate_bits_per_s"], 200'000'000);
  EXPECT_EQ(queues["in:b"]["rate_bits_per_s"], 1'000'000'000);
  EXPECT_TRUE(queues["in:a"]["rate_bits_per_s"].is_null());
  EXPECT_EQ(queues["a->c"]["rate_bits_per_s"], 64'000);
  EXPECT_EQ(queues["sea"]["rate_bits_per_s"], 5'000'000);
  EXPECT_EQ(queues["sea"]["limit_bytes"], 1 << 20);
}

/// When the last of ten frames of 1000 B arrives that enter each of the links at 0.
TimeNs last_arrival(Network& network, std::initializer_list<int> links) {
  for (int i = 0; i < 10; ++i) {
    for (const int link : links) network.shaper().offer(link, Frame(1000), 0);
  }
  TimeNs last = 0;
  for (TimeNs at = network.shaper().next_event(); at != isthmus::kNever; at = network.shaper().next_event()) {
    if (!network.shaper().poll(at).empty()) last = at;
  }
  return last;
}

TEST(LinkemuNetwork, LinksShareTheirSitesQueuesAndTheirCuts) {
  const auto arrival = [](std::string_view queue, size_t from, size_t to, size_t other_from, size_t other_to) {
    Network network = network_of({"a", "b", "c"}, {"sea=a->b,c->a"});
    tell(network, "rate " + std::string(queue) + " 8M");
    return last_arrival(network, {network.link(from, to), network.link(other_from, other_to)}) / kMillisecondNs;
  };
  EXPECT_EQ(arrival("out:a", 0, 1, 0, 2), 20);  // 20 frames, a millisecond each
  EXPECT_EQ(arrival("out:a", 0, 1, 1, 0), 10);
  EXPECT_EQ(arrival("in:b", 0, 1, 2, 1), 20);
  EXPECT_EQ(arrival("in:b", 0, 1, 1, 2), 10);
  EXPECT_EQ(arrival("sea", 0, 1, 2, 0), 20);
  EXPECT_EQ(arrival("sea", 1, 2, 2, 1), 0);
  EXPECT_EQ(arrival("a->b", 0, 1, 0, 2), 10);
}

TEST(LinkemuNetwork, TimesAndOrders) {
  const Network network = network_of({"a", "b"});
  const auto script = network.parse_script("# a comment\n\nat 3s: rate a->b 50Mbit\r\n at 500ms: stats\nquit\n");
  ASSERT_TRUE(script.ok()) << script.status().text();
  ASSERT_EQ(script->size(), 3u);
  EXPECT_EQ((*script)[0].after_ns, 3 * kSecondNs);
  EXPECT_EQ(std::get<Change>((*script)[0].what).number, 50'000'000u);
  EXPECT_EQ((*script)[1].after_ns, 500 * kMillisecondNs);
  EXPECT_EQ(std::get<Order>((*script)[1].what), Order::stats);
  EXPECT_EQ((*script)[2].after_ns, 0);
  EXPECT_EQ(std::get<Order>((*script)[2].what), Order::quit);
}

TEST(LinkemuNetwork, MistakesAreToldWithWhatIsRight) {
  const Network network = network_of({"a", "b"});
  const std::pair<const char*, const char*> kMistakes[] = {{"rate a->x 5M", "there are: a b"},
                                                           {"rate a->b fast", "such as 200M"},
                                                           {"rate a->b 0", "such as 200M"},
                                                           {"rat a->b 5M", "rate, queue"},
                                                           {"loss a->b 120%", "from 0 to 1"},
                                                           {"loss a->b nan", "from 0 to 1"},
                                                           {"delay a->b 3 s", "KNOB WHERE"},
                                                           {"delay a->b -3ms", "250ms"},
                                                           {"delay a->b 2h", "an hour"},
                                                           {"at 3s rate a->b 5M", "at TIME:"},
                                                           {"at x: stats", "250ms"},
                                                           {"delay out:a 3ms", "a<->b"},
                                                           {"queue a->b much", "number of bytes"},
                                                           {"a->a", "KNOB WHERE"},
                                                           {"rate a->a 5M", "no link"},
                                                           {"rate out:z 5M", "there are: a b"},
                                                           {"", "KNOB WHERE"}};
  for (const auto& [line, told] : kMistakes) {
    const auto command = network.parse(line);
    ASSERT_FALSE(command.ok()) << line;
    EXPECT_THAT(command.status().text(), HasSubstr(told)) << line;
  }
  EXPECT_THAT(network.parse_script("stats\n\nrate a b c d\n").status().text(), HasSubstr("line 3"));
}

TEST(LinkemuNetwork, SitesAndCutsHaveProperNames) {
  const auto told = [](std::vector<std::string> sites, std::vector<std::string> cuts) {
    const auto network = Network::make(std::move(sites), cuts, 1);
    return network.ok() ? std::string("right") : network.status().text();
  };
  EXPECT_EQ(told({"a", "b"}, {"x=a->b"}), "right");
  EXPECT_THAT(told({"a"}, {}), HasSubstr("two sites"));
  EXPECT_THAT(told({"a", "a"}, {}), HasSubstr("named twice"));
  EXPECT_THAT(told({"a", "b->c"}, {}), HasSubstr("'b->c'"));
  EXPECT_THAT(told({"a", "b"}, {"x=a->b", "x=b->a"}), HasSubstr("named twice"));
  EXPECT_THAT(told({"a", "b"}, {"x"}), HasSubstr("NAME=LINKS"));
  EXPECT_THAT(told({"a", "b"}, {"x=a->c"}), HasSubstr("there are: a b"));
}

std::vector<std::byte> frame(uint8_t to, uint8_t from) {
  std::vector<std::byte> bytes(60);
  bytes[0] = std::byte{to == 0xff ? uint8_t{0xff} : uint8_t{2}};
  bytes[5] = std::byte{to};
  bytes[6] = std::byte{2};
  bytes[11] = std::byte{from};
  return bytes;
}

TEST(LinkemuForwarding, LearnsWhereAddressesAre) {
  Forwarding forwarding;
  EXPECT_EQ(forwarding.route(0, frame(9, 1)), std::nullopt);  // not known yet
  EXPECT_EQ(forwarding.route(2, frame(1, 9)), 0u);
  EXPECT_EQ(forwarding.route(0, frame(9, 1)), 2u);
  EXPECT_EQ(forwarding.route(0, frame(0xff, 1)), std::nullopt);  // to everybody
  EXPECT_EQ(forwarding.route(1, frame(9, 1)), 2u);               // moved
  EXPECT_EQ(forwarding.route(2, frame(1, 9)), 1u);
}

}  // namespace
}  // namespace linkemu
