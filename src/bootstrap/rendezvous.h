// SPDX-License-Identifier: Apache-2.0
// The rendezvous: every rank hands its blob to a root and gets everybody's blobs back. Two state machines over transport::Network; the
// driver calls poll(now) when a descriptor of waits() is ready or due() has come, until poll says true or fails. One Root serves one
// communicator. Both fail at the setup deadline, and say who is missing.
//
//   process of ncclGetUniqueId   Root::open -> id()          poll... true -> take_links() -> ControlHub
//   every rank                   Member::start(id, rank)     poll... true -> table(), take_link() -> ControlMember
//
// Strangers never fail a root (reception.h), and a lost or silent root sends a member back to the addresses (approach.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/approach.h"
#include "bootstrap/link.h"
#include "bootstrap/reception.h"
#include "bootstrap/surroundings.h"
#include "bootstrap/unique_id.h"
#include "transport/interface.h"

namespace isthmus::bootstrap {

/// What the rendezvous yields, equal on all ranks.
struct Table {
  Session session{};
  int32_t hub_rank = -1;                      ///< the lowest rank in the root's process; -1: the root's process holds no rank
  std::vector<std::vector<std::byte>> blobs;  ///< by rank
};

/// Who has not handed in a blob yet.
struct Waiting {
  uint32_t missing = 0;
  std::string which;  ///< number_ranges, and why the root cannot let them in, where it knows
};

/// A blob may be this long.
inline constexpr size_t kMaxBlobBytes = 4096;
/// And a communicator this large.
inline constexpr int32_t kMaxRanks = 1 << 16;

class Root final : private Reception::Host {
 public:
  struct Options {
    TimeNs timeout_ns = 30 * kSecondNs;  ///< from the first rank's arrival to the last's
  };
  /// What happened at the door and behind it.
  struct Counters : Reception::Counters {
    uint64_t duplicates = 0;  ///< proved the secret but claim a rank that another process holds
    uint64_t misfits = 0;     ///< proved the secret but claim another number of ranks
    uint64_t malformed = 0;   ///< proved the secret but sent something else than one blob
    uint64_t left = 0;        ///< proved the secret and went away again before the table
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
  [[nodiscard]] Counters counters() const;

 private:
  struct Arrival {
    std::optional<Link> link;
    transport::ProcessId process{};
    std::vector<std::byte> blob;
    bool complete = false;  ///< the blob is here
    bool has_left = false;  ///< was here before
  };
  Root(const Surroundings& surroundings, const Options& options, const UniqueId& id);
  [[nodiscard]] wire::Handshake::KeyAnswer key_for(const wire::Hello& claim) const override;
  void admit(const wire::Hello& hello, std::unique_ptr<transport::Stream> stream, TimeNs now) override;
  [[nodiscard]] bool has_come(int32_t rank, const transport::ProcessId& process) const override;
  void turn_away(Link link, std::string why, uint64_t& counter, TimeNs now);
  void serve_arrivals(bool everybody);
  void serve(Arrival& arrival);
  void lose(Arrival& arrival, const Status& why, uint64_t& counter);
  void tell_who_is_missing();
  [[nodiscard]] std::string missing_text() const;
  [[nodiscard]] std::string shortage_text() const;
  Status finish();
  Status give_up();

  Surroundings surroundings_;
  Options options_;
  UniqueId id_;
  Key key_{};
  Reception reception_;
  Farewells farewells_;
  std::vector<Arrival> arrivals_;  ///< by rank; empty until the first has come and said how many there are
  int32_t complete_ = 0;
  TimeNs give_up_at_ = kNever;
  TimeNs next_tick_at_ = 0, due_at_ = 0;
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
  Member(const Surroundings& surroundings, const UniqueId& id, Options options, TimeNs now);
  void join(std::unique_ptr<transport::Stream> stream);
  /// Speaks with the root; a failure is the root's verdict. A broken link only sends us back to the addresses.
  Status converse(TimeNs now);
  Status on_message(const Message& message);
  void warn_once(TimeNs now);
  [[nodiscard]] std::string what_is_missing(TimeNs waited) const;
  void set_due(TimeNs now);

  Surroundings surroundings_;
  Options options_;
  Approach approach_;
  std::optional<Link> link_;
  Waiting missing_;  ///< as the root last said
  TimeNs give_up_at_, warn_at_, due_at_;
  Table table_;
  bool finished_ = false;
  Status failure_;
};

}  // namespace isthmus::bootstrap
