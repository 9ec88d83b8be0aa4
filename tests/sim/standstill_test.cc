// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other, in virtual time: what can never go on fails soon and names every call, what may still go on is left
// alone, and a warning says what the others are doing.
#include "sim/job.h"

namespace isthmus::sim_test {
namespace {

constexpr size_t kLarge = 200'000;  // floats: more than all the credit there is

class Standstill : public testing::Test {
 protected:
  void start(int32_t ranks, const Settings& settings = {}) {
    job_ = std::make_unique<Job>(3, ranks, settings);
    job_->world.set_default_link({.latency_ns = 5 * kMillisecondNs, .rate_bytes_per_s = 125e6});
    job_->join_all();
    for (int32_t rank = 0; rank < ranks; ++rank) {
      auto& engine = job_->rank(static_cast<size_t>(rank)).process->engine();
      engine.on_warning = [this](const std::string& line) { warnings_.push_back(line); };
    }
    in_.assign(static_cast<size_t>(ranks), std::vector<float>(kLarge, 1));
    out_.assign(static_cast<size_t>(ranks), std::vector<float>(kLarge));
  }
  void allreduce(size_t rank, size_t count = 100) {
    job_->submit(rank, {.collective = Collective::allreduce, .in = in_[rank].data(), .out = out_[rank].data(), .count = count});
  }
  std::unique_ptr<exec::Launch> transfers(size_t rank, std::vector<comm::Request> requests) {
    auto launch = std::make_unique<exec::Launch>();
    for (comm::Request& request : requests) {
      request.collective = Collective::sendrecv;
      request.in = in_[rank].data();
      request.out = out_[rank].data();
    }
    EXPECT_TRUE(job_->rank(rank).communicator->add_transfers(requests, *launch).ok());
    return launch;
  }
  void send_recv(size_t rank, std::vector<comm::Request> requests, bool on_stream = false) {
    auto launch = transfers(rank, std::move(requests));
    if (on_stream) launch->put_on_stream();
    launch->submit(job_->rank(rank).process->engine());
    job_->rank(rank).launch = std::move(launch);
  }
  static comm::Request send(int32_t to, size_t count) { return {.count = count, .root = to, .is_send = true}; }
  static comm::Request recv(int32_t from, size_t count) { return {.count = count, .root = from}; }

  /// All ranks fail within a second, and each text has all `words`.
  void expect_mismatch(const std::vector<std::string>& words) {
    const TimeNs begun = job_->world.now();
    ASSERT_TRUE(job_->run_launches(10 * kSecondNs)) << "it hangs";
    EXPECT_LT(job_->world.now() - begun, kSecondNs);
    for (size_t rank = 0; rank < job_->ranks(); ++rank) {
      const Status status = job_->rank(rank).launch->status();
      EXPECT_EQ(status.code(), Code::invalid_usage) << "rank " << rank << ": " << status.text();
      for (const std::string& word : words) EXPECT_NE(status.text().find(word), std::string::npos) << word << ": " << status.text();
    }
  }
  /// Nothing fails for three seconds.
  void expect_patience() {
    EXPECT_FALSE(job_->run_launches(3 * kSecondNs));
    for (size_t rank = 0; rank < job_->ranks(); ++rank) EXPECT_TRUE(job_->rank(rank).communicator->state().ok());
  }

  std::unique_ptr<Job> job_;
  std::vector<std::string> warnings_;
  std::vector<std::vector<float>> in_, out_;
};

TEST_F(Standstill, CollectiveAgainstRecv) {
  start(2);
  allreduce(0);
  send_recv(1, {recv(0, 10)});
  expect_mismatch({"call #0 allreduce count 100 float sum", "recv #0 from rank 0 count 10 float"});
}

TEST_F(Standstill, CollectiveAgainstLargeSend) {
  start(2);
  allreduce(0);
  send_recv(1, {send(0, kLarge)});
  expect_mismatch({"call #0 allreduce count 100 float sum", "send #0 to rank 0 count 200000 float"});
}

TEST_F(Standstill, RecvAgainstRecv) {
  start(2);
  send_recv(0, {recv(1, 10)});
  send_recv(1, {recv(0, 20)});
  expect_mismatch({"recv #0 from rank 1 count 10 float", "recv #0 from rank 0 count 20 float"});
}

TEST_F(Standstill, LargeSendAgainstLargeSend) {
  start(2);
  send_recv(0, {send(1, kLarge)});
  send_recv(1, {send(0, kLarge)});
  expect_mismatch({"send #0 to rank 1", "send #0 to rank 0"});
}

// Rank 1 is in the collective and has not sent what rank 0 waits for, because rank 2 is elsewhere.
TEST_F(Standstill, ThroughARankInTheSameCollective) {
  Settings settings;
  settings.algorithm = "ring";
  start(4, settings);
  allreduce(0);
  allreduce(1);
  allreduce(3);
  send_recv(2, {recv(0, 10)});
  expect_mismatch({"allreduce count 100 float sum", "recv #0 from rank 0 count 10 float"});
}

TEST_F(Standstill, CircleOfThreeReceivers) {
  start(3);
  for (int32_t rank = 0; rank < 3; ++rank) send_recv(static_cast<size_t>(rank), {recv((rank + 1) % 3, 10)});
  expect_mismatch({"recv #0 from rank 0", "recv #0 from rank 1", "recv #0 from rank 2"});
}

// The receive will be served by a rank that computes; then everybody meets in the collective.
TEST_F(Standstill, RankThatIsServedLaterIsLeftAlone) {
  start(3);
  allreduce(0);
  send_recv(1, {recv(2, 10)});
  expect_patience();
  auto waiting = std::move(job_->rank(0).launch);
  send_recv(2, {send(1, 10)});
  ASSERT_TRUE(job_->run_launches(kSecondNs));
  allreduce(1);
  allreduce(2);
  job_->rank(0).launch = std::move(waiting);
  ASSERT_TRUE(job_->run_launches(kSecondNs));
  EXPECT_TRUE(job_->rank(0).launch->status().ok()) << job_->rank(0).launch->status().text();
}

// A call on a stream holds nobody: its rank may make the one that the other waits for.
TEST_F(Standstill, RankWithItsCallOnAStreamIsLeftAlone) {
  start(2);
  allreduce(0);
  send_recv(1, {recv(0, 10)}, true);
  expect_patience();
  auto receiving = std::move(job_->rank(1).launch);
  allreduce(1);
  ASSERT_TRUE(job_->run_launches(kSecondNs));
  EXPECT_TRUE(job_->rank(0).launch->status().ok()) << job_->rank(0).launch->status().text();
  send_recv(0, {send(1, 10)});
  job_->rank(1).launch = std::move(receiving);
  ASSERT_TRUE(job_->run_launches(kSecondNs));
  EXPECT_TRUE(job_->rank(1).launch->status().ok()) << job_->rank(1).launch->status().text();
}

// A small send needs nobody, so what comes after it may be what the other waits for.
TEST_F(Standstill, SmallSendEnds) {
  start(2);
  allreduce(0);
  send_recv(1, {send(0, 10)});
  ASSERT_TRUE(job_->run_until([&] { return job_->rank(1).launch->done(); }, kSecondNs));
  allreduce(1);
  ASSERT_TRUE(job_->run_launches(kSecondNs));
  EXPECT_TRUE(job_->rank(0).launch->status().ok()) << job_->rank(0).launch->status().text();
}

TEST_F(Standstill, SlowLinkIsNoStandstill) {
  start(3);
  job_->world.set_default_link({.latency_ns = 900 * kMillisecondNs, .rate_bytes_per_s = 1e6});
  for (size_t rank = 0; rank < 3; ++rank) allreduce(rank, kLarge);
  ASSERT_TRUE(job_->run_launches());
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(job_->rank(rank).launch->status().ok()) << job_->rank(rank).launch->status().text();
}

TEST_F(Standstill, WarningSaysWhatTheOthersDo) {
  Settings settings;
  settings.algorithm = "ring";
  start(3, settings);
  for (size_t rank = 0; rank < 3; ++rank) allreduce(rank);
  ASSERT_TRUE(job_->run_launches());
  allreduce(0, 10);
  allreduce(1, 10);
  const TimeNs begun = job_->world.now();
  job_->run_until([&] { return warnings_.size() >= 2; }, 15 * kSecondNs);
  EXPECT_GE(job_->world.now() - begun, 10 * kSecondNs);
  EXPECT_LT(job_->world.now() - begun, 11 * kSecondNs);
  ASSERT_EQ(warnings_.size(), 2U);
  for (const std::string& warning : warnings_) {
    EXPECT_NE(warning.find("call #1 allreduce count 10 float sum (ring) on rank"), std::string::npos) << warning;
    EXPECT_NE(warning.find("rank 2 (host h2, pid 3) has not made call #1; is in no call, its latest was call #0 allreduce count 100 float"),
              std::string::npos)
        << warning;
  }
  EXPECT_NE(warnings_[0].find("rank 1 (host h1, pid 2) is in call #1 allreduce count 10 float sum (ring), waiting for ranks"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(Standstill, StoppedRankDoesNotAnswer) {
  Settings settings;
  settings.warn_after_ns = 2 * kSecondNs;
  start(2, settings);
  allreduce(0);
  const std::vector<transport::SimHost> side{job_->rank(0).host};
  job_->world.partition(side);
  job_->run_until([&] { return !warnings_.empty(); }, 5 * kSecondNs);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("rank 1 (host h1, pid 2) does not answer"), std::string::npos) << warnings_[0];
}

}  // namespace
}  // namespace isthmus::sim_test
