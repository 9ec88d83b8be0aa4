// SPDX-License-Identifier: Apache-2.0
// aggregate_round.h: what is different in sums of a cohort. Contributions are added as they become whole, modulo 2^k where they are words.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "federated/aggregate_round.h"

namespace isthmus::federated {

Form Round::form_of(DataType type) const {
  if (is_integer(type)) return Form::integers;
  return masked() ? Form::levels : Form::indices;
}

void Round::set_epoch(uint64_t epoch) {
  rules_.epoch = epoch;
  if (!gathering()) return;
  offers_.reset();
  began_at_ = kNever;
  outcome_->epoch = epoch;
  if (masked()) keeper_->begin({.round = number(), .epoch = epoch});
}

void Round::convene(const RankSet& members, uint32_t quorum) {
  members_ = expected_ = members;
  lost_ = {};
  rules_.quorum = quorum;
}

/// Half of the deadline is for coming, with masks a share of the rest for each further phase.
TimeNs Round::end_of(Phase phase) const {
  if (rules_.deadline_ns == kNever) return kNever;
  const TimeNs eighth = rules_.deadline_ns / 8;
  switch (phase) {
    case Phase::gathering:
      return later(began_at_, 4 * eighth);
    case Phase::sharing:
      return later(began_at_, 5 * eighth);
    case Phase::adding:
      return later(began_at_, masked() ? 7 * eighth : rules_.deadline_ns);
    case Phase::revealing:
      break;
  }
  return later(began_at_, rules_.deadline_ns);
}

/// Without a deadline nobody is waited for who is gone.
bool Round::is_short_of_somebody() const { return rules_.group && rules_.deadline_ns == kNever && (lost_ & ~offers_).any(); }

/// The roster is there: sums begin at zero.
Status Round::begin_group() {
  cohort_ = outcome_->roster;
  AggregateGrid& grid = outcome_->grid;
  if (grid.form() == Form::levels) grid.set_bits(word_bits(cohort_.count(), thc_.config.granularity));
  word_sums_.resize(grid.has_words() ? grid.chunks() : 0);
  index_sums_.resize(grid.has_words() ? 0 : grid.chunks());
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    if (grid.has_words()) word_sums_[chunk].assign(grid.words(chunk), 0);
    if (!grid.has_words()) index_sums_[chunk].assign(grid.sum_bytes(chunk), std::byte{0});
  }
  phase_ = masked() ? Phase::sharing : Phase::adding;
  return masked() ? keeper_->gather(cohort_) : Status();
}

/// As they come: what is kept of all does not grow with their number. Those of a rank that goes again stay, and make sums a little coarser.
void Round::join_early(std::span<const std::byte> scales) {
  if (offers_.none()) joined_.assign(scales.size(), std::byte{0});
  for (uint64_t i = 0; i < scales.size() / 4; ++i) write_scale(joined_, i, std::max(scale_at(joined_, i), scale_at(scales, i)));
}

// --- shares ----------------------------------------------------------------------------------------------------------------------

Status Round::share(uint32_t rank, std::span<const std::byte> body) {
  if (!masked()) return remote_error("it sends shares, and nothing is masked");
  const bool counts = phase_ == Phase::sharing && !gathering() && !over() && outcome_->roster[rank];
  return counts ? keeper_->take_shares(rank, body) : Status();
}

bool Round::wait_for_shares(TimeNs now) {
  const RankSet waiting = outcome_->roster & ~keeper_->shared();
  if (waiting.any() && now < end_of(Phase::sharing)) return false;
  if (waiting.any()) {
    outcome_->late |= waiting;
    drop(waiting, Code::timeout);
    if (over()) return true;
  }
  keeper_->close_sharing(outcome_->roster);
  outcome_->sharing_closed = true;
  phase_ = Phase::adding;
  return true;
}

// --- contributions ---------------------------------------------------------------------------------------------------------------

bool Round::is_paused(uint32_t rank) const { return rules_.group && phase_ == Phase::adding && !uploading_[rank] && is_due_from(rank); }

bool Round::admits(uint32_t rank) {
  if (!is_paused(rank)) return true;
  if (has_room()) uploading_.set(rank);
  return uploading_[rank];
}

/// Whether its sender may send a vector of this weight now.
Status Round::check_vector(uint64_t weight) const {
  if (phase_ != Phase::adding) return remote_error("it sends its vector before masks are settled");
  const uint64_t most = units_of_weight(rules_.group->largest_weight);
  if (masked() || weight <= most) return {};
  return remote_error(fmt::format("its weight is {}, and {} is the largest in this cohort", weight_of(weight), weight_of(most)));
}

/// Adds of vectors that are whole as much as is for one poll, so that links are looked after meanwhile. Their memory is for the next ones.
bool Round::absorb() {
  const AggregateGrid& grid = outcome_->grid;
  uint64_t done = 0;
  while (!whole_.empty() && done < rules_.elements_at_once) {
    const uint32_t rank = whole_.front();
    add_chunk(absorbed_, held_[rank][absorbed_]);
    done += grid.elements(absorbed_);
    if (++absorbed_ < grid.chunks()) continue;
    absorbed_ = 0;
    whole_.pop_front();
    spare_.push_back(std::move(held_[rank]));
    held_[rank].clear();
    uploading_.reset(rank);
  }
  return done > 0;
}

void Round::add_chunk(uint32_t chunk, std::span<const std::byte> from) {
  const AggregateGrid& grid = outcome_->grid;
  if (grid.has_words()) return add_packed(word_sums_[chunk], from, grid.bits());
  auto* sum = reinterpret_cast<uint8_t*>(index_sums_[chunk].data());
  const uint32_t room = AggregateGrid::room(thc_);
  target_.thc.accumulate(sum, room, sum, room, reinterpret_cast<const uint8_t*>(from.data()), 1, grid.units(chunk), thc_);
}

bool Round::wait_for_commit(TimeNs now) {
  const RankSet waiting = outcome_->roster & ~complete_;
  if (waiting.any() && now < end_of(Phase::adding) && outcome_->grid.chunks() > 0) return false;
  if (waiting.any() && outcome_->grid.chunks() > 0) {
    outcome_->late |= waiting;
    drop(waiting, Code::timeout);
  }
  if (!over()) commit();
  return true;
}

void Round::commit() {
  outcome_->committed = true;
  if (!masked()) return;
  phase_ = Phase::revealing;
  if (Status status = keeper_->commit(outcome_->roster); !status.ok()) fail(status.with_context(fmt::format("round {}", number())));
}

// --- uncovering ------------------------------------------------------------------------------------------------------------------

Status Round::reveal(uint32_t rank, std::span<const std::byte> body) {
  if (!masked()) return remote_error("it reveals shares, and nothing is masked");
  const bool counts = phase_ == Phase::revealing && outcome_->committed && !over() && outcome_->roster[rank];
  return counts ? keeper_->take_reveal(rank, body) : Status();
}

/// Who is gone does not reveal, and need not be waited for.
bool Round::wait_for_reveals(TimeNs now) {
  if (keeper_->complete()) return uncover();
  const RankSet silent = outcome_->roster & ~keeper_->revealed();
  const bool nobody_left = (silent & ~gone_).none();
  if (!nobody_left && now < end_of(Phase::revealing)) return false;
  std::string why =
      fmt::format("round {}: {}; rank {} did not reveal its own", number(), keeper_->lacking(), number_ranges(ranks_of(silent)));
  fail(nobody_left ? remote_error(std::move(why)) : timeout_error(std::move(why)));
  return true;
}

bool Round::uncover() {
  Status status = keeper_->uncover();
  if (status.ok()) {
    const auto weight = keeper_->unmask_weight(outcome_->weight_sum);
    status = weight.status();
    if (weight.ok()) outcome_->weight_sum = *weight;
  }
  if (status.ok() && outcome_->weight_sum > outcome_->roster.count() * units_of_weight(rules_.group->largest_weight))
    status = remote_error("its weights add up to more than its ranks may have: somebody sent a wrong one");
  if (!status.ok()) fail(status.with_context(fmt::format("round {}", number())));
  phase_ = Phase::adding;  // and then what is left is taking masks away
  return true;
}

/// Everything is added: chunk after chunk loses its masks, as many as is for one poll, and is a sum.
bool Round::finish_group() {
  const AggregateGrid& grid = outcome_->grid;
  const size_t masks = masked() ? keeper_->masks() : 0;
  auto& sums = outcome_->sums;
  for (uint64_t done = 0; sums.size() < grid.chunks() && done < rules_.elements_at_once;) {
    const auto chunk = static_cast<uint32_t>(sums.size());
    if (unmasked_ < masks) {
      const uint64_t left = (rules_.elements_at_once - done) / grid.words(chunk);
      const auto some = static_cast<size_t>(std::clamp<uint64_t>(left, 1, masks - unmasked_));
      if (Status status = keeper_->unmask(chunk, grid.bits(), word_sums_[chunk], unmasked_, some); !status.ok()) {
        fail(std::move(status));
        return true;
      }
      unmasked_ += some;
      done += some * grid.words(chunk);
      continue;
    }
    sums.push_back(std::make_shared<const std::vector<std::byte>>(write_group_sum(chunk)));
    unmasked_ = 0;
    done += grid.elements(chunk);
  }
  outcome_->finished = sums.size() == grid.chunks();
  return true;
}

std::vector<std::byte> Round::write_group_sum(uint32_t chunk) const {
  const AggregateGrid& grid = outcome_->grid;
  std::vector<std::byte> body = encode(SumsHead{.round = number(), .edition = outcome_->edition, .chunk = chunk}, grid.sum_bytes(chunk));
  const std::span<std::byte> to = std::span(body).subspan(SumsHead::kBytes);
  if (grid.has_words()) {
    pack_words(word_sums_[chunk], grid.bits(), to);
  } else {
    std::copy(index_sums_[chunk].begin(), index_sums_[chunk].end(), to.begin());
  }
  return body;
}

}  // namespace isthmus::federated
