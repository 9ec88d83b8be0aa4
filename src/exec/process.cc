// SPDX-License-Identifier: Apache-2.0
// Process: wires settings, memory, transports and engine together and polls them. Called by the driver, comm/ and the simulator.
#include "exec/process.h"

#include <fmt/format.h>

#include <algorithm>

#include "transport/local/loopback.h"
#include "transport/local/shm.h"
#include "transport/tcp/tcp.h"

namespace isthmus::exec {

namespace {

Limits limits_of(const Settings& settings) {
  Limits limits;
  limits.eager_bytes = settings.eager_bytes;
  limits.offer_bytes = settings.offer_bytes;
  return limits;
}

constexpr size_t kTraceBatch = 1024;  // marks that are written together

WatchLimits watch_of(const Settings& settings) {
  return {.warn_after_ns = settings.warn_after_ns, .operation_timeout_ns = settings.operation_timeout_ns};
}

}  // namespace

Process::Process(Settings settings, Identity identity, Logger log, transport::Network* network)
    : settings_(std::move(settings)),
      identity_(std::move(identity)),
      log_(std::move(log)),
      network_(network),
      engine_(limits_of(settings_), watch_of(settings_), kernels::select_target(settings_.simd), pool_),
      plans_(settings_.plan_cache_bytes, settings_.check_plans),
      next_stream_(0x15750000) {
  auto loopback = std::make_unique<transport::Loopback>(engine_);
  (void)loopback->add_peer(0, {});  // the first peer of a fresh loopback is always accepted
  peers_.push_back({.process = identity_.process, .transport = loopback.get()});
  engine_.add_transport(*loopback);
  transports_.push_back(std::move(loopback));
  engine_.on_warning = [this](const std::string& line) { log_.warn("{}", line); };
  engine_.on_incident = [this](const std::string& what) { report_incident(what); };
  open_trace();
}

Process::~Process() { write_trace(); }

Result<const Crypto*> Process::crypto() const {
  if (settings_.auth == "none") return &Crypto::none();
  return Crypto::load();
}

Status Process::open_transports() {
  if (transports_.size() > 1) return {};
  ISTHMUS_ASSIGN(const Crypto* crypto, this->crypto());
  std::vector<std::unique_ptr<transport::Transport>> opened;
  if (!settings_.shm_disable && identity_.host != 0) {
    transport::ShmOptions options{.process = identity_.process,
                                  .cma_bytes = settings_.cma_bytes,
                                  .cma_disable = settings_.cma_disable,
                                  .huge_pages = settings_.huge_pages,
                                  .setup_timeout_ns = settings_.setup_timeout_ns,
                                  .notice = [this](const std::string& line) { log_.warn("{}", line); },
                                  .turn_away = [this](const std::string& line) { log_.info(Subsystem::shm, "{}", line); }};
    ISTHMUS_ASSIGN(auto shm, transport::Shm::create(std::move(options), *crypto, segments_, engine_));
    shm_ = shm.get();
    opened.push_back(std::move(shm));
  }
  if (network_ != nullptr) {
    const transport::TcpOptions options{
        .process = identity_.process, .streams = settings_.tcp_streams, .setup_timeout_ns = settings_.setup_timeout_ns};
    ISTHMUS_ASSIGN(auto tcp, transport::Tcp::make(*network_, engine_, *crypto, options));
    tcp->set_on_refused([this](const std::string& line) {
      ++refused_connections_;
      log_.info(Subsystem::net, "{}", line);
    });
    tcp_ = tcp.get();
    opened.push_back(std::move(tcp));
  }
  for (auto& transport : opened) {
    engine_.add_transport(*transport);
    transports_.push_back(std::move(transport));
  }
  return {};
}

Result<ProcessCard> Process::card() {
  ISTHMUS_TRY(open_transports());
  ProcessCard card{.process = identity_.process,
                   .host = identity_.host,
                   .hostname = identity_.hostname,
                   .pid = identity_.pid,
                   .region = identity_.region,
                   .site = identity_.site,
                   .zone = identity_.zone,
                   .cpus = identity_.cpu_set,
                   .probes = settings_.measures()};
  if (shm_ != nullptr) card.shm = shm_->local_blob();
  if (tcp_ != nullptr) card.tcp = tcp_->local_blob();
  return card;
}

Result<Process::Route> Process::route_to(const ProcessCard& card, uint64_t communicator, const Key& key, int32_t rank) {
  auto known = std::find_if(peers_.begin(), peers_.end(), [&](const KnownPeer& peer) { return peer.process == card.process; });
  const auto id = static_cast<transport::PeerId>(known - peers_.begin());
  if (known == peers_.end()) {
    const bool near = shm_ != nullptr && card.host == identity_.host && !card.shm.empty();
    transport::Transport* transport = near ? shm_ : tcp_;
    if (transport == nullptr || (transport == tcp_ && card.tcp.empty())) {
      return invalid_usage(fmt::format("rank {} on host {} cannot be reached: it shares no host and no network with rank's process {}",
                                       rank, card.hostname, identity_.hostname));
    }
    peers_.push_back({.process = card.process, .transport = transport});
  }
  const Route route{.peer = id, .transport = peers_[id].transport};
  if (id == 0) return route;
  const transport::PeerInfo info{.process = card.process,
                                 .blob = route.transport == shm_ ? card.shm : card.tcp,
                                 .communicator = communicator,
                                 .key = key,
                                 .rank = rank,
                                 .host = card.hostname};
  ISTHMUS_TRY(route.transport->add_peer(route.peer, info));
  return route;
}

void Process::forget_communicator(uint64_t communicator) {
  if (!engine_.has_ranks_of(communicator)) {
    for (const auto& transport : transports_) transport->forget_key(communicator);
  }
  write_trace();
}

std::unique_ptr<Launch> Process::take_launch() {
  if (spare_launches_.empty()) return std::make_unique<Launch>();
  auto launch = std::move(spare_launches_.back());
  spare_launches_.pop_back();
  return launch;
}

void Process::begin(Launch& launch) {
  launch.submit(engine_);
  if (!launch.submitted()) held_launches_.push_back(&launch);
}

void Process::give_launch(std::unique_ptr<Launch> launch) {
  std::erase(held_launches_, launch.get());
  launch->clear();
  spare_launches_.push_back(std::move(launch));
}

uint64_t Process::create_stream() {
  next_stream_ += 16;  // looks like a pointer to programs that print it, and is none
  streams_.emplace(next_stream_, std::make_unique<Stream>());
  return next_stream_;
}

Stream* Process::find_stream(uint64_t handle) {
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second.get();
}

bool Process::has_backlog() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream.second->has_backlog(); });
}

bool Process::awaits(const Endpoint& endpoint) const {
  if (std::any_of(held_launches_.begin(), held_launches_.end(), [&](const Launch* launch) { return launch->awaits(endpoint); }))
    return true;
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) { return entry.second->awaits(endpoint); });
}

void Process::withdraw(const Endpoint& endpoint, const Status& why) {
  for (Launch* launch : held_launches_) launch->withdraw(endpoint, why);
  for (auto& [handle, stream] : streams_) stream->withdraw(endpoint, why);
}

bool Process::poll(TimeNs now) {
  bool moved = engine_.poll(now);
  for (Polled* polled : polled_) moved |= polled->poll(now);
  for (Launch* launch : held_launches_) moved |= launch->submit(engine_);
  std::erase_if(held_launches_, [](const Launch* launch) { return launch->submitted(); });
  for (auto& [handle, stream] : streams_) moved |= stream->poll(engine_, spare_launches_);
  if (trace_ != nullptr && trace_->waiting() >= kTraceBatch) write_trace();
  return moved;
}

bool Process::arm(std::vector<transport::Wait>& waits) {
  bool quiet = true;
  for (const auto& transport : transports_) quiet &= transport->arm(waits);
  return quiet;
}

void Process::disarm() {
  for (const auto& transport : transports_) transport->disarm();
}

}  // namespace isthmus::exec
