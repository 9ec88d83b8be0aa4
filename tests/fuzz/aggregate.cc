// SPDX-License-Identifier: Apache-2.0
// The aggregator against a rank, and a rank against its aggregator, that has proved itself and then says anything; and their messages
// alone. Nobody else's sum is touched, nothing beyond the buffers is written, and whoever speaks nonsense is given up.
#include <cstring>

#include "federated/aggregator.h"
#include "federated/contributor.h"
#include "federated/mask_messages.h"
#include "stream.h"

namespace isthmus::fuzz {

using namespace federated;

namespace {

constexpr uint32_t kRanks = 2;
constexpr size_t kCount = 100;
constexpr uint64_t kMemoryBytes = 1 << 19;

const std::shared_ptr<const codec::Thc>& thc() {
  static const std::shared_ptr<const codec::Thc> made = codec::make_thc(*codec::parse_thc("thc:group=1024"), kRanks).value();
  return made;
}

/// One connection, whichever side asks for it.
class OneStream final : public transport::Network {
 public:
  explicit OneStream(std::unique_ptr<transport::Stream> stream) : stream_(std::move(stream)) {}

  Result<std::unique_ptr<transport::Listener>> listen(const transport::Address&) override {
    return std::unique_ptr<transport::Listener>(std::make_unique<Door>(stream_));
  }
  Result<std::unique_ptr<transport::Stream>> connect(const transport::Address&, const transport::StreamOptions&) override {
    if (!stream_) return remote_error("connection refused");
    return std::move(stream_);
  }
  Result<std::vector<transport::Address>> local_addresses() override { return std::vector<transport::Address>(); }

 private:
  struct Door final : transport::Listener {
    explicit Door(std::unique_ptr<transport::Stream>& owner) : stream(owner) {}
    Result<std::unique_ptr<transport::Stream>> accept() override { return std::move(stream); }
    [[nodiscard]] transport::Address address() const override { return {}; }
    [[nodiscard]] int fd() const override { return -1; }
    std::unique_ptr<transport::Stream>& stream;
  };
  std::unique_ptr<transport::Stream> stream_;
};

Status fixed_bytes(std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{3});
  return {};
}

wire::Hello contributors_hello() {
  wire::Hello hello{
      .communicator = aggregator_number(), .rank = 0, .ranks = static_cast<int32_t>(kRanks), .purpose = wire::Purpose::aggregate};
  hello.process.fill(3);
  return hello;
}

/// What each side of the handshake says; without authentication tags are zeros.
Bytes contributors_proof() {
  const auto machine = wire::Handshake::initiate(Crypto::none(), contributors_hello(), Key{}, {std::byte{1}});
  Bytes said = to_bytes(machine.output());
  said.resize(said.size() + sizeof(Key));
  return said;
}
Bytes aggregators_proof() {
  const Key key{};
  auto asks = wire::Handshake::initiate(Crypto::none(), contributors_hello(), key, {std::byte{3}});
  auto answers = wire::Handshake::respond(Crypto::none(), {.rank = -1, .process = {7}},
                                          [&key](const wire::Hello&) { return wire::Handshake::KeyAnswer{.key = &key}; }, {std::byte{9}});
  promise(answers.input(asks.output()).ok(), "the handshake is ours");
  return to_bytes(answers.output());
}

std::unique_ptr<transport::Stream> proven(const Bytes& proof, Input input, size_t piece, Bytes& memory) {
  memory = proof;
  memory.insert(memory.end(), input.begin(), input.end());
  return std::make_unique<InputStream>(memory, piece);
}

bootstrap::Surroundings surroundings_on(OneStream& network, const Logger& log) {
  return {.network = network, .crypto = Crypto::none(), .log = log, .process = {7}, .random = fixed_bytes};
}

transport::Address somewhere() { return {.bytes = {127, 0, 0, 1}, .port = 1, .family = 4}; }

// --- the aggregator --------------------------------------------------------------------------------------------------------------

/// Plain sums, a cohort's, masked ones.
std::optional<GroupRules> group_of(size_t piece) {
  const size_t which = piece / 20 % 3;
  if (which == 0) return std::nullopt;
  return GroupRules{.masked = which == 2, .masks = {.min_cohort = 2}, .clip = which == 2 ? 1.0F : 0.0F};
}

void aggregator(Input input, size_t piece) {
  static const Bytes proof = contributors_proof();
  Bytes memory;
  OneStream network(proven(proof, input, piece, memory));
  const Logger log = Logger::silent();
  const AggregatorOptions options{.thc = thc(),
                                  .quorum = 1,
                                  .deadline_ns = 0,
                                  .chunk_elements = kChunkAlignElements,
                                  .memory_bytes = kMemoryBytes,
                                  .group = group_of(piece),
                                  .masking = Masking::load().value()};
  const transport::Address at[] = {somewhere()};
  auto opened = Aggregator::open(surroundings_on(network, log), Key{}, options, at);
  promise(opened.ok(), "it opens");
  Aggregator& server = **opened;
  size_t rounds = 0;
  for (size_t polls = 0; polls < memory.size() / bootstrap::Link::kHeaderBytes + 20; ++polls) {
    server.poll(static_cast<TimeNs>(polls));
    for (const RoundReport& report : server.take_reports()) {
      promise(report.round == ++rounds, "rounds are numbered");
      promise((report.contributors >> 1).none(), "only who is there counts");
      promise(report.failure.ok() == report.contributors.any(), "a sum of somebody, or none");
      promise(report.signature.count <= server.max_elements(), "no vector is larger than allowed");
    }
    (void)server.take_late_arrivals();
  }
  const auto counters = server.counters();
  promise(server.connected() == 0 && counters.malformed + counters.lost + counters.left + counters.misfits >= 1,
          "whose stream ends is gone");
}

// --- a rank ----------------------------------------------------------------------------------------------------------------------

void contributor(Input input, size_t piece) {
  static const Bytes proof = aggregators_proof();
  constexpr size_t kMargin = 64;
  constexpr std::byte kUntouched{0x77};
  Bytes memory, in(kCount * sizeof(float)), out(in.size() + 2 * kMargin, kUntouched);
  OneStream network(proven(proof, input, piece, memory));
  const Logger log = Logger::silent();
  auto made = Contributor::make(
      surroundings_on(network, log), Key{},
      {.addresses = {somewhere()}, .ranks = kRanks, .thc = thc(), .group = group_of(piece), .masking = Masking::load().value()});
  promise(made.ok(), "it is made");
  Contributor& rank = **made;
  const Contribution call{.in = in.data(), .out = out.data() + kMargin, .signature = {.count = kCount}};
  promise(rank.begin(call, 0).ok(), "it begins");
  bool over = false;
  for (size_t polls = 0; polls < memory.size() / bootstrap::Link::kHeaderBytes + 20; ++polls) {
    const auto polled = rank.poll(static_cast<TimeNs>(polls));
    if (!polled.ok() && !rank.connected()) return;
    if (!polled.ok() || *polled) over = true;
    if (polled.ok() && *polled && rank.connected()) promise((rank.result().contributors >> kRanks).none(), "only ranks count");
    for (size_t i = 0; i < kMargin; ++i) {
      promise(out[i] == kUntouched && out[out.size() - 1 - i] == kUntouched, "nothing beyond the buffer is written");
    }
  }
  promise(over, "a rank whose aggregator is gone has failed");
}

// --- messages --------------------------------------------------------------------------------------------------------------------

template <typename Message>
void survives(const Result<Message>& message, Input body, const char* what) {
  if (message.ok()) promise(*encode(*message) == to_bytes(body), what);
}

void messages(Input input) {
  const uint8_t which = take_byte(input);
  switch (which % 12) {
    case 10:
      if (const auto message = decode_cohort_message(input, kRanks); message.ok()) {
        promise(encode(*message) == to_bytes(input), "a message to a cohort survives");
      }
      return;
    case 11:
      if (const auto message = decode_member_message(input); message.ok()) {
        promise(encode(*message) == to_bytes(input), "a member's message survives");
      }
      return;
    case 0:
      return survives(decode_join(input), input, "a join survives");
    case 1:
      return survives(decode_welcome(input), input, "a welcome survives");
    case 2:
      return survives(decode_roster(input, kRanks), input, "a roster survives");
    case 3:
      return survives(decode_end(input, kRanks), input, "an end survives");
    case 4:
      return promise(!decode_refusal(input).ok(), "a refusal is a failure, whatever it says");
    case 5:
      if (const auto failed = decode_failed(input); failed.ok()) promise(!failed->why.ok(), "a failure is one");
      return;
    case 6:
      if (const auto offer = decode_offer(input); offer.ok())
        promise(offer->scales.size() + kOfferHeadBytes == input.size(), "an offer is whole");
      return;
    case 7:
      if (const auto scales = decode_scales(input); scales.ok()) promise(scales->scales.size() % 4 == 0, "scales are whole");
      return;
    case 8:
      if (const auto indices = decode_indices(input); indices.ok()) {
        promise(indices->payload.size() + IndicesHead::kBytes == input.size(), "indices are whole");
      }
      return;
    default:
      if (const auto sums = decode_sums(input); sums.ok())
        promise(sums->payload.size() + SumsHead::kBytes == input.size(), "sums are whole");
  }
}

void append(Bytes& said, AggregateType type, Input body) {
  Bytes header(bootstrap::Link::kHeaderBytes);
  for (size_t i = 0; i < 4; ++i) header[i] = static_cast<std::byte>(body.size() >> (8 * i));
  header[4] = static_cast<std::byte>(type);
  said.insert(said.end(), header.begin(), header.end());
  said.insert(said.end(), body.begin(), body.end());
}

/// A rank's two rounds.
Bytes ranks_words() {
  const AggregateGrid grid(*thc(), kCount, kChunkAlignElements);
  Bytes said;
  append(said, AggregateType::join, *encode(Join{.codec_hash = thc()->hash, .codec = "thc"}));
  for (uint64_t round = 1; round <= 2; ++round) {
    append(said, AggregateType::offer, encode(Offer{.round = round, .signature = {.count = kCount}, .scales = {}}, grid.groups()));
    append(said, AggregateType::indices, encode(IndicesHead{.round = round, .chunk = 0}, grid.index_bytes(0)));
  }
  append(said, AggregateType::leave, {});
  return said;
}

/// A masked round's words of one rank, as far as it gets alone.
Bytes maskers_words() {
  Bytes said;
  append(said, AggregateType::join, *encode(Join{.codec_hash = thc()->hash, .codec = "thc"}));
  Bytes offer = encode(Offer{.round = 1, .signature = {.count = kCount}, .scales = {}}, Advertisement::kBytes / 4);
  append(said, AggregateType::offer, offer);
  append(said, AggregateType::shares, encode(MemberMessage{.round = 1, .payload = Bytes(kSealedBytes)}));
  append(said, AggregateType::reveal, encode(MemberMessage{.round = 1, .payload = Bytes(2 * sizeof(Key))}));
  return said;
}

/// An aggregator's masked round.
Bytes maskers_answers() {
  Bytes said;
  append(said, AggregateType::welcome,
         *encode(Welcome{.round = 1,
                         .max_elements = 1 << 16,
                         .codec_hash = thc()->hash,
                         .chunk_elements = kChunkAlignElements,
                         .group = group_of(41),
                         .codec = "thc"}));
  append(said, AggregateType::scales,
         encode(Scales{.round = 1, .scales = {}}, AggregateGrid(*thc(), kCount, kChunkAlignElements).groups()));
  append(said, AggregateType::roster, *encode(Roster{.round = 1, .word_bits = 8, .ranks = RankSet(3)}));
  append(said, AggregateType::keys,
         encode(CohortMessage{.round = 1, .ranks = RankSet(3), .payload = Bytes(Advertisement::kBytes, std::byte{9})}));
  append(said, AggregateType::inbox, encode(CohortMessage{.round = 1, .ranks = RankSet(3), .payload = Bytes(kSealedBytes)}));
  append(said, AggregateType::commit, encode(CohortMessage{.round = 1, .ranks = RankSet(3), .payload = {}}));
  return said;
}

/// An aggregator's round, its sums taken back once, and a failure.
Bytes aggregators_words() {
  const AggregateGrid grid(*thc(), kCount, kChunkAlignElements);
  Bytes said;
  append(said, AggregateType::welcome,
         *encode(Welcome{
             .round = 1, .max_elements = 1 << 16, .codec_hash = thc()->hash, .chunk_elements = kChunkAlignElements, .codec = "thc"}));
  append(said, AggregateType::heartbeat, {});
  append(said, AggregateType::scales, encode(Scales{.round = 1, .scales = {}}, grid.groups()));
  for (uint32_t edition = 0; edition < 2; ++edition) {
    append(said, AggregateType::roster, *encode(Roster{.round = 1, .edition = edition, .ranks = RankSet(edition == 0 ? 3 : 1)}));
    append(said, AggregateType::sums, encode(SumsHead{.round = 1, .edition = edition, .chunk = 0}, grid.sum_bytes(0)));
  }
  append(said, AggregateType::end, *encode(End{.round = 1, .edition = 1, .late = RankSet(2)}));
  return said;
}

}  // namespace

void run(Input input) {
  const uint8_t choice = take_byte(input);
  const size_t piece = size_t{1} + (choice >> 2) * 20;
  switch (choice % 4) {
    case 0:
      return messages(input);
    case 1:
      return contributor(input, piece);
    default:
      return aggregator(input, piece);
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const uint8_t pace : {uint8_t{20}, uint8_t{252}}) {
    all.push_back(tagged(pace + 1, aggregators_words()));
    all.push_back(tagged(pace + 2, ranks_words()));
  }
  for (const uint8_t pace : {uint8_t{4}, uint8_t{8}}) {  // a cohort's, masked
    all.push_back(tagged(pace + 1, maskers_answers()));
    all.push_back(tagged(pace + 2, maskers_words()));
    all.push_back(tagged(pace + 2, ranks_words()));
  }
  Bytes failing;
  append(failing, AggregateType::welcome,
         *encode(Welcome{.round = 1, .max_elements = 10, .chunk_elements = kChunkAlignElements, .codec = "thc"}));
  append(failing, AggregateType::failed, *encode(Failed{.round = 1, .next_round = 2, .why = timeout_error("nobody came")}));
  all.push_back(tagged(253, failing));
  const Bytes bodies[] = {*encode(Join{.codec = "thc"}),
                          *encode(Welcome{.codec = "thc"}),
                          *encode(Roster{.ranks = RankSet(3)}),
                          *encode(End{.late = RankSet(1)}),
                          *encode_refusal(invalid_usage("no")),
                          *encode(Failed{.why = invalid_usage("no")}),
                          encode(Offer{}, 2),
                          encode(Scales{}, 2),
                          encode(IndicesHead{}, 3),
                          encode(SumsHead{}, 3),
                          encode(CohortMessage{.ranks = RankSet(3), .payload = {}}),
                          encode(MemberMessage{})};
  for (size_t which = 0; which < std::size(bodies); ++which) all.push_back(tagged(0, tagged(static_cast<uint8_t>(which), bodies[which])));
  return all;
}

}  // namespace isthmus::fuzz
