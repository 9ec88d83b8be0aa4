// SPDX-License-Identifier: Apache-2.0
// One rank on its way into a communicator: meets the others through the rendezvous and ends with everybody's card. A task of the
// control thread (or of the simulator); comm/setup.h then makes the communicator. Fails at the set-up deadline, saying who is missing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "comm/communicator.h"
#include "exec/control_thread.h"

namespace isthmus::comm {

/// Serves the rendezvous of the ids made in this process, until all ranks have come.
class RootTask final : public exec::Task {
 public:
  /// Called once all ranks have come, with the links by rank.
  using Finished = std::function<void(std::vector<std::optional<bootstrap::Link>> links, int32_t hub_rank)>;
  RootTask(std::unique_ptr<bootstrap::Root> root, const Logger& log, Finished finished)
      : root_(std::move(root)), log_(log), finished_(std::move(finished)) {}

  bool poll(TimeNs now) override;
  void waits(std::vector<transport::Wait>& waits) override { root_->waits(waits); }
  [[nodiscard]] TimeNs due() const override { return root_->due(); }

 private:
  std::unique_ptr<bootstrap::Root> root_;
  const Logger& log_;
  Finished finished_;
};

class Join final : public exec::Task {
 public:
  struct Options {
    bootstrap::UniqueId id;
    int32_t rank = 0;
    int32_t ranks = 1;
    std::string name;
    exec::ProcessCard card;  ///< of this process
  };

  /// `changed` is called (from poll) when the outcome is known.
  static Result<std::shared_ptr<Join>> start(const bootstrap::Surroundings& surroundings, const Settings& settings, Options options,
                                             TimeNs now, std::function<void()> changed);

  // exec::Task
  bool poll(TimeNs now) override;
  void waits(std::vector<transport::Wait>& waits) override { member_->waits(waits); }
  [[nodiscard]] TimeNs due() const override { return member_->due(); }

  /// The outcome is known. Any thread; the rest only after it is true.
  [[nodiscard]] bool over() const { return over_.load(std::memory_order_acquire); }
  /// Who takes part, or why joining failed.
  [[nodiscard]] Result<Membership> membership() const;
  /// The link to the root's process, for the control plane. Once.
  [[nodiscard]] bootstrap::Link take_link() { return member_->take_link(); }
  [[nodiscard]] int32_t hub_rank() const { return member_->table().hub_rank; }

 private:
  Join(const Crypto& crypto, Options options, std::unique_ptr<bootstrap::Member> member, std::function<void()> changed)
      : crypto_(crypto), options_(std::move(options)), member_(std::move(member)), changed_(std::move(changed)) {}

  const Crypto& crypto_;
  Options options_;
  std::unique_ptr<bootstrap::Member> member_;
  std::function<void()> changed_;
  Status failure_;
  std::atomic<bool> over_{false};
};

}  // namespace isthmus::comm
