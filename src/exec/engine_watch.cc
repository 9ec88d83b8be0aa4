// SPDX-License-Identifier: Apache-2.0
// The engine's watch over running calls: when ranks compare their calls, when a lost peer or an unexplained mismatch ends a call, when
// a long one is warned about and when it has reached its limit. Called by Engine::poll a hundred times a second while calls are under
// way. Whatever goes wrong is an incident, told once with what the flight recorder knows.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "exec/engine.h"

namespace isthmus::exec {

namespace {
constexpr TimeNs kStallNs = 250 * kMillisecondNs;  ///< after so long without traffic the ranks compare their calls
/// So long a run that lost a peer waits to hear who died first, and one that was told of a death for what the dead had sent.
constexpr TimeNs kVerdictNs = 200 * kMillisecondNs;
constexpr TimeNs kExplainNs = 750 * kMillisecondNs;  ///< so long an unexplained mismatch waits for the other side's account
constexpr TimeNs kAnswerNs = 500 * kMillisecondNs;   ///< so long before a warning the others are asked what they are doing
constexpr TimeNs kOneIncidentNs = 2 * kSecondNs;     ///< what goes wrong within so long after an incident belongs to it
}  // namespace

void Engine::watch() {
  for (const auto& run : runs_) {
    if (run->running()) watch(*run);
  }
}

void Engine::watch(Run& run) {
  run.stamp(core_.now);
  const Status& condemned = run.endpoint().condemned;
  if (!condemned.ok()) run.bereave(condemned);
  if (!run.bereaved().ok() && core_.now - run.bereaved_since(core_.now) > kVerdictNs) {
    return run.fail(condemned.ok() ? run.bereaved() : condemned);
  }
  if (run.suspect_since_ns() != 0 && core_.now - run.suspect_since_ns() > kExplainNs) return run.fail(run.suspicion());
  const TimeNs waited_ns = core_.now - run.last_traffic_ns();
  if (waited_ns > kStallNs && run.stall_once()) {
    run.note(Moment::stalled);
    if (run.endpoint().observer != nullptr) run.endpoint().observer->on_stalled(run);
    if (!run.running()) return;
  }
  const TimeNs limit_ns = watch_limits_.operation_timeout_ns;
  if (limit_ns > 0 && core_.now - run.started_ns() > limit_ns) {
    return run.fail(
        timeout_error(fmt::format("{} on rank {} took longer than its limit of {} ms; no message yet from ranks {}; {}", run.to_text(),
                                  run.endpoint().rank, limit_ns / kMillisecondNs, run.missing_ranks(), run.progress_text())));
  }
  const TimeNs warn_ns = watch_limits_.warn_after_ns;
  if (warn_ns <= 0) return;
  if (run.asking_due(waited_ns, warn_ns, std::min(kAnswerNs, warn_ns / 2)) && run.endpoint().observer != nullptr) {
    run.endpoint().observer->on_late(run);
    if (!run.running()) return;
  }
  if (run.warning_due(waited_ns, warn_ns)) warn(run);
}

void Engine::warn(Run& run) {
  run.note(Moment::late);
  std::string line =
      fmt::format("{} on rank {} of {:#x}: waiting for ranks {} for {}; {}", run.to_text(), run.endpoint().rank,
                  run.endpoint().communicator, run.missing_ranks(), duration_text(core_.now - run.last_traffic_ns()), run.progress_text());
  if (run.endpoint().observer != nullptr) line += run.endpoint().observer->answers(run);
  on_warning(line);
  incident("an operation takes long");
}

void Engine::incident(const std::string& what) {
  const bool same = core_.now < same_incident_until_ns_;
  same_incident_until_ns_ = core_.now + kOneIncidentNs;
  if (!same) on_incident(what);
}

void Engine::explain(const Endpoint& endpoint, const Status& why) {
  // What this rank did itself (it gave the communicator up) needs no explanation.
  const bool own_doing = why.code() == Code::invalid_usage && (why.origin_rank() < 0 || why.origin_rank() == endpoint.rank);
  if (!own_doing) incident(fmt::format("an operation of rank {} has failed: {}", endpoint.rank, why.text()));
}

std::string Engine::calls_text() const {
  std::string text;
  for (const auto& endpoint : endpoints_) {
    for (const Lane& lane : endpoint->lanes) {
      if (lane.active == nullptr) continue;
      const Run& run = *lane.active;
      text +=
          fmt::format("rank {} of {:#x}: {}: began {} ago, last message {} ago, {}", endpoint->rank, endpoint->communicator, run.to_text(),
                      duration_text(core_.now - run.started_ns()), duration_text(core_.now - run.last_traffic_ns()), run.progress_text());
      text += lane.waiting.empty() ? "\n" : fmt::format("; {} more calls behind it\n", lane.waiting.size());
    }
  }
  return text;
}

void Engine::enter_trace() {
  core_.trace->enter_poll(core_.now);
  for (const auto& run : runs_) {
    if (run->running()) run->trace_settle(core_.now);
  }
}

void Engine::add_traffic(const Endpoint& endpoint, std::vector<Traffic>& by_transport) const {
  for (const Flow& flow : endpoint.flows) {
    const auto transport = std::find(transports_.begin(), transports_.end(), flow.transport);
    if (transport != transports_.end()) by_transport[static_cast<size_t>(transport - transports_.begin())] += flow.traffic;
  }
}

std::vector<TransportTraffic> Engine::traffic() const {
  std::vector<Traffic> sums = closed_traffic_;
  for (const auto& endpoint : endpoints_) add_traffic(*endpoint, sums);
  std::vector<TransportTraffic> all;
  for (size_t i = 0; i < sums.size(); ++i) all.push_back({.name = transports_[i]->name(), .traffic = sums[i]});
  return all;
}

std::string Engine::elsewhere_text(const Endpoint& here) const {
  std::string text;
  for (const auto& endpoint : endpoints_) {
    if (endpoint->communicator == here.communicator) continue;
    for (const Lane& lane : endpoint->lanes) {
      if (lane.active == nullptr) continue;
      text += fmt::format("{}{} on rank {} of communicator {:#x}, waiting for ranks {}", text.empty() ? "" : ", in ",
                          lane.active->to_text(), endpoint->rank, endpoint->communicator, lane.active->missing_ranks());
    }
  }
  return text;
}

}  // namespace isthmus::exec
