// SPDX-License-Identifier: Apache-2.0
// One rank's side of a communicator: who takes part, how calls are numbered and carried out, what went wrong. Made by comm/setup.h,
// used by api/ and mpi/. Methods need the driver's lock unless they say otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/select.h"
#include "comm/agreement.h"
#include "comm/compression.h"
#include "comm/messenger.h"
#include "comm/standstill.h"
#include "exec/driver.h"
#include "plan/rules.h"

namespace isthmus::comm {

class Drift;

/// The operator of a reducing call: a plain one, or PreMulSum with this rank's scalar.
struct Operator {
  ReduceOp op = ReduceOp::sum;
  bool scaled = false;
  kernels::Scalar scalar;
};

/// One user call, not yet checked. For send/recv `root` is the peer and `in` (send) or `out` (recv) the buffer.
struct Request {
  Collective collective = Collective::allreduce;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;
  DataType type = DataType::float32;
  Operator op;
  int32_t root = -1;
  bool is_send = false;
  bool in_place = false;                  ///< found out by Communicator::check()
  std::shared_ptr<const CodecWish> wish;  ///< allreduce, reduce_scatter; null: none
};

/// Facts of a communicator that all its ranks know.
struct Membership {
  uint64_t id = 0;  ///< equal on all ranks, different for every communicator of a job
  Key secret{};     ///< keys of connections and of communicators split from this one derive from it
  int32_t rank = 0;
  int32_t ranks = 1;
  int32_t device = 0;  ///< what ncclCommCuDevice reports: the rank's place among the local ones, unless it said otherwise
  plan::Reach reach = plan::Reach::process;
  std::vector<int32_t> sites;            ///< by rank: a number for each site; empty: there is only one
  std::vector<int32_t> divisions;        ///< as plan::Shape::sites, for all levels that are known
  std::vector<exec::ProcessCard> cards;  ///< by rank
  std::string name;                      ///< for logs
  std::shared_ptr<Messenger> messenger;  ///< to the other ranks, beside calls
  std::vector<int32_t> family_ranks;     ///< by rank: its rank in the communicator that was joined
};

class Communicator final : private exec::Observer, private Listener {
 public:
  Communicator(exec::Process& process, collectives::Choices choices, Compression compression, Membership membership,
               exec::Endpoint& endpoint);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] const Membership& membership() const { return membership_; }
  [[nodiscard]] int32_t rank() const { return membership_.rank; }
  [[nodiscard]] int32_t ranks() const { return membership_.ranks; }
  [[nodiscard]] exec::Process& process() const { return process_; }
  [[nodiscard]] Compression& compression() { return compression_; }

  /// Checks everything that can be checked on this rank alone, and finds out whether the call is in place. Errors are invalid_argument and
  /// leave the communicator as it was.
  [[nodiscard]] Status check(Request& request) const;
  /// Adds the call (checked before) to a launch. Fails where no algorithm serves it or its plan cannot be built.
  Status add(const Request& request, exec::Launch& launch);
  /// Begins a collective (checked before) at once for a caller that then waits for `ticket`, which tells its end. Fails as add() does.
  Status begin(const Request& request, exec::Ticket& ticket);
  /// Adds send/recv calls that belong together as one call of the engine.
  Status add_transfers(std::span<const Request> requests, exec::Launch& launch);

  /// Chooses otherwise from the next call on: to be called on all ranks between the same calls. `plan`: the text that says so, for users.
  void follow(collectives::Choices choices, std::string plan);
  void remember_profile(std::string profile) { profile_ = std::move(profile); }
  /// Where its ranks are, by rank, which nobody has named: to be called on all ranks between the same calls.
  void take_sites(std::span<const int32_t> sites);
  /// From now on calls are watched, and wait where all ranks are about to choose otherwise.
  void watch_drift(std::unique_ptr<Drift> drift);
  /// Whether begin() may be called now; otherwise the call goes into a launch.
  [[nodiscard]] bool may_begin() const { return drift_ == nullptr || admitted(); }
  // For Drift.
  void tell_of_drift(int32_t to, std::span<const std::byte> body) { notify(to, Notice::drift, body); }
  /// Of the next collective. The communicator must not be closed.
  [[nodiscard]] uint32_t next_number() const { return endpoint_->lane(wire::CallClass::collective).next_sequence; }
  [[nodiscard]] bool collectives_idle() const {
    return !endpoint_->quick && endpoint_->lane(wire::CallClass::collective).active == nullptr;
  }
  /// What it follows, and what was measured between its ranks, as JSON; "": nothing.
  [[nodiscard]] const std::string& plan_text() const { return plan_; }
  [[nodiscard]] const std::string& profile_text() const { return profile_; }

  /// Why the communicator is unusable, or ok.
  [[nodiscard]] const Status& state() const {
    if (closed()) return ended_;
    return endpoint_->failure.ok() ? endpoint_->condemned : endpoint_->failure;
  }
  /// Ends everything under way and refuses everything later.
  void fail(const Status& why);
  /// The same on the user's wish, also for calls that wait in streams; to the others it is a failure of this rank.
  void abort();
  /// Gives back what process and engine hold for it. Once; only state(), idle() and the refusal of calls remain.
  void close();
  [[nodiscard]] bool closed() const { return endpoint_ == nullptr; }
  /// Nothing runs and nothing waits in a stream.
  [[nodiscard]] bool idle() const { return closed() || (endpoint_->idle() && !process_.awaits(*endpoint_)); }
  [[nodiscard]] bool finalized() const { return finalized_; }
  void finalize() { finalized_ = true; }

  /// Operators made by ncclRedOpCreatePreMulSum; numbers start at `first`, are never reused.
  Result<int> create_operator(const Operator& op, DataType type);
  Status destroy_operator(int number);
  Status find_operator(int number, DataType type, Operator& op) const {
    if (number < 0 || number >= kFirstOperator) [[unlikely]]
      return find_own_operator(number, type, op);
    op.op = static_cast<ReduceOp>(number);
    return {};
  }

  /// Numbers the communicators split from this one; all ranks count alike because splitting is collective.
  uint64_t next_split() { return splits_++; }

 private:
  /// What ranks tell each other beside calls.
  enum class Notice : uint8_t { failed = 1, account = 2, standstill = 3, drift = 4 };

  // exec::Observer
  void on_failed(const Status& why) override;
  void on_suspect(int32_t rank, wire::CallClass call_class, uint32_t number) override { agreement_.on_suspect(rank, call_class, number); }
  void on_submitted() override { agreement_.on_submitted(); }
  bool admits(exec::Call& call) override;
  void on_ended(const exec::Run& run, TimeNs took_ns) override;
  void on_stalled(const exec::Run& run) override;
  void on_late(const exec::Run& run) override;
  std::string answers(const exec::Run& run) override { return standstill_.answers(run); }
  // Listener
  void on_rank_dead(int32_t rank, const std::string& why) override;
  void on_message(int32_t from, std::span<const std::byte> body) override;

  [[nodiscard]] Standstill::Surroundings surroundings();
  [[nodiscard]] std::string name_of_rank(int32_t rank) const;

  /// How calls of one kind are carried out. Programs repeat their calls, so the latest of each collective is remembered.
  struct Manner {
    uint64_t count = 0;
    uint64_t rest = 0;  ///< type, operator and so on in one word, quickly compared
    const codec::Named* codec = nullptr;
    std::string_view algorithm;  ///< that the codec's plan was asked to be of
    exec::Call call;             ///< but for its buffers and its caller; without a program nothing is remembered
  };
  static constexpr int kFirstOperator = 5;  ///< ncclNumOps: user operators come after the built-in ones

  /// The call that is asked for, but for its ticket and caller.
  Result<exec::Call*> form(const Request& request);
  /// The same for a call like the latest one of its collective; null: it is not.
  exec::Call* recall(const Request& request);
  static uint64_t rest_of(const Request& request);
  static void fill(const Request& request, exec::Call& call);
  Status plan_call(const Request& request, int32_t root, exec::Call& call);
  /// The call was planned by choices that are no longer these.
  Status plan_anew(exec::Call& call);
  [[nodiscard]] bool admitted() const;
  [[nodiscard]] uint64_t larger_buffer_bytes(Collective collective, DataType type, uint64_t count) const;
  /// Logs who chose what, when that is used for the first time.
  void say_once(Collective collective, const collectives::Decision& decision);
  Status plan_compressed(const Request& request, const CodecWish& wish, exec::Call& call);
  /// What the call travels through.
  Result<CodecWish> wish_of(const Request& request);

  void notify(int32_t to, Notice notice, std::span<const std::byte> body);
  void tell_others(const Status& why);
  [[nodiscard]] Status check_numbers(const Request& request) const;
  [[nodiscard]] Status check_buffers(Request& request) const;
  [[nodiscard]] bool in_place(const Request& request) const;
  Status find_own_operator(int number, DataType type, Operator& op) const;

  struct UserOperator {
    Operator op;
    DataType type;
  };

  exec::Process& process_;
  collectives::Choices choices_;
  uint32_t choices_number_ = 0;  ///< goes up with follow()
  std::string plan_, profile_;   ///< as users may ask for them
  Compression compression_;
  Membership membership_;
  exec::Endpoint* endpoint_;  ///< null once closed
  Status ended_;              ///< why, then
  Agreement agreement_;
  Standstill standstill_;
  std::array<Manner, kCollectives> manners_;        ///< by Collective
  std::set<std::pair<Collective, uint64_t>> said_;  ///< what say_once() has said, by least bytes
  bool told_ = false;                               ///< the failure came from another rank, which has told everybody
  bool finalized_ = false;
  uint64_t splits_ = 0;
  int next_operator_ = kFirstOperator;
  std::unordered_map<int, UserOperator> operators_;
  std::unique_ptr<Drift> drift_;  ///< null: none is watched for
};

}  // namespace isthmus::comm
