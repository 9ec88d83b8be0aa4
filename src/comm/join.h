// SPDX-License-Identifier: Apache-2.0
// One rank on its way into a communicator: meets the others through the rendezvous and ends with everybody's card. A task of the
// control thread (or of the simulator); comm/setup.h then makes the communicator. Fails at the set-up deadline, saying who is missing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "comm/communicator.h"
#include "comm/watch.h"
#include "exec/control_thread.h"

namespace isthmus::comm {

/// Serves the rendezvous of an id made in this process until all ranks have come, then their control plane until all have left.
class RootTask final : public exec::Task {
 public:
  RootTask(std::unique_ptr<bootstrap::Root> root, const bootstrap::ControlOptions& options, const Logger& log)
      : root_(std::move(root)), options_(options), log_(log) {}

  bool poll(TimeNs now) override;
  void waits(std::vector<transport::Wait>& waits) override { root_ != nullptr ? root_->waits(waits) : hub_->waits(waits); }
  [[nodiscard]] TimeNs due() const override { return root_ != nullptr ? root_->due() : hub_->due(); }

 private:
  std::unique_ptr<bootstrap::Root> root_;  ///< until all ranks have come
  std::optional<bootstrap::ControlHub> hub_;
  bootstrap::ControlOptions options_;
  const Logger& log_;
};

/// The control plane's options, as the settings say.
bootstrap::ControlOptions control_options(const Settings& settings);

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
  /// This rank's ear on the control plane, for the membership. Once.
  [[nodiscard]] std::shared_ptr<Watch> make_watch(const Settings& settings, TimeNs now, Watch::Deliver deliver, std::function<void()> wake);

  /// Use start().
  Join(const Crypto& crypto, Options options, std::unique_ptr<bootstrap::Member> member, std::function<void()> changed)
      : crypto_(crypto), options_(std::move(options)), member_(std::move(member)), changed_(std::move(changed)) {}

 private:
  const Crypto& crypto_;
  Options options_;
  std::unique_ptr<bootstrap::Member> member_;
  std::function<void()> changed_;
  Status failure_;
  std::atomic<bool> over_{false};
};

}  // namespace isthmus::comm
