// SPDX-License-Identifier: Apache-2.0
// aggregate_round.h.
#include "federated/aggregate_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/text.h"

namespace isthmus::federated {
namespace {

constexpr size_t kSumsAtOnce = 4;
constexpr size_t kMostNamed = 8;

template <typename Body>
void for_each_rank(const RankSet& set, uint32_t ranks, const Body& body) {
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (set[rank]) body(rank);
}

std::shared_ptr<Outcome> blank(uint64_t number, uint64_t epoch) {
  auto outcome = std::make_shared<Outcome>();
  outcome->round = number;
  outcome->epoch = epoch;
  return outcome;
}

}  // namespace

Round::Round(uint64_t number, const codec::Thc& thc, const kernels::Target& target, const RoundRules& rules, Describe describe)
    : thc_(thc),
      target_(target),
      rules_(rules),
      describe_(std::move(describe)),
      outcome_(blank(number, rules.epoch)),
      own_scales_(rules.ranks),
      held_(rules.ranks),
      received_(rules.ranks) {
  for (uint32_t rank = 0; rank < rules.ranks; ++rank) members_.set(rank);
  expected_ = members_;
  if (masked()) keeper_.emplace(*rules_.masking, rules_.group->masks, rules_.mask_seed);
  if (masked()) keeper_->begin({.round = number, .epoch = rules_.epoch});
}

void Round::next() {
  outcome_ = blank(outcome_->round + 1, rules_.epoch);
  offers_.reset();
  complete_.reset();
  std::fill(received_.begin(), received_.end(), 0);
  began_at_ = adding_since_ = first_through_at_ = kNever;
  cohort_ = uploading_ = gone_ = {};
  whole_.clear();
  absorbed_ = 0;
  unmasked_ = 0;
  if (rules_.group) {  // who was left out in the middle keeps nothing
    for (Chunks& held : held_) held.clear();
  }
  phase_ = Phase::gathering;
  if (masked()) keeper_->begin({.round = number(), .epoch = rules_.epoch});
}

bool Round::poll(TimeNs now) {
  if (over()) return false;
  if (gathering()) return gather(now);
  if (phase_ == Phase::sharing) return wait_for_shares(now);
  if (rules_.group && !outcome_->committed) return absorb() || wait_for_commit(now);
  if (phase_ == Phase::revealing) return wait_for_reveals(now);
  return rules_.group ? finish_group() : wait_for_indices(now) || add_up();
}

TimeNs Round::due() const {
  if (over()) return kNever;
  if (rules_.group) return end_of(phase_);
  if (gathering()) return later(began_at_, enough(offers_) ? rules_.deadline_ns : rules_.limit_ns);
  const TimeNs limit = later(adding_since_, rules_.limit_ns);
  return enough(through()) ? std::min(limit, later(first_through_at_, rules_.deadline_ns)) : limit;
}

// --- who takes part --------------------------------------------------------------------------------------------------------------

Status Round::offer(uint32_t rank, const Signature& signature, std::span<const std::byte> scales, TimeNs now) {
  if (signature.count > rules_.max_elements) {
    return remote_error(fmt::format("it offers {} elements, where it was told that {} are the most", signature.count, rules_.max_elements));
  }
  const Form form = form_of(signature.type);
  if (form == Form::integers && (!rules_.group || signature.op != ReduceOp::sum))
    return remote_error("it offers integers, which are not for this");
  const AggregateGrid grid(thc_, signature.count, rules_.chunk_elements, form, kMaxWordBits);
  const uint64_t own = masked() ? 0 : grid.groups();
  if (scales.size() != (masked() ? Advertisement::kBytes : 4 * own)) {
    return remote_error(fmt::format("it offers {} bytes of scales for {} elements", scales.size(), signature.count));
  }
  for (uint64_t i = 0; i < own; ++i) {
    if (!is_scale(scale_at(scales, i))) return remote_error(fmt::format("its scale {} is none: {:08x}", i, scale_at(scales, i)));
  }
  if (offers_.none()) {
    outcome_->signature = signature;
    outcome_->grid = grid;
    began_at_ = now;
  } else if (signature != outcome_->signature) {
    fail(invalid_usage(fmt::format("round {}: rank {} wants the {}, but rank {} the {}", number(), rank, to_string(signature),
                                   ranks_of(offers_).front(), to_string(outcome_->signature))));
    return {};
  }
  if (masked()) {
    ISTHMUS_TRY(keeper_->advertise(rank, scales));
  } else if (rules_.group) {
    join_early(scales);
  } else {
    own_scales_[rank].assign(scales.begin(), scales.end());
  }
  offers_.set(rank);
  gone_.reset(rank);
  return {};
}

bool Round::gather(TimeNs now) {
  if (offers_.none()) return false;
  const TimeNs deadline = rules_.group ? end_of(Phase::gathering) : later(began_at_, rules_.deadline_ns);
  const bool patient = now < deadline && (expected_ & ~offers_).any();
  if (enough(offers_) && ((members_ & ~offers_).none() || !patient)) {
    outcome_->roster = offers_;
    adding_since_ = now;
    if (rules_.group) {
      if (Status begun = begin_group(); !begun.ok()) {
        fail(std::move(begun));
        return true;
      }
    } else {
      for_each_rank(offers_, rules_.ranks, [&](uint32_t rank) { held_[rank].resize(outcome_->grid.chunks()); });
    }
    join_scales();
    return true;
  }
  if (is_short_of_somebody()) {
    fail(remote_error(shortage("are there, and without a deadline all must be", offers_)));
    return true;
  }
  if (now < (rules_.group ? deadline : later(began_at_, rules_.limit_ns))) return false;
  const TimeNs waited = rules_.group ? deadline - began_at_ : rules_.limit_ns;
  fail(timeout_error(shortage(fmt::format("came within {}", duration_text(waited)), offers_)));
  return true;
}

/// The largest of every group, as unsigned integers: positive floats are ordered like their bits, and not-a-number wins. Masked, nobody's
/// norms are for others: what follows from the rules that all have agreed on.
void Round::join_scales() {
  const uint64_t groups = outcome_->grid.groups();
  std::vector<std::byte> body = encode(Scales{.round = number(), .scales = {}}, groups);
  const std::span<std::byte> joined = std::span(body).subspan(kScalesHeadBytes);
  if (masked() && groups > 0) write_masked_scales(joined);
  if (rules_.group && !masked()) std::copy(joined_.begin(), joined_.end(), joined.begin());
  if (!rules_.group)
    for_each_rank(offers_, rules_.ranks, [&](uint32_t rank) {
      for (uint64_t i = 0; i < groups; ++i) write_scale(joined, i, std::max(scale_at(joined, i), scale_at(own_scales_[rank], i)));
    });
  outcome_->scales = std::make_shared<const std::vector<std::byte>>(std::move(body));
}

void Round::write_masked_scales(std::span<std::byte> joined) const {
  const AggregateGrid& grid = outcome_->grid;
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    const uint64_t elements = grid.elements(chunk);
    for (uint64_t at = 0; at < thc_.groups(elements); ++at) {
      const codec::Piece group = thc_.group(elements, at);
      const float scale = masked_scale(*rules_.group, grid.count(), present(group, elements), group.elements);
      write_scale(joined, grid.first_group(chunk) + at, std::bit_cast<uint32_t>(scale));
    }
  }
}

// --- indices and sums ------------------------------------------------------------------------------------------------------------

Status Round::add(uint32_t rank, uint32_t chunk, std::span<const std::byte> indices, TimeNs now, uint64_t weight) {
  const AggregateGrid& grid = outcome_->grid;
  if (rules_.group) ISTHMUS_TRY(check_vector(weight));
  if (chunk != received_[rank] || chunk >= grid.chunks())
    return remote_error(fmt::format("it sends chunk {} of {} where {} is due", chunk, grid.chunks(), received_[rank]));
  if (indices.size() != grid.index_bytes(chunk)) {
    return remote_error(fmt::format("its chunk {} has {} bytes instead of {}", chunk, indices.size(), grid.index_bytes(chunk)));
  }
  if (rules_.group && chunk == 0 && !spare_.empty()) {
    held_[rank] = std::move(spare_.back());
    spare_.pop_back();
  }
  if (rules_.group) held_[rank].resize(grid.chunks());
  held_[rank][chunk].assign(indices.begin(), indices.end());
  if (++received_[rank] == grid.chunks()) {
    complete_.set(rank);
    first_through_at_ = std::min(first_through_at_, now);
    if (rules_.group) {
      outcome_->weight_sum += weight;
      whole_.push_back(rank);
    }
  }
  return {};
}

void Round::lose(uint32_t rank) {
  lost_.set(rank);
  gone_.set(rank);
  if (gathering() && offers_[rank]) {
    offers_.reset(rank);
    if (offers_.none()) began_at_ = kNever;
  } else if (is_due_from(rank)) {
    drop(RankSet().set(rank), Code::remote_error);
  }
}

bool Round::wait_for_indices(TimeNs now) {
  const RankSet waiting = outcome_->roster & ~complete_;
  if (waiting.none() || outcome_->grid.chunks() == 0) return false;
  const bool patient = now < later(first_through_at_, rules_.deadline_ns) || !enough(through());
  if (patient && now < later(adding_since_, rules_.limit_ns)) return false;
  outcome_->late |= waiting;
  drop(waiting, Code::timeout);
  return true;
}

void Round::drop(const RankSet& ranks, Code code) {
  outcome_->roster &= ~ranks;
  uploading_ &= ~ranks;
  ++outcome_->edition;
  outcome_->sums.clear();
  if (!enough(outcome_->roster)) fail(Status(code, shortage("are left to be added", outcome_->roster)));
}

bool Round::add_up() {
  const uint32_t chunks = outcome_->grid.chunks();
  uint32_t ready = chunks;
  for_each_rank(outcome_->roster, rules_.ranks, [&](uint32_t rank) { ready = std::min(ready, received_[rank]); });
  auto& sums = outcome_->sums;
  const size_t before = sums.size();
  while (sums.size() < std::min<size_t>(ready, before + kSumsAtOnce)) {
    sums.push_back(std::make_shared<const std::vector<std::byte>>(write_sum(static_cast<uint32_t>(sums.size()))));
  }
  outcome_->finished = sums.size() == chunks;
  return outcome_->finished || sums.size() > before;
}

std::vector<std::byte> Round::write_sum(uint32_t chunk) const {
  const AggregateGrid& grid = outcome_->grid;
  std::vector<std::byte> body = encode(SumsHead{.round = number(), .edition = outcome_->edition, .chunk = chunk}, grid.sum_bytes(chunk));
  auto* sum = reinterpret_cast<uint8_t*>(body.data() + SumsHead::kBytes);
  const uint32_t room = AggregateGrid::room(thc_);
  for_each_rank(outcome_->roster, rules_.ranks, [&](uint32_t rank) {
    const auto* indices = reinterpret_cast<const uint8_t*>(held_[rank][chunk].data());
    target_.thc.accumulate(sum, room, sum, room, indices, 1, grid.units(chunk), thc_);
  });
  return body;
}

// --- the end ---------------------------------------------------------------------------------------------------------------------

void Round::fail(Status why) {
  outcome_->sums.clear();
  outcome_->failure = std::move(why);
}

std::string Round::shortage(std::string_view what, const RankSet& here) const {
  std::string missing;
  size_t named = 0;
  for (uint32_t rank = 0; rank < rules_.ranks; ++rank) {
    if (here[rank] || !members_[rank] || ++named > kMostNamed) continue;
    missing += fmt::format("{}rank {} ({})", missing.empty() ? "" : ", ", rank, describe_(rank));
  }
  if (named > kMostNamed) missing += fmt::format(" and {} more", named - kMostNamed);
  return fmt::format("round {}: {} of {} ranks {}, and the quorum is {}; missing: {}", number(), here.count(), members_.count(), what,
                     rules_.quorum, missing);
}

}  // namespace isthmus::federated
