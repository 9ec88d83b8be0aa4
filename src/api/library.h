// SPDX-License-Identifier: Apache-2.0
// The process registry behind the C API: the one place with global state. Holds the driver (and in it the Process), live handles,
// each thread's open group, the last error. Made at the first call that needs it, never destroyed, so that exit without Destroy
// is harmless; after fork() the child gets an error instead of the parent's state. Used by api/*.cc only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/setup.h"
#include "comm/group.h"
#include "comm/setup.h"
#include "isthmus.h"

/// What a ncclComm_t points to. Clients only carry the pointer; every call looks it up before use.
struct ncclComm {
  std::shared_ptr<isthmus::comm::Communicator> communicator;
};

namespace isthmus::api {

struct OpenAggregator;  // aggregator.cc
class Hall;             // hall.h
struct OpenCohort;      // cohorts.cc

/// What an isthmusFeedback_t stands for. Calls that use it hold it, too.
struct Feedback {
  std::vector<float> values;
  const comm::Communicator* user = nullptr;  ///< of the latest call with it: those of one communicator come after each other
};

/// A thread's open group; how deep it is, is Library::group_depth().
struct ThreadGroup {
  Status poison;  ///< the first failure other than a wrong argument; returned by the outermost end
  comm::Group calls;
  std::vector<std::shared_ptr<comm::Communicator>> held;  ///< those of `calls`: another thread may abort them meanwhile
  PendingSetup setup;

  void clear() {
    calls.clear();
    held.clear();
    setup.clear();
  }
};

class Library {
 public:
  /// Use get().
  Library() = default;
  /// The library, set up from the environment at the first call.
  static Result<Library*> get();
  /// The same without an error to carry; null: ask get().
  static Library* made() { return usable.load(std::memory_order_acquire); }

  exec::Driver& driver() { return *driver_; }
  exec::ControlThread& control() { return control_; }
  /// Gives what this process has to say about a failure a moment to get out.
  void last_words() { control_.settle(50 * kMillisecondNs); }
  comm::Context context(exec::Driver::Lock& lock) { return {.process = *lock, .selector = *selector_, .plan = plan_.get()}; }

  // Handles; all under the driver's lock.
  ncclComm_t adopt(std::unique_ptr<comm::Communicator> communicator);
  /// The communicator of a live handle, or invalid_argument.
  Result<comm::Communicator*> find(ncclComm_t handle) const {
    if (comm::Communicator* known = recall(handle); known != nullptr) return known;
    return look_up(handle);
  }
  /// The same for the handle that was found last; null: it is another.
  comm::Communicator* recall(ncclComm_t handle) const {
    return handle != nullptr && handle == last_found_ ? handle->communicator.get() : nullptr;
  }
  /// The same for callers that let go of the lock: if another thread ends the communicator meanwhile, it is closed, not gone.
  Result<std::shared_ptr<comm::Communicator>> hold(ncclComm_t handle) const;
  Status destroy(ncclComm_t handle);

  // Error feedback by its handle, which is a number and never reused; under the driver's lock.
  isthmusFeedback_t make_feedback(size_t elements);
  std::shared_ptr<Feedback>* find_feedback(isthmusFeedback_t handle);
  void forget_feedback(isthmusFeedback_t handle) { feedbacks_.erase(handle); }

  // Connections to aggregators, likewise. Shared with calls, which let go of the lock.
  isthmusAggregator_t adopt(std::shared_ptr<OpenAggregator> aggregator);
  Result<std::shared_ptr<OpenAggregator>> find(isthmusAggregator_t handle) const;
  void forget(isthmusAggregator_t handle) { aggregators_.erase(handle); }

  // Cohorts, likewise.
  isthmusCohort_t adopt(std::shared_ptr<OpenCohort> cohort);
  Result<std::shared_ptr<OpenCohort>> find(isthmusCohort_t handle) const;
  void forget(isthmusCohort_t handle) { cohorts_.erase(handle); }

  /// Where a communicator's group sums are made; made when first asked for, gone with the communicator.
  Result<std::shared_ptr<Hall>> hall(ncclComm_t handle);

  /// The stream of a call: NULL and the legacy handles 1 and 2 are the NULL stream (0).
  static Result<comm::StreamHandle> stream_of(exec::Process& process, cudaStream_t stream);
  static bool is_null_stream(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

  /// What the bootstrap stands on.
  static Result<bootstrap::Surroundings> surroundings(exec::Process& process);

  /// This thread's group.
  static ThreadGroup& thread_group();
  /// Groups that this thread has opened and not ended.
  static int& group_depth() { return open_groups; }

 private:
  static inline std::atomic<Library*> usable{
      nullptr};  ///< never deleted: threads may still be inside at exit. Null again in a forked child
  static inline thread_local constinit int open_groups = 0;
  static Result<std::unique_ptr<Library>> make();
  Result<comm::Communicator*> look_up(ncclComm_t handle) const;

  std::unique_ptr<transport::Network> network_;
  exec::ControlThread control_;
  std::unique_ptr<exec::Driver> driver_;
  std::unique_ptr<collectives::Selector> selector_;
  std::unique_ptr<topology::PlanFile> plan_;  ///< the user's; null: none
  std::unordered_map<isthmusFeedback_t, std::shared_ptr<Feedback>> feedbacks_;
  uintptr_t next_feedback_ = 1;
  std::unordered_map<isthmusAggregator_t, std::shared_ptr<OpenAggregator>> aggregators_;
  uintptr_t next_aggregator_ = 1;
  std::unordered_map<isthmusCohort_t, std::shared_ptr<OpenCohort>> cohorts_;
  uintptr_t next_cohort_ = 1;
  std::unordered_map<ncclComm_t, std::unique_ptr<ncclComm>> handles_;
  std::unordered_map<ncclComm_t, std::shared_ptr<Hall>> halls_;
  mutable ncclComm_t last_found_ = nullptr;  ///< it is live
};

/// Maps a Status to NCCL's code and remembers its text for ncclGetLastError.
ncclResult_t report(const Status& status);
const char* last_error();
/// The way back, for what an entry point that this library has called itself came to: with its text.
Status status_of(ncclResult_t result);

/// Runs the body of an entry point: nothing may escape into C.
template <typename Body>
ncclResult_t entry(Body&& body) {
  try {
    Library* library = Library::made();
    if (library == nullptr) [[unlikely]] {
      auto got = Library::get();
      if (!got.ok()) return report(got.status());
      library = *got;
    }
    const Status status = body(*library);
    if (status.ok()) [[likely]]
      return ncclSuccess;
    // The others are told before the caller knows, who may exit at once.
    if (status.code() != Code::invalid_argument && status.code() != Code::in_progress) library->last_words();
    return report(status);
  } catch (const std::bad_alloc&) {
    return report(system_error("out of memory"));
  } catch (const std::exception& failure) {
    return report(internal_error(failure.what()));
  }
}

}  // namespace isthmus::api
