// SPDX-License-Identifier: Apache-2.0
// The rendezvous: every rank hands its blob to a root and gets everybody's blobs back. Two state machines over transport::Network; the
// driver calls poll(now) when a descriptor of waits() is ready or due() has come, until poll says true or fails. One Root serves one
// communicator. Both fail at the setup deadline, and say who is missing.
//
//   process of ncclGetUniqueId   Root::open -> id()          poll... true -> take_links() -> ControlHub
//   every rank                   Member::start(id, rank)     poll... true -> table(), take_link() -> ControlMember
//
// Strangers (port scans, HTTP, wrong secrets, another communicator) never fail a root: they raise counters, are logged at most a
// logarithm of times, and are dropped after 2 s without progress; at most 128 are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "bootstrap/link.h"
#include "bootstrap/unique_id.h"
#include "transport/interface.h"

namespace isthmus::bootstrap {

/// What both machines stand on; everything outlives them.
struct Surroundings {
  transport::Network& network;
  const Crypto& crypto;
  const Logger& log;
  transport::ProcessId process{};  ///< this process
  RandomSource random = random_bytes;
};

/// What the rendezvous yields, equal on all ranks.
struct Table {
  Session session{};
  int32_t hub_rank = -1;                      ///< the lowest rank in the root's process; -1: the root's process holds no rank
  std::vector<std::vector<std::byte>> blobs;  ///< by rank
};

/// Who has not handed in a blob yet.
struct Waiting {
  uint32_t missing = 0;
  std::string which;  ///< number_ranges
};

/// A blob may be this long.
inline constexpr size_t kMaxBlobBytes = 4096;
/// And a communicator this large.
inline constexpr int32_t kMaxRanks = 1 << 16;

class Root {
 public:
  struct Options {
    TimeNs timeout_ns = 30 * kSecondNs;  ///< from the first rank's arrival to the last's
  };
  /// What happened at the door.
  struct Counters {
    uint64_t accepted = 0;    ///< connections
    uint64_t refused = 0;     ///< spoke another protocol, did not know the secret, or closed before proving it
    uint64_t withdrawn = 0;   ///< closed without a word, or because another connection of their rank came first
    uint64_t timed_out = 0;   ///< no progress for 2 s
    uint64_t evicted = 0;     ///< silent, and their place was needed
    uint64_t duplicates = 0;  ///< proved the secret but claim a rank that another process holds
    uint64_t misfits = 0;     ///< proved the secret but claim another number of ranks
    uint64_t malformed = 0;   ///< proved the secret but sent something else than one blob
    uint64_t left = 0;        ///< proved the secret and went away again before the table
    uint64_t unaccepted = 0;  ///< the system would not accept (no descriptors, no memory)
  };

  /// Listens at `listen_at`, as many as work and fit the id (port 0: any; family 0 is skipped); fails when none works. `id` holds secret
  /// and nonce.
  static Result<std::unique_ptr<Root>> open(const Surroundings& surroundings, const Options& options, const UniqueId& id,
                                            std::span<const transport::Address> listen_at);

  /// The id for everybody who shall join, with the addresses listened at. Any time.
  [[nodiscard]] const UniqueId& id() const { return id_; }
  /// True: all ranks have come and the table is on its way; call take_links() and no more poll(). timeout: not all came in time; those who
  /// came have been told. After a failure poll() repeats it.
  Result<bool> poll(TimeNs now);
  /// Descriptors to wait on. Any time.
  void waits(std::vector<transport::Wait>& waits) const;
  /// When poll() must be called even if nothing arrives.
  [[nodiscard]] TimeNs due() const { return due_at_; }
  /// Once poll() was true: the links by rank, with unsent bytes in them that their next owner flushes. A link is absent when its rank has
  /// gone again meanwhile.
  std::vector<std::optional<Link>> take_links();
  /// As in the table. Once poll() was true.
  [[nodiscard]] int32_t hub_rank() const { return table_.hub_rank; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  /// Has not proved anything yet.
  struct Stranger {
    std::unique_ptr<transport::Stream> stream;
    wire::Handshake handshake;
    TimeNs came_at = 0, heard_at = 0;
    size_t wanted = 0;  ///< of the handshake when it last moved
    bool silent = true;
  };
  struct Arrival {
    std::optional<Link> link;
    transport::ProcessId process{};
    std::vector<std::byte> blob;
    bool complete = false;  ///< the blob is here
    bool has_left = false;  ///< was here before
  };
  /// Closed after its claim and before its proof.
  struct Departure {
    int32_t rank = 0;
    transport::ProcessId process{};
    transport::Address from;
    Status why;
    TimeNs until = 0;  ///< then it counts as refused
  };
  /// Was told that it is refused; kept until it has read so.
  struct Farewell {
    Link link;
    TimeNs until = 0;
  };

  Root(const Surroundings& surroundings, const Options& options, const UniqueId& id);
  void accept(TimeNs now);
  bool make_room(TimeNs now);
  Status receive(std::unique_ptr<transport::Stream> stream, TimeNs now);
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const;
  void serve_strangers(TimeNs now);
  /// True when the stranger is dealt with and gone.
  bool serve(Stranger& stranger, TimeNs now);
  void depart(const Stranger& stranger, const Status& why, TimeNs now);
  void judge_departures(TimeNs now);
  void admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now);
  void turn_away(Link link, std::string why, uint64_t& counter, TimeNs now);
  void serve_arrivals(bool everybody);
  void serve(Arrival& arrival);
  void lose(Arrival& arrival, const Status& why, uint64_t& counter);
  void serve_farewells(TimeNs now);
  void tell_who_is_missing();
  [[nodiscard]] std::string missing_text() const;
  Status finish();
  Status give_up();
  void note(uint64_t& counter, std::string_view what, const transport::Address& who, const Status& why);

  Surroundings surroundings_;
  Options options_;
  UniqueId id_;
  Key key_{};
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::vector<Stranger> strangers_;  ///< oldest first
  std::vector<Departure> departures_;
  std::vector<Farewell> farewells_;
  std::vector<Arrival> arrivals_;  ///< by rank; empty until the first has come and said how many there are
  int32_t complete_ = 0;
  TimeNs give_up_at_ = kNever;
  TimeNs next_tick_at_ = 0, due_at_ = 0, accept_again_at_ = 0;
  Table table_;
  bool finished_ = false;
  Status failure_;
  Counters counters_;
};

class Member {
 public:
  struct Options {
    int32_t rank = 0;
    int32_t ranks = 1;
    std::vector<std::byte> blob;            ///< at most kMaxBlobBytes
    TimeNs timeout_ns = 30 * kSecondNs;     ///< from start()
    TimeNs warn_after_ns = 10 * kSecondNs;  ///< then the log says once what it waits for; 0: never
  };

  /// Starts at `now`. invalid_argument for a rank or blob out of range.
  static Result<std::unique_ptr<Member>> start(const Surroundings& surroundings, const UniqueId& id, Options options, TimeNs now);

  /// True: table() and take_link() may be used. timeout: with who is missing, or why the root could not be reached. invalid_usage: the root
  /// refuses this rank (claimed twice, another number of ranks). After a failure poll() repeats it.
  Result<bool> poll(TimeNs now);
  /// Descriptors to wait on. Any time.
  void waits(std::vector<transport::Wait>& waits) const;
  [[nodiscard]] TimeNs due() const { return due_at_; }
  /// Once poll() was true.
  [[nodiscard]] const Table& table() const { return table_; }
  /// The link to the root. Once, after poll() was true.
  Link take_link();

 private:
  /// One of the root's addresses; all are tried side by side, again and again, until one answers with a proof.
  struct Attempt {
    transport::Address to;
    std::unique_ptr<transport::Stream> stream;
    std::optional<wire::Handshake> handshake;
    TimeNs give_up_at = 0, retry_at = 0;
    int failures = 0;
    std::string last_error = "no answer";
  };

  Member(const Surroundings& surroundings, const UniqueId& id, Options options, TimeNs now);
  void try_addresses(TimeNs now);
  /// True once this attempt's peer has proved to be the root.
  Result<bool> pursue(Attempt& attempt, TimeNs now);
  Status connect(Attempt& attempt, TimeNs now);
  void fail(Attempt& attempt, const Status& why, TimeNs now);
  void join(Attempt& attempt);
  /// Speaks with the root; a failure is the root's verdict. A broken link only sends us back to the addresses.
  Status converse(TimeNs now);
  Status on_message(const Message& message);
  void warn_once(TimeNs now);
  [[nodiscard]] std::string what_is_missing(TimeNs waited) const;
  void set_due(TimeNs now);

  Surroundings surroundings_;
  UniqueId id_;
  Options options_;
  Key key_{};
  CounterRng jitter_;
  std::vector<Attempt> attempts_;
  std::optional<Link> link_;
  Waiting missing_;  ///< as the root last said
  TimeNs give_up_at_, warn_at_, due_at_;
  Table table_;
  bool finished_ = false;
  Status failure_;
};

}  // namespace isthmus::bootstrap
