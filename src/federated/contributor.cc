// SPDX-License-Identifier: Apache-2.0
// contributor.h.
#include "federated/contributor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "federated/aggregator.h"

namespace isthmus::federated {
namespace {

constexpr int kMessagesAtOnce = 8, kChunksAtOnce = 4;
constexpr size_t kQueuedBytes = 256 << 10;  // of indices, beyond what the system holds; then encoding waits

bool overlap(const Contribution& contribution) {
  const auto in = reinterpret_cast<uintptr_t>(contribution.in), out = reinterpret_cast<uintptr_t>(contribution.out);
  const uint64_t bytes = contribution.signature.count * size_of(contribution.signature.type);
  return in != out && in < out + bytes && out < in + bytes;
}

Status check(const Contribution& contribution, const std::optional<GroupRules>& group) {
  const Signature& signature = contribution.signature;
  const bool words = group && signature.op == ReduceOp::sum && (signature.type == DataType::uint32 || signature.type == DataType::int32);
  const bool is_float = signature.type == DataType::float32 || signature.type == DataType::float16 || signature.type == DataType::bfloat16;
  if (group && contribution.weight > units_of_weight(group->largest_weight)) {
    return invalid_argument(
        fmt::format("a weight of {}: {} is the largest in this cohort", weight_of(contribution.weight), group->largest_weight));
  }
  if (group && signature.count == 0) return invalid_argument("a cohort's sum has at least one element");
  if (!is_float && !words)
    return invalid_argument(fmt::format("elements of type {}: float, half and bfloat16 are served", name_of(signature.type)));
  if (signature.op != ReduceOp::sum && signature.op != ReduceOp::avg) {
    return invalid_argument(fmt::format("operator {}: sum and avg are served", name_of(signature.op)));
  }
  if (signature.count == 0) return {};
  if (contribution.in == nullptr || contribution.out == nullptr) return invalid_argument("a buffer is NULL");
  if (signature.count >= uint64_t{1} << 56)
    return invalid_argument(fmt::format("{} elements are more than any memory has", signature.count));
  if (overlap(contribution)) return invalid_argument("the buffers overlap: they must be the same or have nothing in common");
  return {};
}

Status unexpected(std::string_view what) { return remote_error(fmt::format("it sends {} that is not for now", what)); }

}  // namespace

Result<std::unique_ptr<Contributor>> Contributor::make(const bootstrap::Surroundings& surroundings, const Key& key,
                                                       ContributorOptions options) {
  if (options.ranks < 1 || options.ranks > kMaxContributors || options.rank >= options.ranks) {
    return invalid_argument(fmt::format("rank {} of {} ranks: an aggregator has 1 to {} ranks, numbered from 0", options.rank,
                                        options.ranks, kMaxContributors));
  }
  if (options.thc && options.thc->ranks != options.ranks) return internal_error("the codec was made for another number of ranks");
  std::unique_ptr<Contributor> made(new Contributor(surroundings, key, std::move(options)));
  // Who comes again is known by this: not by the process, in which there may be several.
  ISTHMUS_TRY(surroundings.random(std::as_writable_bytes(std::span(made->surroundings_.process))));
  return made;
}

Contributor::Contributor(const bootstrap::Surroundings& surroundings, const Key& key, ContributorOptions options)
    : surroundings_(surroundings), key_(key), options_(std::move(options)), thc_(options_.thc) {}

void Contributor::connect(TimeNs now) {
  if (state_ != State::away) return;
  const wire::Hello mine{.communicator = aggregator_number(),
                         .rank = static_cast<int32_t>(options_.rank),
                         .ranks = static_cast<int32_t>(options_.ranks),
                         .purpose = wire::Purpose::aggregate,
                         .process = surroundings_.process};
  approach_.emplace(surroundings_, options_.addresses, mine, key_, "aggregator",
                    transport::StreamOptions{.user_timeout_ns = options_.peer_timeout_ns});
  state_ = State::reaching;
  reach_by_ = later(now, options_.reach_timeout_ns);
  due_at_ = now;
}

Status Contributor::begin(const Contribution& contribution, TimeNs now) {
  if (call_) return invalid_usage("a sum is under way already");
  ISTHMUS_TRY(check(contribution, options_.group));
  if (link_ && !hear(now).ok()) let_go();  // it went while nobody looked
  if (state_ == State::ready) ISTHMUS_TRY(fits(contribution.signature.count));
  call_ = contribution;
  result_ = {};
  heard_at_ = due_at_ = now;
  call_by_ = options_.call_timeout_ns > 0 ? later(now, options_.call_timeout_ns) : kNever;
  if (state_ == State::ready) return start_call();
  connect(now);
  return {};
}

Result<bool> Contributor::poll(TimeNs now) {
  due_at_ = kNever;
  Status status = step(now);
  if (status.ok()) status = check_times(now);
  if (!status.ok()) {
    if (link_ && status.code() != Code::invalid_usage)
      status = status.with_context("the aggregator at " + to_string(link_->peer_address()));
    let_go();
    return status;
  }
  if (!verdict_.ok()) return std::exchange(verdict_, {});
  return state_ == State::ready || state_ == State::away;
}

void Contributor::waits(std::vector<transport::Wait>& waits) const {
  if (link_) link_->waits(waits);
  if (state_ == State::reaching) approach_->waits(waits);
}

Status Contributor::fits(uint64_t count) const {
  if (count <= terms_.max_elements) return {};
  return invalid_argument(fmt::format("{} elements: this aggregator has memory for {} (--memory)", count, terms_.max_elements));
}

void Contributor::leave() {
  if (link_) {
    link_->send(static_cast<uint8_t>(AggregateType::leave), std::span<const std::byte>());
    (void)link_->flush().ok();  // if it does not go out at once, the closed connection says the same
  }
  let_go();
}

Status Contributor::step(TimeNs now) {
  if (state_ == State::reaching) ISTHMUS_TRY(reach(now));
  if (link_) ISTHMUS_TRY(hear(now));
  if (state_ == State::measuring) measure(now);
  if (state_ == State::exchanging) ISTHMUS_TRY(upload(now));
  return link_ ? link_->flush() : Status();
}

Status Contributor::check_times(TimeNs now) {
  const bool waits = state_ > State::ready;
  if (state_ == State::reaching && now >= reach_by_) {
    return timeout_error(fmt::format("rank {} could not reach the aggregator within {}{}", options_.rank,
                                     duration_text(options_.reach_timeout_ns), approach_->failures()));
  }
  if (call_ && now >= call_by_) {
    return timeout_error(fmt::format("rank {}'s sum took longer than {}", options_.rank, duration_text(options_.call_timeout_ns)));
  }
  if (state_ == State::joining && now >= reach_by_) return timeout_error("it has not let this rank in");
  if (waits && now >= later(heard_at_, options_.peer_timeout_ns)) {
    return timeout_error(fmt::format("it has said nothing for {}", duration_text(options_.peer_timeout_ns)));
  }
  if (call_) due_at_ = std::min(due_at_, call_by_);
  if (state_ == State::reaching || state_ == State::joining) due_at_ = std::min(due_at_, reach_by_);
  if (waits) due_at_ = std::min(due_at_, later(heard_at_, options_.peer_timeout_ns));
  if (state_ == State::reaching) due_at_ = std::min({due_at_, approach_->due(), now + kSecondNs});  // an attempt may have to end
  return {};
}

// --- the way there ---------------------------------------------------------------------------------------------------------------

Status Contributor::reach(TimeNs now) {
  auto stream = approach_->poll(now);
  if (!stream) return {};
  link_.emplace(std::move(stream), kMaxJoinBytes);
  say(AggregateType::join, encode(Join{.codec_hash = options_.thc ? options_.thc->hash : 0,
                                       .codec = options_.thc ? to_text(options_.thc->config) : std::string()}));
  state_ = State::joining;
  heard_at_ = now;
  return {};
}

Status Contributor::on_welcome(std::span<const std::byte> body) {
  if (state_ != State::joining) return unexpected("a welcome");
  ISTHMUS_ASSIGN(terms_, decode_welcome(body));
  const uint32_t chunk = terms_.chunk_elements;
  if (terms_.round == 0 || chunk == 0 || chunk % kChunkAlignElements != 0 || chunk > kMaxChunkElements) {
    return remote_error("its terms make no sense");
  }
  if (terms_.group != options_.group) {
    return invalid_usage(
        fmt::format("rank {} wants {}, but the aggregator has {}", options_.rank, to_text(options_.group), to_text(terms_.group)));
  }
  if (!thc_ || thc_->hash != terms_.codec_hash) {
    ISTHMUS_ASSIGN(const codec::ThcConfig config, codec::parse_thc(terms_.codec));
    ISTHMUS_ASSIGN(thc_, codec::make_thc(config, options_.ranks));
  }
  if (thc_->hash != terms_.codec_hash) return remote_error(fmt::format("its tables of '{}' are others than this library's", terms_.codec));
  const AggregateGrid most(*thc_, std::min(terms_.max_elements, kMaxVectorElements), chunk);
  const size_t words = options_.group ? packed_bytes(chunk, kMaxWordBits) : 0;
  const size_t shares = masked() ? CohortMessage::kHeadBytes + options_.ranks * Advertisement::kBytes : 0;
  link_->set_max_body_bytes(
      std::max({kScalesHeadBytes + 4 * most.groups(), SumsHead::kBytes + most.sum_bytes(0), SumsHead::kBytes + words, shares}) +
      kMaxAggregateTextBytes);
  round_ = terms_.round;
  ended_ = false;
  state_ = State::ready;
  return call_ ? start_call() : Status();
}

// --- a sum -----------------------------------------------------------------------------------------------------------------------

Status Contributor::start_call() {
  verdict_ = fits(call_->signature.count);
  if (!verdict_.ok()) {
    end_call(State::ready);
    return {};
  }
  const kernels::CodecKey key = {.seed = terms_.seed, .op = round_, .rank = options_.rank, .ranks = options_.ranks};
  const Form form = is_integer(call_->signature.type) ? Form::integers : masked() ? Form::levels : Form::indices;
  coding_.emplace(*thc_, *options_.target, key, terms_.chunk_elements, *call_, form);
  const Offer offer{.round = round_, .epoch = options_.epoch, .signature = call_->signature, .scales = {}};
  member_.reset();
  if (masked()) {
    const MaskMember::Place place{.rank = options_.rank, .round = {.round = round_, .epoch = options_.epoch}, .seed = terms_.seed};
    ISTHMUS_ASSIGN(member_, MaskMember::make(*options_.masking, surroundings_.random, options_.group->masks, place));
    offer_ = encode(offer, Advertisement::kBytes / 4);
    write(std::span(offer_).subspan(kOfferHeadBytes), member_->advertisement());
  } else {
    offer_ = encode(offer, coding_->grid().groups());
  }
  has_roster_ = counts_ = false;
  measured_ = sent_ = decoded_ = 0;
  state_ = State::measuring;
  return {};
}

/// A chunk at a time, so that the connection is looked after meanwhile.
void Contributor::measure(TimeNs now) {
  const std::span<std::byte> scales = std::span(offer_).subspan(kOfferHeadBytes);
  // Integers have no norms, and where sums are masked norms are not for others.
  if (masked() || coding_->grid().form() == Form::integers) measured_ = coding_->grid().chunks();
  if (measured_ < coding_->grid().chunks()) coding_->measure(measured_++, scales);
  if (measured_ < coding_->grid().chunks()) {
    due_at_ = now;
    return;
  }
  say(AggregateType::offer, std::make_shared<const std::vector<std::byte>>(std::move(offer_)));
  state_ = State::waiting;
  heard_at_ = now;
}

/// As far as the connection takes it, and some chunks at a time.
Status Contributor::upload(TimeNs now) {
  const AggregateGrid& grid = coding_->grid();
  const auto goes_on = [&] { return may_upload() && sent_ < grid.chunks() && link_->unsent_bytes() < kQueuedBytes; };
  for (int turn = 0; turn < kChunksAtOnce && goes_on(); ++turn) {
    ISTHMUS_ASSIGN(bootstrap::SharedBytes body, next_chunk());
    say(AggregateType::indices, std::move(body));
    ++sent_;
    ISTHMUS_TRY(link_->flush());
  }
  if (goes_on()) due_at_ = now;
  return {};
}

Result<bootstrap::SharedBytes> Contributor::next_chunk() {
  const AggregateGrid& grid = coding_->grid();
  IndicesHead head{.round = round_, .chunk = sent_, .weight = call_->weight};
  if (masked()) {
    ISTHMUS_ASSIGN(head.weight, member_->mask_weight(call_->weight));
  }
  std::vector<std::byte> body = encode(head, grid.index_bytes(sent_));
  const std::span<std::byte> payload = std::span(body).subspan(IndicesHead::kBytes);
  if (grid.has_words()) {
    words_.resize(grid.words(sent_));
    coding_->encode_words(sent_, scales_, words_);
    if (masked()) ISTHMUS_TRY(member_->mask(sent_, grid.bits(), words_));
    pack_words(words_, grid.bits(), payload);
  } else {
    coding_->encode(sent_, scales_, payload);
  }
  return bootstrap::SharedBytes(std::make_shared<const std::vector<std::byte>>(std::move(body)));
}

// --- masks -----------------------------------------------------------------------------------------------------------------------

Status Contributor::on_keys(std::span<const std::byte> body) {
  if (state_ != State::exchanging || !member_) return unexpected("keys");
  ISTHMUS_ASSIGN(const CohortMessage keys, decode_cohort_message(body, options_.ranks));
  ISTHMUS_ASSIGN(std::vector<std::byte> shares, member_->share(keys));
  if (coding_->grid().form() == Form::levels && coding_->grid().bits() != word_bits(keys.ranks.count(), thc_->config.granularity)) {
    return remote_error("it wants words of another width than sums of this cohort have");
  }
  say(AggregateType::shares, std::make_shared<const std::vector<std::byte>>(std::move(shares)));
  return {};
}

Status Contributor::on_inbox(std::span<const std::byte> body) {
  if (state_ != State::exchanging || !member_) return unexpected("an inbox");
  ISTHMUS_ASSIGN(const CohortMessage inbox, decode_cohort_message(body, options_.ranks));
  return member_->take_inbox(inbox);
}

Status Contributor::on_commit(std::span<const std::byte> body) {
  if (state_ != State::exchanging || !member_ || sent_ != coding_->grid().chunks()) return unexpected("a commitment");
  ISTHMUS_ASSIGN(const CohortMessage commit, decode_cohort_message(body, options_.ranks));
  ISTHMUS_ASSIGN(std::vector<std::byte> revealed, member_->reveal(commit));
  say(AggregateType::reveal, std::make_shared<const std::vector<std::byte>>(std::move(revealed)));
  return {};
}

Status Contributor::on_scales(std::span<const std::byte> body) {
  if (state_ != State::waiting) return unexpected("scales");
  ISTHMUS_ASSIGN(const Scales scales, decode_scales(body));
  if (scales.round != round_ || scales.scales.size() != 4 * coding_->grid().groups()) return unexpected("scales of another vector");
  scales_.assign(scales.scales.begin(), scales.scales.end());
  state_ = State::exchanging;
  return {};
}

Status Contributor::on_roster(std::span<const std::byte> body) {
  if (state_ != State::exchanging) return unexpected("a roster");
  ISTHMUS_ASSIGN(const Roster roster, decode_roster(body, options_.ranks));
  if (roster.round != round_ || (has_roster_ && roster.edition <= roster_.edition)) return unexpected("a roster");
  // Who has left the roster does not come back.
  counts_ = roster.ranks[options_.rank] && (counts_ || !has_roster_);
  if (coding_->grid().form() == Form::levels) {
    const bool same = has_roster_ && roster.word_bits == roster_.word_bits;
    if (roster.word_bits == 0 || (has_roster_ && !same)) return unexpected("another width");
    coding_->set_bits(roster.word_bits);
  }
  has_roster_ = true;
  roster_ = roster;
  decoded_ = 0;
  return {};
}

Status Contributor::on_sums(std::span<const std::byte> body) {
  if (state_ != State::exchanging || !has_roster_) return unexpected("sums");
  ISTHMUS_ASSIGN(const auto carried, decode_sums(body));
  const AggregateGrid& grid = coding_->grid();
  const bool next = carried.head.round == round_ && carried.head.edition == roster_.edition && carried.head.chunk == decoded_;
  // A sum of what has not been sent yet would overwrite it, where the buffers are the same.
  const bool made = next && decoded_ < grid.chunks() && (!counts_ || decoded_ < sent_);
  if (!made || carried.payload.size() != grid.sum_bytes(decoded_)) return unexpected("another chunk's sums");
  const auto summands = static_cast<uint32_t>(roster_.ranks.count());
  if (grid.has_words()) {
    words_.resize(grid.words(decoded_));
    unpack_words(carried.payload, grid.bits(), words_);
    coding_->decode_words(decoded_++, scales_, words_, summands);
  } else {
    coding_->decode(decoded_++, scales_, carried.payload, summands);
  }
  return {};
}

Status Contributor::on_end(std::span<const std::byte> body) {
  if (state_ != State::exchanging || !has_roster_) return unexpected("an end");
  ISTHMUS_ASSIGN(const End end, decode_end(body, options_.ranks));
  if (end.round != round_ || end.edition != roster_.edition || decoded_ != coding_->grid().chunks()) return unexpected("an end");
  result_.round = round_;
  result_.contributors = roster_.ranks;
  result_.late = end.late;
  result_.editions = roster_.edition;
  result_.weight_sum = end.weight_sum;
  result_.word_bits = coding_->grid().has_words() ? coding_->grid().bits() : 0;
  ++round_;
  end_call(State::ready);
  return {};
}

Status Contributor::on_failed(std::span<const std::byte> body) {
  if (state_ != State::waiting && state_ != State::exchanging) return unexpected("a failure");
  ISTHMUS_ASSIGN(const Failed failed, decode_failed(body));
  if (failed.round != round_ || failed.next_round < round_) return unexpected("a failure of another round");
  verdict_ = failed.why;
  ended_ = failed.ended;
  round_ = failed.next_round;
  end_call(State::ready);
  return {};
}

// --- the connection --------------------------------------------------------------------------------------------------------------

Status Contributor::hear(TimeNs now) {
  for (int turn = 0; turn < kMessagesAtOnce; ++turn) {
    ISTHMUS_ASSIGN(const auto message, link_->receive());
    if (!message) return {};
    heard_at_ = now;
    result_.received_bytes += message->body.size() + bootstrap::Link::kHeaderBytes;
    const bool called = call_.has_value();
    ISTHMUS_TRY(on_message(*message));
    if (called && !call_) return {};  // whoever has said the last word may go at once, and that is no failure of the sum
  }
  due_at_ = now;
  return {};
}

Status Contributor::on_message(const bootstrap::Message& message) {
  switch (static_cast<AggregateType>(message.type)) {
    case AggregateType::welcome:
      return on_welcome(message.body);
    case AggregateType::refusal:
      return state_ == State::joining ? decode_refusal(message.body) : unexpected("a refusal");
    case AggregateType::scales:
      return on_scales(message.body);
    case AggregateType::roster:
      return on_roster(message.body);
    case AggregateType::keys:
      return on_keys(message.body);
    case AggregateType::inbox:
      return on_inbox(message.body);
    case AggregateType::commit:
      return on_commit(message.body);
    case AggregateType::sums:
      return on_sums(message.body);
    case AggregateType::end:
      return on_end(message.body);
    case AggregateType::failed:
      return on_failed(message.body);
    case AggregateType::heartbeat:
      return {};
    default:
      return unexpected(fmt::format("a message of type {}", message.type));
  }
}

void Contributor::say(AggregateType type, bootstrap::SharedBytes body) {
  result_.sent_bytes += body->size() + bootstrap::Link::kHeaderBytes;
  link_->send(static_cast<uint8_t>(type), std::move(body));
}

void Contributor::let_go() {
  link_.reset();
  approach_.reset();
  end_call(State::away);
}

void Contributor::end_call(State state) {
  state_ = state;
  call_.reset();
  coding_.reset();
  member_.reset();
  offer_.clear();
}

}  // namespace isthmus::federated
