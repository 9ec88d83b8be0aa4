// SPDX-License-Identifier: Apache-2.0
// A rendezvous in virtual time over a network in memory: one root, some members, one clock. For bootstrap_rendezvous_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "memory_network.h"

namespace isthmus::bootstrap {

inline const Crypto& crypto() { return *Crypto::load().value(); }

inline transport::ProcessId process_of(int number) {
  transport::ProcessId process{};
  process[0] = static_cast<uint8_t>(number);
  process[15] = 1;
  return process;
}

inline std::vector<std::byte> blob_of(int32_t rank) {
  std::vector<std::byte> blob(static_cast<size_t>(10 + rank), std::byte{static_cast<uint8_t>(rank)});
  return blob;
}

/// A root and some members on one network and one clock.
struct Job {
  testing::MemoryNetwork network;
  std::string log_text;
  Logger log{{.level = LogLevel::info, .subsystems = ~0u, .sink = [this](std::string_view lines) { log_text += lines; }}};
  TimeNs now = 1000 * kSecondNs;
  const Crypto* proof = &crypto();
  UniqueId id = fresh_id(random_bytes).value();
  std::unique_ptr<Root> root;
  std::vector<std::unique_ptr<Member>> members;
  Status root_failure;
  std::vector<Status> failures;
  std::vector<bool> done;
  bool root_done = false;

  Surroundings surroundings(int process) { return {.network = network, .crypto = *proof, .log = log, .process = process_of(process)}; }

  void open_root(int process = 0, std::vector<transport::Address> at = {testing::address_of(1, 0)}, TimeNs timeout_ns = 30 * kSecondNs) {
    auto opened = Root::open(surroundings(process), {.timeout_ns = timeout_ns}, id, at);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    root = std::move(*opened);
    id = root->id();
  }

  void add(int32_t rank, int32_t ranks, int process = -1, TimeNs timeout_ns = 30 * kSecondNs) {
    auto member = Member::start(surroundings(process < 0 ? rank : process), id,
                                {.rank = rank, .ranks = ranks, .blob = blob_of(rank), .timeout_ns = timeout_ns}, now);
    ASSERT_TRUE(member.ok()) << member.status().text();
    members.push_back(std::move(*member));
    failures.emplace_back();
    done.push_back(false);
  }

  void poll() {
    if (root && !root_done && root_failure.ok()) {
      auto result = root->poll(now);
      if (!result.ok()) root_failure = result.status();
      root_done = result.ok() && *result;
    }
    for (size_t i = 0; i < members.size(); ++i) {
      if (!members[i] || !failures[i].ok() || done[i]) continue;
      auto result = members[i]->poll(now);
      if (!result.ok()) failures[i] = result.status();
      done[i] = result.ok() && *result;
    }
  }

  [[nodiscard]] bool all_done() const { return std::count(done.begin(), done.end(), true) == static_cast<ptrdiff_t>(done.size()); }

  /// Until `finished` or so much time has passed; true if finished.
  bool run(TimeNs duration, const std::function<bool()>& finished) {
    for (const TimeNs end = now + duration; now < end; now += 10 * kMillisecondNs) {
      poll();
      if (finished()) return true;
    }
    return false;
  }
  bool form(TimeNs duration = 5 * kSecondNs) {
    return run(duration, [this] { return root_done && all_done(); });
  }
  void pass(TimeNs duration) {
    run(duration, [] { return false; });
  }

  std::unique_ptr<transport::Stream> knock() { return network.connect(id.roots[0], {}).value(); }
  /// A proven connection of a made-up process, for saying strange things.
  Link intrude(int32_t rank, int32_t ranks, int process) {
    const wire::Hello hello{.communicator = rendezvous_number(id), .rank = rank, .ranks = ranks, .process = process_of(process)};
    auto handshake = wire::Handshake::initiate(*proof, hello, rendezvous_key(*proof, id), {std::byte{7}});
    auto stream = knock();
    while (true) {
      auto proven = advance(handshake, *stream);
      EXPECT_TRUE(proven.ok()) << proven.status().text();
      if (!proven.ok() || *proven) break;
      poll();
    }
    return {std::move(stream), 1 << 20};
  }
  [[nodiscard]] size_t connections_kept() const {
    return static_cast<size_t>(
        std::count_if(network.pipes.begin(), network.pipes.end(), [](const auto& pipe) { return !pipe->closed[0] && !pipe->closed[1]; }));
  }
};

}  // namespace isthmus::bootstrap
