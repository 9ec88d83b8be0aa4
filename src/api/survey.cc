// SPDX-License-Identifier: Apache-2.0
// Surveys of new communicators, what they need to know about this process, and the entry points that tell their results.
#include "api/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "api/names.h"
#include "comm/drift.h"
#include "kernels/reduce.h"

namespace isthmus::api {

using exec::Driver;

namespace {

/// The best of three, in bytes per second.
template <typename Work>
uint64_t best_rate(uint64_t bytes, Work&& work) {
  TimeNs best = kNever;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const TimeNs begun = Driver::now();
    work();
    best = std::min(best, Driver::now() - begun);
  }
  return bytes * kSecondNs / static_cast<uint64_t>(std::max<TimeNs>(best, 1));
}

/// A few milliseconds' work: sums and copies of more than the nearer caches hold.
comm::Survey::Premises premises_of(const Settings& settings) {
  constexpr size_t kElements = 512 << 10;
  constexpr uint64_t kBytes = kElements * sizeof(float);
  const std::vector<float> a(kElements, 1.0F), b(kElements, 2.0F);
  std::vector<float> sums(kElements);
  const kernels::Target& target = kernels::select_target(settings.simd);
  const auto reduce = target.reduce[static_cast<size_t>(DataType::float32)][static_cast<size_t>(ReduceOp::sum)];
  comm::Survey::Premises premises{.budget_ns = settings.probe_budget_ns, .drift_percent = settings.drift_percent};
  // Ranks wait in calls for those that measure.
  premises.budget_ns = std::min(premises.budget_ns, settings.setup_timeout_ns / 4);
  if (settings.operation_timeout_ns > 0) premises.budget_ns = std::min(premises.budget_ns, settings.operation_timeout_ns / 4);
  premises.reduce_bytes_per_s = best_rate(kBytes, [&] { reduce(sums.data(), a.data(), b.data(), kElements, {}); });
  premises.copy_bytes_per_s = best_rate(kBytes, [&] { target.copy(sums.data(), a.data(), kBytes); });
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  premises.wall_clock_s = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  return premises;
}

}  // namespace

Status run_surveys(Library& library, exec::Driver::Lock& lock, std::vector<Joined>& joined) {
  std::vector<std::unique_ptr<comm::Survey>> surveys(joined.size());  // null: not to be surveyed
  for (size_t i = 0; i < joined.size(); ++i) {
    if (!comm::wants_survey(*joined[i].communicator)) continue;
    comm::Survey::Premises premises;
    if (joined[i].communicator->rank() == 0) premises = premises_of(lock->settings());
    surveys[i] = std::make_unique<comm::Survey>(*joined[i].communicator, premises, Driver::now());
  }
  const auto all_over = [&surveys] {
    const TimeNs now = Driver::now();
    bool all = true;
    for (const auto& survey : surveys) {
      if (survey == nullptr || survey->over()) continue;
      survey->poll(now);
      all = all && survey->over();
    }
    return all;
  };
  const TimeNs limit = lock->settings().setup_timeout_ns;
  library.driver().wait(lock, all_over, Driver::now() + limit);
  Status first;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (surveys[i] == nullptr) continue;
    Status status = surveys[i]->status();
    if (!surveys[i]->over()) {
      status =
          timeout_error(fmt::format("measuring what lies between the ranks has not ended within {} s (ISTHMUS_SETUP_TIMEOUT); "
                                    "ISTHMUS_PROBE=0 does without",
                                    limit / kSecondNs));
      joined[i].communicator->fail(status);
    }
    if (status.ok()) {
      comm::follow_survey(library.context(lock), *joined[i].communicator, *surveys[i], Driver::now());
      continue;
    }
    joined[i].communicator.reset();  // before the survey, whose calls it ends
    if (first.ok()) first = status;
  }
  return first;
}

namespace {

/// text[0, *bytes) <- `value` and a zero; only *bytes, what that takes, where `text` is NULL.
Status give_text(const std::string& value, const char* lacks, char* text, size_t* bytes) {
  if (bytes == nullptr) return invalid_argument("the pointer to the size is NULL");
  if (value.empty()) return invalid_usage(lacks);
  const size_t room = *bytes;
  *bytes = value.size() + 1;
  if (text == nullptr) return {};
  if (room < *bytes) return invalid_argument(fmt::format("the text takes {} bytes, there is room for {}", *bytes, room));
  std::memcpy(text, value.c_str(), *bytes);
  return {};
}

template <typename Read>
ncclResult_t give(const char* name, const char* lacks, ncclComm_t comm, char* text, size_t* bytes, Read&& read) {
  return entry([&](Library& library) -> Status {
    Driver::Lock lock(library.driver());
    const auto communicator = library.find(comm);
    if (!communicator.ok()) return communicator.status().with_context(name);
    return give_text(read(**communicator), lacks, text, bytes).with_context(name);
  });
}

}  // namespace
}  // namespace isthmus::api

extern "C" {

ncclResult_t isthmusCommProfile(ncclComm_t comm, char* text, size_t* bytes) {
  return isthmus::api::give("isthmusCommProfile", "nothing was measured when the communicator was made (ISTHMUS_PROBE)", comm, text, bytes,
                            [](const auto& communicator) { return communicator.profile_text(); });
}

ncclResult_t isthmusCommPlan(ncclComm_t comm, char* text, size_t* bytes) {
  return isthmus::api::give("isthmusCommPlan", "the communicator follows no plan", comm, text, bytes,
                            [](const auto& communicator) { return communicator.plan_text(); });
}

}  // extern "C"
