// SPDX-License-Identifier: Apache-2.0
// hall.h.
#include "api/hall.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "federated/waiting.h"

namespace isthmus::api {
namespace {

constexpr uint32_t kChunkElements = 256 << 10;
constexpr uint64_t kMostForNothing = uint64_t{1} << 34;  // elements of a vector of zeros
constexpr TimeNs kTickNs = kMillisecondNs / 5, kMostPatienceNs = 60 * kSecondNs, kLastWordsNs = kSecondNs / 10;

Key group_key(const Crypto& crypto, const Key& secret) { return derive_key(crypto, secret, "isthmus group sums"); }

/// The deadline is kept by rank 0. Where that is stuck or gone, members keep it themselves, with time for the sum to arrive, which is sent
/// after the deadline at the latest and is as large as what came before it. 0: none.
TimeNs call_timeout(TimeNs deadline_ns, TimeNs operation_timeout_ns) {
  if (deadline_ns == kNever) return operation_timeout_ns;
  const TimeNs own = deadline_ns + deadline_ns / 2 + kSecondNs;
  return operation_timeout_ns == 0 ? own : std::min(own, operation_timeout_ns);
}

Result<const Masking*> masking_for(const federated::GroupRules& rules) {
  if (!rules.masked) return static_cast<const Masking*>(nullptr);
  return Masking::load();
}

}  // namespace

bool GroupTerms::same_as(const GroupTerms& other) const {
  return hash() == other.hash() && options.late == other.options.late && options.carry_factor == other.options.carry_factor;
}

uint64_t GroupTerms::hash() const {
  return hash_text(fmt::format("{} {} {} {}", federated::to_text(options.rules), deadline_ns, quorum, codec));
}

/// The aggregator between the control thread, which polls it, and whoever ends it.
class Hall::AddingTask final : public exec::Task {
 public:
  explicit AddingTask(std::unique_ptr<federated::Aggregator> aggregator) : aggregator_(std::move(aggregator)) {}

  bool poll(TimeNs now) override {
    const std::lock_guard guard(mutex_);
    const bool goes_on = aggregator_->poll(now);
    (void)aggregator_->take_reports();
    (void)aggregator_->take_late_arrivals();
    return goes_on;
  }
  void waits(std::vector<transport::Wait>& waits) override {
    const std::lock_guard guard(mutex_);
    aggregator_->waits(waits);
  }
  [[nodiscard]] TimeNs due() const override {
    const std::lock_guard guard(mutex_);
    return aggregator_->due();
  }
  bool told(uint64_t round) const {
    const std::lock_guard guard(mutex_);
    return aggregator_->told(round);
  }
  void stop() {
    const std::lock_guard guard(mutex_);
    aggregator_->stop("the communicator or its group's configuration has ended", federated::clock_now());
  }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<federated::Aggregator> aggregator_;
};

Hall::Hall(exec::ControlThread& control, const comm::Membership& membership) : control_(control), membership_(membership) {}

Hall::~Hall() { close(); }

void Hall::close() {
  if (contributor_) contributor_->leave();
  contributor_.reset();
  if (adding_) {
    adding_->stop();
    control_.wake();
    adding_.reset();
  }
}

Status Hall::listen(const GroupTerms& terms, const bootstrap::Surroundings& surroundings, const Settings& settings,
                    Invitation& invitation) {
  federated::AggregatorOptions options;
  ISTHMUS_ASSIGN(const codec::ThcConfig codec, codec::parse_thc(terms.codec));
  ISTHMUS_ASSIGN(options.thc, codec::make_thc(codec, static_cast<uint32_t>(membership_.ranks)));
  ISTHMUS_ASSIGN(options.masking, masking_for(terms.options.rules));
  options.quorum = terms.quorum;
  options.deadline_ns = terms.deadline_ns;
  options.chunk_elements = kChunkElements;
  options.memory_bytes = uint64_t{1} << 46;  // this process has the vector itself, and what it is summed in is as large
  options.peer_timeout_ns = settings.peer_timeout_ns;
  options.group = terms.options.rules;
  options.follows_epochs = true;
  options.target = &kernels::select_target(settings.simd);
  ISTHMUS_ASSIGN(auto at, surroundings.network.local_addresses());
  if (at.size() > Invitation::kMaxAddresses) at.resize(Invitation::kMaxAddresses);
  ISTHMUS_ASSIGN(auto aggregator,
                 federated::Aggregator::open(surroundings, group_key(surroundings.crypto, membership_.secret), std::move(options), at));
  const auto addresses = aggregator->addresses();
  invitation.addresses = static_cast<uint32_t>(std::min(addresses.size(), Invitation::kMaxAddresses));
  std::copy_n(addresses.begin(), invitation.addresses, invitation.at.begin());
  adding_ = std::make_shared<AddingTask>(std::move(aggregator));
  control_.add(adding_);
  return {};
}

Status Hall::enter(const GroupTerms& terms, const bootstrap::Surroundings& surroundings, const Settings& settings,
                   const Invitation& invitation) {
  if (invitation.addresses == 0 || invitation.addresses > Invitation::kMaxAddresses) {
    return remote_error("rank 0 could not open its place for group sums; its own error says why");
  }
  if (invitation.terms_hash != terms.hash()) return invalid_usage("the group's configuration is another one on rank 0");
  ISTHMUS_ASSIGN(const codec::ThcConfig codec, codec::parse_thc(terms.codec));
  ISTHMUS_ASSIGN(thc_, codec::make_thc(codec, static_cast<uint32_t>(membership_.ranks)));
  ISTHMUS_ASSIGN(const Masking* const masking, masking_for(terms.options.rules));
  federated::ContributorOptions options{.rank = static_cast<uint32_t>(membership_.rank),
                                        .ranks = static_cast<uint32_t>(membership_.ranks),
                                        .thc = thc_,
                                        .reach_timeout_ns = settings.setup_timeout_ns,
                                        .call_timeout_ns = call_timeout(terms.deadline_ns, settings.operation_timeout_ns),
                                        .peer_timeout_ns = settings.peer_timeout_ns,
                                        .target = &kernels::select_target(settings.simd),
                                        .group = terms.options.rules,
                                        .masking = masking};
  options.addresses.assign(invitation.at.begin(), invitation.at.begin() + invitation.addresses);
  ISTHMUS_ASSIGN(contributor_, federated::Contributor::make(surroundings, group_key(surroundings.crypto, membership_.secret), options));
  contributor_->connect(federated::clock_now());
  if (Status reached = federated::complete(*contributor_); !reached.ok()) {
    contributor_.reset();
    return reached;
  }
  terms_ = terms;
  member_.emplace(terms.options, masking);
  ledger_ = {};
  return {};
}

Status Hall::sum(std::span<float> x, double weight, uint64_t epoch) {
  if (Status refused = member_->begin(x, weight, *thc_, kChunkElements, random_bytes); !refused.ok()) {
    sit_out(x.size(), epoch);
    return refused;
  }
  contributor_->set_epoch(epoch);
  return add_up(x);
}

void Hall::sit_out(uint64_t count, uint64_t epoch) {
  if (count == 0 || count > kMostForNothing) return;
  std::vector<float> nothing(count);
  contributor_->set_epoch(epoch);
  // what becomes of it the others are told
  if (member_->begin(nothing, 0, *thc_, kChunkElements, random_bytes).ok()) (void)add_up(nothing).ok();
}

Status Hall::add_up(std::span<float> x) {
  const TimeNs began_at = federated::clock_now();
  epsilon_ = 0;
  const double noise = terms_.options.rules.noise;
  if (noise > 0) epsilon_ = ledger_.spend_gaussian(noise, kDelta);
  Status status = contributor_->begin(member_->contribution(), federated::clock_now());
  if (status.ok()) status = federated::complete(*contributor_);
  if (!status.ok()) {
    member_->abandon();
    return status;
  }
  const federated::Contributed& made = contributor_->result();
  // The others must have it before this process may go away: it is they whom the deadline is for.
  // A sum that is made at the deadline needs a moment to get out.
  const TimeNs until =
      std::max(later(began_at, std::min(terms_.deadline_ns, kMostPatienceNs)), later(federated::clock_now(), kLastWordsNs));
  while (adding_ && !adding_->told(made.round) && federated::clock_now() < until)
    federated::wait_until({}, federated::clock_now() + kTickNs);
  return member_->finish(made.weight_sum, made.contributors[static_cast<size_t>(membership_.rank)], x);
}

}  // namespace isthmus::api
