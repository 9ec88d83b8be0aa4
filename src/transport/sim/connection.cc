// SPDX-License-Identifier: Apache-2.0
// Simulated connections. Acknowledgements and window announcements cost latency but no bandwidth; what a block swallows is sent
// again when the block ends. Errors are what TCP reports, with the peer's address.
#include "transport/sim/connection.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "transport/sim/network.h"

namespace isthmus::transport::sim {

namespace {

constexpr int kKnocks = 7;  // with doubling pauses from one second: two minutes, as Linux does
constexpr int kDepartingAtOnce = 4;
constexpr uint64_t kPacketBytes = 1460;
constexpr uint64_t kMaxSegmentBytes = 64 << 10;
constexpr TimeNs kSegmentTimeNs = 100 * kMicrosecondNs;
constexpr uint64_t kSendBufferBytes = 4 << 20;
constexpr uint64_t kReceiveBufferBytes = 8 << 20;
constexpr TimeNs kUserTimeoutNs = 900 * kSecondNs;

/// Small enough that streams share a slow line fairly, large enough that a fast one costs few events.
uint64_t segment_bytes(double rate_bytes_per_s) {
  if (rate_bytes_per_s <= 0) return kMaxSegmentBytes;
  const double wanted = rate_bytes_per_s * static_cast<double>(kSegmentTimeNs) * 1e-9;
  return std::clamp(static_cast<uint64_t>(std::min(wanted, 1e9)), kPacketBytes, kMaxSegmentBytes);
}

TimeNs draw_below(CounterRng& dice, TimeNs limit) { return limit > 0 ? static_cast<TimeNs>(dice.below(static_cast<uint64_t>(limit))) : 0; }

double segment_loss(const LinkModel& model, uint64_t bytes) {
  if (model.loss <= 0) return 0;
  const uint64_t packets = (bytes + kPacketBytes - 1) / kPacketBytes;
  return 1 - std::pow(1 - model.loss, static_cast<double>(packets));
}

TimeNs retransmit_ns(const LinkModel& model) {
  return model.retransmit_ns > 0 ? model.retransmit_ns : 2 * model.latency_ns + kMillisecondNs;
}

}  // namespace

void ByteQueue::pop(std::span<std::byte> into) {
  std::memcpy(into.data(), bytes_.data() + first_, into.size());
  first_ += into.size();
  if (2 * first_ < bytes_.size()) return;
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(first_));
  first_ = 0;
}

Connection::Connection(State& state, SimHost client, SimHost server, uint16_t port, const StreamOptions& options)
    : state_(state),
      id_(state.connections_made++),
      hosts_{client, server},
      addresses_{state.hosts[client]->address, state.hosts[server]->address},
      user_timeout_ns_(options.user_timeout_ns > 0 ? options.user_timeout_ns : kUserTimeoutNs) {
  addresses_[kClient].port = state.hosts[client]->next_port++;
  addresses_[kServer].port = port;
  for (Pipe& pipe : pipes_) {
    pipe.send_buffer_bytes = options.send_buffer_bytes > 0 ? options.send_buffer_bytes : kSendBufferBytes;
    pipe.receive_buffer_bytes = options.receive_buffer_bytes > 0 ? options.receive_buffer_bytes : kReceiveBufferBytes;
  }
}

template <typename Action>
void Connection::after(TimeNs delay, Action action) {
  state_.events.after(delay, [self = shared_from_this(), action = std::move(action)] { action(*self); });
}

// --- connecting --------------------------------------------------------------------------------------------------------------

void Connection::knock(int attempt) {
  if (closed_[kClient]) return;
  if (attempt == kKnocks) {
    errors_[kClient] = remote_error(fmt::format("connect to {}: Connection timed out", to_string(addresses_[kServer])));
    return;
  }
  if (!passes(kClient) || !passes(kServer)) return knock_later(attempt);
  const LinkModel& model = route(kClient).model;
  after(model.latency_ns + draw_below(state_.dice, model.jitter_ns), [attempt](Connection& self) { self.answer_knock(attempt); });
}

void Connection::knock_later(int attempt) {
  after(kSecondNs << attempt, [attempt](Connection& self) { self.knock(attempt + 1); });
}

void Connection::answer_knock(int attempt) {
  if (!passes(kClient) || !passes(kServer)) return knock_later(attempt);
  const auto& listeners = state_.hosts[hosts_[kServer]]->listeners;
  const auto listener = listeners.find(addresses_[kServer].port);
  const TimeNs back = route(kServer).model.latency_ns;
  state_.events.note(hash_combine(id_, listeners.size()));
  if (listener == listeners.end()) {
    after(back, [](Connection& self) {
      self.errors_[kClient] = remote_error(fmt::format("connect to {}: Connection refused", to_string(self.addresses_[kServer])));
    });
    return;
  }
  if (!listener->second->offer(shared_from_this())) return knock_later(attempt);
  established_[kServer] = true;
  after(back, [](Connection& self) {
    self.established_[kClient] = true;
    self.pump(kClient);
  });
}

// --- moving bytes ------------------------------------------------------------------------------------------------------------

Result<size_t> Connection::write(int end, std::span<const std::byte> first, std::span<const std::byte> second) {
  ISTHMUS_TRY(check_alive(end));
  Pipe& pipe = pipes_[end];
  const uint64_t unacknowledged = pipe.written - pipe.acked;
  const uint64_t room = established_[end] ? pipe.send_buffer_bytes - unacknowledged : 0;
  const size_t from_first = std::min<uint64_t>(first.size(), room);
  const size_t from_second = std::min<uint64_t>(second.size(), room - from_first);
  const size_t accepted = from_first + from_second;
  pipe.bytes.push(first.first(from_first));
  pipe.bytes.push(second.first(from_second));
  if (unacknowledged == 0) pipe.progress_at = state_.events.now();
  pipe.written += accepted;
  pipe.refused = accepted < first.size() + second.size();
  pump(end);
  return accepted;
}

Result<size_t> Connection::read(int end, std::span<std::byte> bytes) {
  if (bytes.empty()) return size_t{0};
  if (state_.hosts[hosts_[end]]->crashed) return errors_[end];
  Pipe& pipe = pipes_[1 - end];
  const size_t got = std::min<uint64_t>(bytes.size(), pipe.arrived - pipe.read);
  if (got > 0) {
    pipe.bytes.pop(bytes.first(got));
    pipe.read += got;
    announce_window(1 - end);
    return got;
  }
  if (pipe.fin_arrived && pipe.read == pipe.written) return remote_error(fmt::format("{} closed by peer", to_string(peer_address(end))));
  ISTHMUS_TRY(check_alive(end));
  return size_t{0};
}

void Connection::pump(int pipe_index) {
  Pipe& pipe = pipes_[pipe_index];
  if (!established_[pipe_index] || !passes(pipe_index)) return;  // the answer to the knock or the end of the block comes back here
  const uint64_t largest = segment_bytes(route(pipe_index).rate_bytes_per_s());
  const uint64_t window_end = pipe.window_from + pipe.receive_buffer_bytes;
  while (pipe.sent < std::min(pipe.written, window_end)) {
    if (pipe.departing >= kDepartingAtOnce) return;
    send_segment(pipe_index, std::min(largest, std::min(pipe.written, window_end) - pipe.sent));
  }
  if (pipe.fin && !pipe.fin_sent && pipe.sent == pipe.written) send_segment(pipe_index, 0);
}

void Connection::send_segment(int pipe_index, uint64_t bytes) {
  Pipe& pipe = pipes_[pipe_index];
  Route& way = route(pipe_index);
  const TimeNs now = state_.events.now();
  const TimeNs departed = way.depart(now, bytes);
  TimeNs arrival = departed + way.model.latency_ns + draw_below(state_.dice, way.model.jitter_ns);
  if (way.model.loss > 0 && state_.dice.chance(segment_loss(way.model, bytes))) arrival += retransmit_ns(way.model);
  const bool breaks = way.model.break_chance > 0 && state_.dice.chance(way.model.break_chance);
  pipe.last_arrival = std::max(arrival, pipe.last_arrival);
  pipe.sent += bytes;
  const bool fin = bytes == 0;
  pipe.fin_sent |= fin;
  const uint32_t attempt = pipe.attempt;
  if (departed > now) {
    ++pipe.departing;
    after(departed - now, [pipe_index, attempt](Connection& self) {
      if (self.pipes_[pipe_index].attempt != attempt) return;
      --self.pipes_[pipe_index].departing;
      self.pump(pipe_index);
    });
  }
  after(pipe.last_arrival - now, [pipe_index, attempt, offset = pipe.sent, fin, breaks](Connection& self) {
    if (self.pipes_[pipe_index].attempt != attempt) return;
    if (breaks) return self.reset_both();
    self.arrive(pipe_index, offset, fin);
  });
}

void Connection::arrive(int pipe_index, uint64_t offset, bool fin) {
  if (!passes(pipe_index)) return;  // lost; the end of the block sends it again
  Pipe& pipe = pipes_[pipe_index];
  state_.events.note(hash_combine(2 * id_ + static_cast<uint64_t>(pipe_index), offset));
  const uint64_t fresh = offset > pipe.arrived ? offset - pipe.arrived : 0;
  pipe.arrived += fresh;
  pipe.fin_arrived |= fin;
  route(pipe_index).carried_bytes += fresh;
  if (closed_[1 - pipe_index] && fresh > 0) reset(pipe_index);
  acknowledge(pipe_index);
}

void Connection::acknowledge(int pipe_index) {
  const Pipe& pipe = pipes_[pipe_index];
  after(route(1 - pipe_index).model.latency_ns, [pipe_index, arrived = pipe.arrived, read = pipe.read](Connection& self) {
    if (!self.passes(1 - pipe_index)) return;  // the end of the block acknowledges again
    Pipe& acknowledged = self.pipes_[pipe_index];
    acknowledged.acked = std::max(acknowledged.acked, arrived);
    acknowledged.window_from = std::max(acknowledged.window_from, read);
    acknowledged.progress_at = self.state_.events.now();
    self.pump(pipe_index);
  });
}

void Connection::announce_window(int pipe_index) {
  Pipe& pipe = pipes_[pipe_index];
  if (pipe.read - pipe.announced_read < pipe.receive_buffer_bytes / 4) return;
  pipe.announced_read = pipe.read;
  acknowledge(pipe_index);
}

// --- faults ------------------------------------------------------------------------------------------------------------------

void Connection::unblocked(SimHost from, SimHost to) {
  for (int pipe = 0; pipe < 2; ++pipe) {
    if (hosts_[pipe] == from && hosts_[1 - pipe] == to) resend_lost(pipe);
    if (hosts_[pipe] == to && hosts_[1 - pipe] == from && established_[pipe]) acknowledge(pipe);
  }
}

void Connection::resend_lost(int pipe_index) {
  Pipe& pipe = pipes_[pipe_index];
  if (pipe.sent > pipe.arrived || (pipe.fin_sent && !pipe.fin_arrived)) {
    ++pipe.attempt;
    pipe.sent = pipe.arrived;
    pipe.fin_sent = false;
    pipe.departing = 0;
    pipe.last_arrival = state_.events.now();
  }
  const TimeNs pause = draw_below(state_.dice, retransmit_ns(route(pipe_index).model));
  after(pause, [pipe_index](Connection& self) { self.pump(pipe_index); });
}

void Connection::close(int end) {
  if (closed_[end]) return;
  closed_[end] = true;
  const Pipe& incoming = pipes_[1 - end];
  if (incoming.arrived > incoming.read) return reset(1 - end);
  pipes_[end].fin = true;
  pump(end);
}

void Connection::host_gone(int end, SimCrash how) {
  errors_[end] = system_error(fmt::format("host {} has crashed", state_.hosts[hosts_[end]]->name));
  if (how == SimCrash::killed) close(end);
  closed_[end] = true;
}

void Connection::reset(int end) {
  after(route(1 - end).model.latency_ns, [end](Connection& self) {
    if (!self.passes(1 - end) || !self.errors_[end].ok()) return;
    self.state_.events.note(hash_combine(self.id_, static_cast<uint64_t>(end)));
    self.errors_[end] = remote_error(fmt::format("{}: Connection reset by peer", to_string(self.peer_address(end))));
  });
}

void Connection::reset_both() {
  reset(kClient);
  reset(kServer);
}

Status Connection::check_alive(int end) {
  const Pipe& pipe = pipes_[end];
  const bool waiting = pipe.acked < pipe.written;
  if (errors_[end].ok() && waiting && state_.events.now() - pipe.progress_at > user_timeout_ns_) {
    errors_[end] = remote_error(fmt::format("{}: Connection timed out", to_string(peer_address(end))));
  }
  return errors_[end];
}

}  // namespace isthmus::transport::sim
