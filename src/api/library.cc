// SPDX-License-Identifier: Apache-2.0
// The registry's life and look-ups. See library.h.
#include "api/library.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <fstream>
#include <iterator>

#include "api/hall.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/host_identity.h"
#include "base/settings.h"
#include "comm/place.h"
#include "transport/tcp/sockets.h"

namespace isthmus::api {

namespace {

std::mutex registry_mutex;
std::atomic<bool> forked{false};

std::mutex error_mutex;
std::string& error_text() {
  static auto& text = *std::make_unique<std::string>().release();  // outlives static destruction
  return text;
}

/// The file that a setting names; "" where it names none.
Result<std::string> text_of_file(std::string_view setting, const std::string& path) {
  if (path.empty()) return std::string();
  auto text = read_text_file(path);
  if (!text.ok()) return text.status().with_context(fmt::format("{}: {}", setting, path));
  return text;
}

/// What the user had planned; null: nothing.
Result<std::unique_ptr<topology::PlanFile>> read_plan(const Settings& settings, const Logger& log) {
  std::unique_ptr<topology::PlanFile> plan;
  ISTHMUS_ASSIGN(const std::string text, text_of_file("ISTHMUS_PLAN_FILE", settings.plan_file));
  if (settings.plan_file.empty()) return plan;
  std::vector<std::string> warnings;
  auto parsed = topology::parse_plan_file(text, warnings);
  if (!parsed.ok()) return parsed.status().with_context(fmt::format("ISTHMUS_PLAN_FILE: {}", settings.plan_file));
  for (const std::string& warning : warnings) log.warn("ISTHMUS_PLAN_FILE: {}", warning);
  plan = std::make_unique<topology::PlanFile>(std::move(parsed).value());
  return plan;
}

/// Where this process is, by the ladder's first rungs that know. All ranks learn it from its card.
Result<topology::Place> find_place(const Settings& settings, const HostIdentity& host, transport::Network& network, const Logger& log) {
  std::vector<std::string> warnings;
  ISTHMUS_ASSIGN(const topology::Place place, comm::find_own_place(settings, host, network, warnings));
  for (const std::string& warning : warnings) log.warn("{}", warning);
  for (const std::string& warning : topology::contradictions(std::span(&place, 1))) log.warn("{}", warning);
  if (!place.claims.empty()) log.info(Subsystem::init, "place: {}", topology::describe(place));
  return place;
}

/// What somebody says that a level is called; "": nobody does.
std::string name_at(const topology::Place& place, topology::Level level) {
  const topology::Claim* claim = place.at(level);
  return claim == nullptr ? std::string() : claim->name;
}

}  // namespace

Result<Library*> Library::get() {
  if (forked.load(std::memory_order_relaxed)) {
    return invalid_usage("this process was made by fork() after Isthmus was in use; call it only in the parent, or exec first");
  }
  const std::lock_guard guard(registry_mutex);
  if (Library* made = usable.load(std::memory_order_relaxed); made != nullptr) return made;
  ISTHMUS_ASSIGN(auto made, make());
  // The child keeps nothing of the parent's alive: peers must see its connections end with it. Nobody may hold the error text's lock
  // at that moment, because the child would wait for it forever.
  pthread_atfork([] { error_mutex.lock(); }, [] { error_mutex.unlock(); },
                 [] {
                   error_mutex.unlock();
                   forked.store(true);
                   usable.store(nullptr);
                   owned_descriptors::close_all();
                 });
  usable.store(made.release(), std::memory_order_release);
  return usable.load(std::memory_order_relaxed);
}

Result<std::unique_ptr<Library>> Library::make() {
  SettingsReport settings_report;
  ISTHMUS_ASSIGN(Settings settings, settings_from_environment(&settings_report));
  const HostIdentity host = read_host_identity(settings);
  Logger log = Logger::from_settings(settings, host.hostname, host.pid);
  for (const std::string& warning : settings_report.warnings) log.warn("{}", warning);
  if (!host.warning.empty()) log.warn("{}", host.warning);
  if (!settings.debug.empty())
    log.version(fmt::format("Isthmus {}.{}.{} (NCCL {}.{}.{} API) on CPU hosts", 0, 1, 0, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));

  auto library = std::make_unique<Library>();
  ISTHMUS_TRY(library->control_.usable());
  ISTHMUS_ASSIGN(const std::string rules, text_of_file("ISTHMUS_RULES_FILE", settings.rules_file));
  ISTHMUS_ASSIGN(auto selector, collectives::Selector::make(settings.algorithm, rules));
  library->selector_ = std::make_unique<collectives::Selector>(std::move(selector));
  ISTHMUS_ASSIGN(library->plan_, read_plan(settings, log));
  transport::SocketOptions sockets{.ifname = settings.socket_ifname,
                                   .family = settings.socket_family,
                                   .port_first = settings.port_first,
                                   .port_last = settings.port_last};
  library->network_ = std::make_unique<transport::Sockets>(std::move(sockets));
  ISTHMUS_ASSIGN(const topology::Place place, find_place(settings, host, *library->network_, log));
  exec::Identity identity{.process = {},
                          .host = host.host_id,
                          .hostname = host.hostname,
                          .pid = host.pid,
                          .region = name_at(place, topology::Level::region),
                          .site = name_at(place, topology::Level::building),
                          .zone = name_at(place, topology::Level::zone),
                          .cpu_set = host.cpu_set,
                          .cpu_quota = host.cpu_quota};
  ISTHMUS_TRY(random_bytes(std::as_writable_bytes(std::span(identity.process))));
  auto process = std::make_unique<exec::Process>(std::move(settings), std::move(identity), std::move(log), library->network_.get());
  library->driver_ = std::make_unique<exec::Driver>(std::move(process));
  ISTHMUS_TRY(library->driver_->usable());
  return library;
}

ncclComm_t Library::adopt(std::unique_ptr<comm::Communicator> communicator) {
  auto handle = std::make_unique<ncclComm>(ncclComm{std::move(communicator)});
  ncclComm_t pointer = handle.get();
  handles_.emplace(pointer, std::move(handle));
  return pointer;
}

Result<comm::Communicator*> Library::look_up(ncclComm_t handle) const {
  if (handle == nullptr) return invalid_argument("the communicator is NULL");
  const auto found = handles_.find(handle);
  if (found == handles_.end()) {
    return invalid_argument(fmt::format("{} is not a communicator: never made, or destroyed already", static_cast<const void*>(handle)));
  }
  last_found_ = handle;
  return found->second->communicator.get();
}

Result<std::shared_ptr<comm::Communicator>> Library::hold(ncclComm_t handle) const {
  ISTHMUS_TRY(find(handle).status());
  return handles_.find(handle)->second->communicator;
}

Status Library::destroy(ncclComm_t handle) {
  ISTHMUS_ASSIGN(comm::Communicator * communicator, find(handle));
  communicator->close();
  last_found_ = nullptr;
  halls_.erase(handle);
  handles_.erase(handle);
  return {};
}

Result<comm::StreamHandle> Library::stream_of(exec::Process& process, cudaStream_t stream) {
  if (is_null_stream(stream)) return comm::StreamHandle{0};
  const auto number = reinterpret_cast<uintptr_t>(stream);
  if (process.find_stream(number) == nullptr) {
    return invalid_argument(fmt::format("{} is not a stream: pass NULL or a handle of isthmusStreamCreate", static_cast<void*>(stream)));
  }
  return comm::StreamHandle{number};
}

Result<bootstrap::Surroundings> Library::surroundings(exec::Process& process) {
  ISTHMUS_ASSIGN(const Crypto* crypto, process.crypto());
  return bootstrap::Surroundings{
      .network = *process.network(), .crypto = *crypto, .log = process.log(), .process = process.identity().process};
}

isthmusFeedback_t Library::make_feedback(size_t elements) {
  const auto handle = reinterpret_cast<isthmusFeedback_t>(next_feedback_);  // NOLINT(performance-no-int-to-ptr)
  feedbacks_.emplace(handle, std::make_shared<Feedback>(Feedback{.values = std::vector<float>(elements, 0.0F)}));
  ++next_feedback_;
  return handle;
}

std::shared_ptr<Feedback>* Library::find_feedback(isthmusFeedback_t handle) {
  const auto found = feedbacks_.find(handle);
  return found == feedbacks_.end() ? nullptr : &found->second;
}

isthmusAggregator_t Library::adopt(std::shared_ptr<OpenAggregator> aggregator) {
  const auto handle = reinterpret_cast<isthmusAggregator_t>(next_aggregator_++);  // NOLINT(performance-no-int-to-ptr)
  aggregators_.emplace(handle, std::move(aggregator));
  return handle;
}

Result<std::shared_ptr<OpenAggregator>> Library::find(isthmusAggregator_t handle) const {
  const auto found = aggregators_.find(handle);
  if (found != aggregators_.end()) return found->second;
  return invalid_argument(
      fmt::format("{} is not a handle of isthmusAggregatorConnect, or was closed already", static_cast<const void*>(handle)));
}

isthmusCohort_t Library::adopt(std::shared_ptr<OpenCohort> cohort) {
  const auto handle = reinterpret_cast<isthmusCohort_t>(next_cohort_++);  // NOLINT(performance-no-int-to-ptr)
  cohorts_.emplace(handle, std::move(cohort));
  return handle;
}

Result<std::shared_ptr<OpenCohort>> Library::find(isthmusCohort_t handle) const {
  const auto found = cohorts_.find(handle);
  if (found != cohorts_.end()) return found->second;
  return invalid_argument(
      fmt::format("{} is not a handle of isthmusCohortInit, or was destroyed already", static_cast<const void*>(handle)));
}

Result<std::shared_ptr<Hall>> Library::hall(ncclComm_t handle) {
  ISTHMUS_ASSIGN(comm::Communicator* const communicator, find(handle));
  std::shared_ptr<Hall>& hall = halls_[handle];
  if (hall == nullptr) hall = std::make_shared<Hall>(control_, communicator->membership());
  return hall;
}

ThreadGroup& Library::thread_group() {
  thread_local ThreadGroup group;
  return group;
}

ncclResult_t report(const Status& status) {
  if (status.ok()) return ncclSuccess;
  if (status.code() != Code::in_progress) {
    const std::lock_guard guard(error_mutex);
    error_text() = status.text();
  }
  switch (status.code()) {
    case Code::ok:
      return ncclSuccess;
    case Code::system_error:
      return ncclSystemError;
    case Code::internal_error:
      return ncclInternalError;
    case Code::invalid_argument:
      return ncclInvalidArgument;
    case Code::invalid_usage:
      return ncclInvalidUsage;
    case Code::in_progress:
      return ncclInProgress;
    case Code::remote_error:
    case Code::timeout:  // ncclTimeout exists from 2.30 on; older clients know it as a remote error
      return ncclRemoteError;
  }
  return ncclInternalError;
}

const char* last_error() {
  thread_local std::string copy;  // the caller may read it while another thread fails
  const std::lock_guard guard(error_mutex);
  copy = error_text();
  return copy.c_str();
}

Status status_of(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return {};
    case ncclInvalidArgument:
      return invalid_argument(last_error());
    case ncclInvalidUsage:
      return invalid_usage(last_error());
    case ncclSystemError:
      return system_error(last_error());
    case ncclInternalError:
      return internal_error(last_error());
    default:
      return remote_error(last_error());
  }
}

}  // namespace isthmus::api
