// SPDX-License-Identifier: Apache-2.0
// What a communicator that was surveyed does besides: it may learn where its ranks are; and where its links are watched (drift.h), calls
// wait when all ranks are about to change over, those that were planned before are planned anew, and the time of each is told. Called by
// the engine and by launches, under the driver's lock.
#include "comm/communicator.h"
#include "comm/drift.h"

namespace isthmus::comm {

void Communicator::take_sites(std::span<const int32_t> sites) {
  for (size_t rank = 0; rank < sites.size(); ++rank) membership_.cards[rank].site = topology::measured_name(sites[rank]);
  find_sites(membership_);
  process_.log().info(Subsystem::init, "communicator {:#x}: {}, as round trips tell", membership_.id, layout_of(membership_).text());
  const Settings& settings = process_.settings();
  auto compression = Compression::make(settings.compression, settings.compression_required, process_.codecs(), ranks(), membership_.name,
                                       !membership_.sites.empty());
  if (compression.ok()) compression_ = std::move(*compression);
}

void Communicator::watch_drift(std::unique_ptr<Drift> drift) {
  drift_ = std::move(drift);
  endpoint_->timed = true;
}

bool Communicator::admitted() const { return closed() || drift_->admits(); }

bool Communicator::admits(exec::Call& call) {
  if (!may_begin()) return false;
  const bool stale = call.choices != choices_number_ && call.signature.coding.empty();
  if (!stale || !state().ok()) return true;
  if (const Status planned = plan_anew(call); !planned.ok()) fail(planned);  // then the call cannot begin, and says why
  return true;
}

Status Communicator::plan_anew(exec::Call& call) {
  Request request{.collective = call.signature.collective, .in = call.in, .out = call.out, .count = call.signature.count};
  request.type = call.signature.type;
  request.op = {.op = call.signature.op, .scaled = call.signature.scaled, .scalar = call.scalar};
  request.root = call.signature.root;
  request.in_place = in_place(request);
  return plan_call(request, request.root, call);
}

void Communicator::on_ended(const exec::Run& run, TimeNs took_ns) {
  const exec::Signature& signature = run.signature();
  if (drift_ == nullptr || run.call_class() != wire::CallClass::collective || !signature.coding.empty()) return;
  const uint64_t bytes = larger_buffer_bytes(signature.collective, signature.type, signature.count);
  const auto decision = choices_.decide(signature.collective, bytes);
  if (!decision.ok() || decision->origin != collectives::Origin::planned) return;
  drift_->add(signature.collective, bytes, decision->choice, took_ns);
}

}  // namespace isthmus::comm
