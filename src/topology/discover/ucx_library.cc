// SPDX-License-Identifier: Apache-2.0
// UCX by its libraries, 1.10 or later, loaded when first asked for. See ucx.h.
#include <dlfcn.h>
#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <uct/api/uct.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "topology/discover/ucx.h"

namespace isthmus::topology {
namespace {

/// The functions of UCX's that are called here, as its headers declare them.
struct Calls {
  decltype(&ucp_get_version_string) get_version_string;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_print_info) ep_print_info;
  decltype(&ucp_ep_close_nb) ep_close;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
  decltype(&uct_query_components) query_components;
  decltype(&uct_release_component_list) release_component_list;
  decltype(&uct_component_query) component_query;
  decltype(&uct_md_config_read) md_config_read;
  decltype(&uct_config_release) md_config_release;
  decltype(&uct_md_open) md_open;
  decltype(&uct_md_close) md_close;
  decltype(&uct_md_query_tl_resources) md_query_resources;
  decltype(&uct_release_tl_resource_list) release_resources;
  decltype(&ucs_status_string) status_string;
  decltype(&ucs_log_push_handler) log_push_handler;
};

/// What UCX has to say goes to stderr: by itself it would write to stdout, into the middle of JSON.
ucs_log_func_rc_t log_to_stderr(const char* /*file*/, unsigned /*line*/, const char* /*function*/, ucs_log_level_t level,
                                const ucs_log_component_config_t* /*component*/, const char* format, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 1024> text{};
  static_cast<void>(vsnprintf(text.data(), text.size(), format, arguments));
  fmt::print(stderr, "UCX: {}\n", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

/// A library that is never closed: UCX registers exit handlers. null: not installed.
void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

class Loader {
 public:
  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  std::string missing_;  ///< the first
};

void find_protocols(Loader& loader, void* ucp, Calls& calls) {
  loader.find(ucp, "ucp_get_version_string", calls.get_version_string);
  loader.find(ucp, "ucp_config_read", calls.config_read);
  loader.find(ucp, "ucp_config_release", calls.config_release);
  loader.find(ucp, "ucp_init_version", calls.init_version);
  loader.find(ucp, "ucp_cleanup", calls.cleanup);
  loader.find(ucp, "ucp_worker_create", calls.worker_create);
  loader.find(ucp, "ucp_worker_destroy", calls.worker_destroy);
  loader.find(ucp, "ucp_worker_get_address", calls.worker_get_address);
  loader.find(ucp, "ucp_worker_release_address", calls.worker_release_address);
  loader.find(ucp, "ucp_worker_progress", calls.worker_progress);
  loader.find(ucp, "ucp_ep_create", calls.ep_create);
  loader.find(ucp, "ucp_ep_print_info", calls.ep_print_info);
  loader.find(ucp, "ucp_ep_close_nb", calls.ep_close);
  loader.find(ucp, "ucp_request_check_status", calls.request_check_status);
  loader.find(ucp, "ucp_request_free", calls.request_free);
}

void find_transports(Loader& loader, void* uct, void* ucs, Calls& calls) {
  loader.find(uct, "uct_query_components", calls.query_components);
  loader.find(uct, "uct_release_component_list", calls.release_component_list);
  loader.find(uct, "uct_component_query", calls.component_query);
  loader.find(uct, "uct_md_config_read", calls.md_config_read);
  loader.find(uct, "uct_config_release", calls.md_config_release);
  loader.find(uct, "uct_md_open", calls.md_open);
  loader.find(uct, "uct_md_close", calls.md_close);
  loader.find(uct, "uct_md_query_tl_resources", calls.md_query_resources);
  loader.find(uct, "uct_release_tl_resource_list", calls.release_resources);
  loader.find(ucs, "ucs_status_string", calls.status_string);
  loader.find(ucs, "ucs_log_push_handler", calls.log_push_handler);
}

std::string kind_of(uct_device_type_t type) {
  switch (type) {
    case UCT_DEVICE_TYPE_NET:
      return "network";
    case UCT_DEVICE_TYPE_SHM:
      return "shared memory";
    case UCT_DEVICE_TYPE_ACC:
      return "accelerator";
    default:
      return "self";
  }
}

class LoadedUcx final : public Ucx {
 public:
  explicit LoadedUcx(const Calls& calls) : ucx_(calls) {}
  LoadedUcx(const LoadedUcx&) = delete;
  LoadedUcx& operator=(const LoadedUcx&) = delete;
  ~LoadedUcx() override {
    if (worker_ != nullptr) ucx_.worker_destroy(worker_);
    if (context_ != nullptr) ucx_.cleanup(context_);
  }

  Status start();
  [[nodiscard]] Part devices() const override;
  [[nodiscard]] Result<std::string> address() const override;
  [[nodiscard]] Result<std::vector<std::string>> lanes_to(std::string_view address) const override;

 private:
  [[nodiscard]] Status failed(const char* call, ucs_status_t status) const {
    return system_error(fmt::format("UCX's {} failed: {}", call, ucx_.status_string(status)));
  }
  void append_component(uct_component_h component, Part& ucx) const;
  void append_domain(uct_component_h component, const char* domain, Part& ucx) const;
  void close(ucp_ep_h endpoint) const;

  Calls ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

Status LoadedUcx::start() {
  ucp_config_t* config = nullptr;
  if (const auto read = ucx_.config_read(nullptr, nullptr, &config); read != UCS_OK) return failed("ucp_config_read", read);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA;
  const ucs_status_t initialised = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  if (initialised != UCS_OK) return failed("ucp_init", initialised);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const auto made = ucx_.worker_create(context_, &worker, &worker_); made != UCS_OK) return failed("ucp_worker_create", made);
  return {};
}

/// What a component cannot open here (no such hardware) is left out.
void LoadedUcx::append_domain(uct_component_h component, const char* domain, Part& ucx) const {
  uct_md_config_t* config = nullptr;
  if (ucx_.md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h opened = nullptr;
  const ucs_status_t status = ucx_.md_open(component, domain, config, &opened);
  ucx_.md_config_release(config);
  if (status != UCS_OK) return;
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (ucx_.md_query_resources(opened, &resources, &count) == UCS_OK) {
    for (unsigned at = 0; at < count; ++at) {
      ucx.children.push_back({.kind = "transport",
                              .name = fmt::format("{}/{}", resources[at].tl_name, resources[at].dev_name),
                              .model = kind_of(resources[at].dev_type)});
    }
    ucx_.release_resources(resources);
  }
  ucx_.md_close(opened);
}

void LoadedUcx::append_component(uct_component_h component, Part& ucx) const {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (ucx_.component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (domains.empty() || ucx_.component_query(component, &attributes) != UCS_OK) return;
  for (const uct_md_resource_desc_t& domain : domains) append_domain(component, domain.md_name, ucx);
}

Part LoadedUcx::devices() const {
  Part ucx{.kind = "ucx", .name = ucx_.get_version_string()};
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (ucx_.query_components(&components, &count) != UCS_OK) return ucx;
  for (unsigned at = 0; at < count; ++at) append_component(components[at], ucx);
  ucx_.release_component_list(components);
  return ucx;
}

Result<std::string> LoadedUcx::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (const auto got = ucx_.worker_get_address(worker_, &address, &bytes); got != UCS_OK) return failed("ucp_worker_get_address", got);
  std::string text(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
  return text;
}

/// At once, without telling the other side.
void LoadedUcx::close(ucp_ep_h endpoint) const {
  void* request = ucx_.ep_close(endpoint, UCP_EP_CLOSE_MODE_FORCE);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucx_.request_check_status(request) == UCS_INPROGRESS) ucx_.worker_progress(worker_);
  ucx_.request_free(request);
}

Result<std::vector<std::string>> LoadedUcx::lanes_to(std::string_view address) const {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  ucp_ep_h endpoint = nullptr;
  if (const auto made = ucx_.ep_create(worker_, &params, &endpoint); made != UCS_OK) return failed("ucp_ep_create", made);
  char* listing = nullptr;
  size_t bytes = 0;
  if (FILE* stream = open_memstream(&listing, &bytes); stream != nullptr) {
    ucx_.ep_print_info(endpoint, stream);
    static_cast<void>(fclose(stream));
  }
  close(endpoint);
  const std::unique_ptr<char, void (*)(void*)> owned(listing, std::free);
  if (listing == nullptr) return system_error("no memory for UCX's list of lanes");
  return lanes_of_listing(std::string_view(listing, bytes));
}

}  // namespace

Result<std::unique_ptr<Ucx>> Ucx::open() {
  void* ucs = open_library("libucs.so.0");
  void* uct = open_library("libuct.so.0");
  void* ucp = open_library("libucp.so.0");
  if (ucs == nullptr || uct == nullptr || ucp == nullptr) return std::unique_ptr<Ucx>();
  Calls calls{};
  Loader loader;
  find_protocols(loader, ucp, calls);
  find_transports(loader, uct, ucs, calls);
  if (!loader.missing().empty()) return system_error(fmt::format("the installed UCX has no {}: 1.10 or later is needed", loader.missing()));
  calls.log_push_handler(log_to_stderr);
  auto ucx = std::make_unique<LoadedUcx>(calls);
  ISTHMUS_TRY(ucx->start());
  return std::unique_ptr<Ucx>(std::move(ucx));
}

}  // namespace isthmus::topology
