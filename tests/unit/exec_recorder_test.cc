// SPDX-License-Identifier: Apache-2.0
// The engine's hooks: the flight recorder and what is said when something goes wrong, the trace, the counters.
#include "exec/recorder.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "exec/launch.h"
#include "plan/builder.h"
#include "transport/local/loopback.h"

namespace isthmus::exec {
namespace {

using std::string;

bool contains(const string& text, std::string_view part) { return text.find(part) != string::npos; }

TEST(Recorder, KeepsTheLatestEvents) {
  Recorder recorder;
  const Signature signature{.collective = Collective::broadcast, .type = DataType::int32, .root = 2, .count = 10};
  for (uint32_t i = 0; i < 3000; ++i) {
    Signature numbered = signature;
    numbered.sequence = i;
    recorder.add(Moment::call, 7, 1, numbered, "chain", numbered.root);
  }
  std::vector<uint32_t> kept;
  recorder.for_each_latest(UINT64_MAX, [&](const Event& event) { kept.push_back(event.sequence); });
  ASSERT_EQ(kept.size(), Recorder::kEvents);
  EXPECT_EQ(kept.front(), 3000 - Recorder::kEvents);
  EXPECT_EQ(kept.back(), 2999U);
  EXPECT_EQ(recorder.to_text(0, 1), "   -0.000000 s  rank 1 of 0x7: call #2999 broadcast count 10 int32 root 2 (chain)\n");
  EXPECT_EQ(recorder.to_json_lines(1),
            R"({"time_ns":-1,"event":"call","communicator":"0x7","rank":1,"peer":2,"collective":"broadcast","sequence":2999,)"
            R"("count":10,"type":"int32","op":"sum","how":"chain"})"
            "\n");
}

TEST(Recorder, EventsGetTheirTimeAtTheNextStamp) {
  Recorder recorder;
  recorder.add({.communicator = 1, .moment = Moment::opened});
  recorder.stamp(100);
  const uint64_t call = recorder.add(Moment::call, 1, 0, {}, "ring", -1);
  recorder.add({.communicator = 1, .moment = Moment::closed});
  recorder.end(call, 300, Code::remote_error);
  recorder.stamp(500);
  std::vector<TimeNs> times;
  recorder.for_each_latest(UINT64_MAX, [&](const Event& event) { times.push_back(event.when_ns); });
  EXPECT_EQ(times, (std::vector<TimeNs>{100, 300, 500}));
}

// A call that outlives its event in the ring must not write into another's.
TEST(Recorder, OverwrittenEventsAreGone) {
  Recorder recorder;
  const uint64_t call = recorder.add(Moment::call, 1, 0, {}, "ring", -1);
  for (size_t i = 0; i + 1 < Recorder::kEvents; ++i) recorder.add({.communicator = 2, .moment = Moment::opened});
  EXPECT_NE(recorder.find(call), nullptr);
  recorder.add({.communicator = 3, .moment = Moment::opened});
  EXPECT_EQ(recorder.find(call), nullptr);
  recorder.end(call, 5, Code::ok);
  recorder.for_each_latest(UINT64_MAX, [](const Event& event) { EXPECT_EQ(event.ended_ns, Event::kUnknown); });
}

// Rank r sends to the next, receives from the one before.
void emit_shift(const plan::Shape& shape, plan::Builder& b) {
  b.split(1);
  b.send(shape.group.next(), b.in(0, 1));
  b.recv(shape.group.previous(), b.out(0, 1));
}
constexpr plan::Algorithm kShift = {.name = "shift", .collective = Collective::allreduce, .emit = emit_shift};

/// Two communicators of three ranks, all in one engine.
class Job {
 public:
  explicit Job(WatchLimits limits) : engine_({}, limits, kernels::select_target(), pool_), loopback_(engine_) {
    engine_.add_transport(loopback_);
    EXPECT_TRUE(loopback_.add_peer(0, {}).ok());
    const std::vector<transport::PeerId> peers(3, 0);
    const std::vector<transport::Transport*> transports(3, &loopback_);
    for (const uint64_t communicator : {uint64_t{7}, uint64_t{8}}) {
      for (int32_t rank = 0; rank < 3; ++rank) endpoints_.push_back(&engine_.open(communicator, rank, peers, transports));
    }
    engine_.on_warning = [this](const string& line) { warnings_.push_back(line); };
    engine_.on_incident = [this](const string& what) {
      incidents_.push_back(what + "\n" + engine_.calls_text() + engine_.recorder().to_text(engine_.now()));
    };
  }
  void call(Launch& launch, size_t endpoint, std::vector<float>& data) {
    const plan::Shape shape{.collective = Collective::allreduce, .group = {.ranks = {}, .size = 3, .position = endpoints_[endpoint]->rank}};
    auto plan = plan::build(kShift, shape);
    ASSERT_TRUE(plan.ok()) << plan.status().text();
    Launch::Item& item = launch.add();
    item.endpoint = endpoints_[endpoint];
    item.call.program = std::make_shared<const Program>(std::move(*plan));
    item.call.signature = {.collective = Collective::allreduce, .count = data.size() / 2};
    item.call.how = kShift.name;
    item.call.in = reinterpret_cast<const std::byte*>(data.data());
    item.call.out = reinterpret_cast<std::byte*>(data.data() + data.size() / 2);
  }
  void pass(TimeNs duration_ns) {
    for (const TimeNs end = now_ + duration_ns; now_ < end; now_ += 50 * kMillisecondNs) engine_.poll(now_);
  }

  memory::Pool pool_;
  Engine engine_;
  transport::Loopback loopback_;
  std::vector<Endpoint*> endpoints_;
  std::vector<string> warnings_, incidents_;
  TimeNs now_ = kSecondNs;
};

TEST(Incident, LongCallIsExplainedAndWarnedAboutSparingly) {
  Job job({.warn_after_ns = 10 * kSecondNs});
  std::vector<float> zero(8), two(8);
  Launch launch;
  job.call(launch, 0, zero);
  job.call(launch, 2, two);
  launch.submit(job.engine_);
  job.pass(9 * kSecondNs);
  EXPECT_TRUE(job.warnings_.empty());
  job.pass(2 * kSecondNs);
  ASSERT_EQ(job.warnings_.size(), 1U) << "rank 0 has all it needs; rank 2 waits for rank 1";
  EXPECT_TRUE(contains(job.warnings_[0], "call #0 allreduce count 4 float sum (shift) on rank 2 of 0x7: waiting for ranks 1 for 10"))
      << job.warnings_[0];
  EXPECT_TRUE(contains(job.warnings_[0], "1 of 2 steps done; waits for message #0 of 16 bytes from rank 1")) << job.warnings_[0];
  ASSERT_EQ(job.incidents_.size(), 1U);
  EXPECT_TRUE(contains(job.incidents_[0], "rank 2 of 0x7: call #0 allreduce count 4 float sum (shift): began 10")) << job.incidents_[0];
  EXPECT_TRUE(
      contains(job.incidents_[0], "rank 0 of 0x7: call #0 allreduce count 4 float sum (shift), first frame from rank 2, ended after 0 ms"))
      << job.incidents_[0];
  job.pass(70 * kSecondNs);
  EXPECT_EQ(job.warnings_.size(), 4U) << "after 10, 20, 40 and 80 seconds";
}

TEST(Incident, OneTroubleIsToldOnceForAllCommunicators) {
  Job job({});
  std::vector<float> data(8);
  Launch launch;
  job.call(launch, 0, data);
  job.call(launch, 4, data);
  launch.submit(job.engine_);
  job.pass(kSecondNs);
  job.engine_.fail(*job.endpoints_[0], remote_error("rank 2 is gone", 2));
  job.engine_.fail(*job.endpoints_[4], remote_error("rank 0 is gone", 0));
  ASSERT_EQ(job.incidents_.size(), 1U);
  EXPECT_TRUE(contains(job.incidents_[0], "an operation of rank 0 has failed: rank 2 is gone")) << job.incidents_[0];
  EXPECT_TRUE(contains(job.incidents_[0], "rank 0 of 0x7: failed, by rank 2 (remote_error)")) << job.incidents_[0];
}

TEST(Incident, ReachedLimitIsExplained) {
  Job job({.warn_after_ns = 0, .operation_timeout_ns = 3 * kSecondNs});
  std::vector<float> data(8);
  Launch launch;
  job.call(launch, 2, data);
  launch.submit(job.engine_);
  job.pass(4 * kSecondNs);
  ASSERT_TRUE(launch.done());
  EXPECT_EQ(launch.status().code(), Code::timeout);
  EXPECT_TRUE(contains(launch.status().text(), "waits for message #0 of 16 bytes from rank 1")) << launch.status().text();
  ASSERT_EQ(job.incidents_.size(), 1U);
  EXPECT_TRUE(contains(job.incidents_[0], "call #0 allreduce count 4 float sum (shift): began 3")) << job.incidents_[0];
}

TEST(Incident, GivingUpAndIdleFailuresAreNone) {
  Job job({});
  std::vector<float> data(8);
  Launch launch;
  job.call(launch, 0, data);
  launch.submit(job.engine_);
  job.engine_.fail(*job.endpoints_[0], invalid_usage("ncclCommAbort was called on rank 0", 0));
  job.engine_.fail(*job.endpoints_[1], remote_error("rank 2 is gone", 2));
  EXPECT_TRUE(job.incidents_.empty()) << job.incidents_[0];
}

nlohmann::json events_of(Trace& trace) {
  std::string text = trace.take(42);
  if (!text.empty()) text.erase(text.rfind(','));
  return nlohmann::json::parse("[" + text + "]");
}

// Rank 0 calls at once, ranks 1 and 2 two seconds later.
TEST(Trace, CallsAndStepsHaveTheirTimes) {
  Job job({});
  Trace trace;
  job.engine_.trace_into(&trace);
  job.pass(100 * kMillisecondNs);
  std::vector<float> data(8), other(8), third(8);
  Launch early, late;
  job.call(early, 0, data);
  job.call(late, 1, other);
  job.call(late, 2, third);
  early.submit(job.engine_);
  const TimeNs early_ns = job.now_;
  job.pass(2 * kSecondNs);
  late.submit(job.engine_);
  const TimeNs late_ns = job.now_;
  job.pass(kSecondNs);
  ASSERT_TRUE(early.done() && late.done());

  std::map<std::string, int> calls;
  std::map<int, nlohmann::json> open;
  int steps = 0;
  for (const auto& event : events_of(trace)) {
    const double at_ns = event.value("ts", 0.0) * 1000;
    EXPECT_EQ(event["pid"], 42);
    if (event["ph"] == "X") {
      ++calls[event["name"]];
      const double took_ns = event["dur"].get<double>() * 1000;
      const bool first = at_ns == static_cast<double>(early_ns);
      EXPECT_TRUE(first || at_ns == static_cast<double>(late_ns)) << event;
      EXPECT_EQ(took_ns, first ? static_cast<double>(late_ns - early_ns) : 0.0) << event;
    } else if (event["ph"] == "b") {
      open[event["id"]] = event;
    } else if (event["ph"] == "e") {
      const nlohmann::json& begin = open.at(event["id"]);
      EXPECT_EQ(begin["name"], event["name"]);
      EXPECT_EQ(begin["args"]["bytes"], 16);
      EXPECT_LE(begin["ts"].get<double>() * 1000, at_ns);
      if (event["name"] == "recv #0 from rank 2") {
        EXPECT_EQ(at_ns, static_cast<double>(late_ns));
      }
      ++steps;
    }
  }
  EXPECT_EQ(calls, (std::map<std::string, int>{{"call #0 allreduce count 4 float sum (shift)", 3}}));
  EXPECT_EQ(steps, 6) << "each rank sends and receives once";
  EXPECT_TRUE(events_of(trace).empty()) << "what was taken is gone";
}

TEST(Trace, IsBounded) {
  Trace trace;
  for (uint64_t i = 0; i < Trace::kMostMarks + 10; ++i) {
    trace.add({});
    if (trace.waiting() == 1 << 16) (void)trace.take(1);
  }
  (void)trace.take(1);
  trace.add({});
  EXPECT_EQ(trace.waiting(), 0U);
}

TEST(Traffic, IsCountedByTransportAlsoAfterTheEnd) {
  Job job({});
  std::vector<float> small(8), large(20'000);
  for (std::vector<float>* data : {&small, &large}) {
    std::vector<std::vector<float>> copies(3, *data);
    Launch launch;
    for (size_t rank = 0; rank < 3; ++rank) job.call(launch, rank, copies[rank]);
    launch.submit(job.engine_);
    job.pass(kSecondNs);
    ASSERT_TRUE(launch.done());
  }
  const auto expect = [&] {
    const auto all = job.engine_.traffic();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].name, job.loopback_.name());
    EXPECT_EQ(all[0].traffic.sent_bytes, 3U * 16);
    EXPECT_EQ(all[0].traffic.received_bytes, 3U * 16);
    EXPECT_EQ(all[0].traffic.offered_bytes, 3U * 40'000);
    EXPECT_EQ(all[0].traffic.read_bytes, 3U * 40'000);
  };
  expect();
  EXPECT_EQ(job.engine_.counters().calls, 6U);
  for (exec::Endpoint* endpoint : job.endpoints_) job.engine_.close(*endpoint);
  expect();
}

}  // namespace
}  // namespace isthmus::exec
