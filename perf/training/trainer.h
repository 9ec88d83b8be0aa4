// SPDX-License-Identifier: Apache-2.0
// Data-parallel stochastic gradient descent with momentum, as one rank does it: its part of the examples, its mini-batches, the average of
// all ranks' gradients, the same update everywhere. Used by main(). Throws sweep::Failure when a library call fails, another process is
// gone, or ranks have come to different parameters.
#pragma once

#include <string>
#include <vector>

#include "averager.h"
#include "data.h"
#include "model.h"
#include "options.h"
#include "sweep/oob.h"

namespace training {

class Trainer {
 public:
  Trainer(const Options& options, ncclComm_t comm, sweep::Oob& oob);

  /// Trains from the beginning; rank 0 prints what it has come to.
  void run(const std::string& codec);

 private:
  /// What a rank has to say at a report.
  struct Account {
    double seconds = 0, communication_seconds = 0;
    double training_loss = 0;                        ///< of its mini-batches since the last report
    double held_out_loss = 0, held_out_correct = 0;  ///< summed over its part
    double link_bytes = 0, encoded_bytes = 0;
    uint64_t parameters_hash = 0;
  };

  void begin();
  void step(uint64_t number, Averager& averager);
  void report(const std::string& codec, uint64_t steps_done, const Averager& averager);
  void conclude(const std::string& codec, const Averager& averager);
  [[nodiscard]] Account account(const Averager& averager);
  void require_same(const std::vector<Account>& accounts, const std::string& codec, uint64_t steps_done) const;

  const Options& options_;
  ncclComm_t comm_;
  sweep::Oob& oob_;
  Task task_;
  Mlp<float> model_;
  Examples own_, held_out_, batch_;
  std::vector<float> parameters_, velocity_;

  double seconds_ = 0, link_bytes_ = 0;  ///< of training alone, without reports
  double loss_sum_ = 0;
  uint64_t losses_ = 0;
};

}  // namespace training
