// SPDX-License-Identifier: Apache-2.0
// Data-parallel training and its reports (see trainer.h).
#include "trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "link_bytes.h"
#include "sweep/failure.h"

namespace training {
namespace {

using sweep::check;
using Clock = std::chrono::steady_clock;

std::vector<int> widths_of(const Options& options, const Task& task) {
  std::vector<int> widths = {task.features};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(task.classes);
  return widths;
}

Examples shard(const Task& task, uint64_t first, uint64_t count, const sweep::Oob& oob) {
  const Shard mine = shard_of(first, count, oob.rank(), oob.size());
  if (mine.count == 0) throw sweep::Failure{kExitUsage, fmt::format("{} examples are not one for each of {} ranks", count, oob.size())};
  return make_examples(task, mine.first, mine.count);
}

uint64_t hash_of(std::span<const float> values) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

void print(const nlohmann::json& line) { fmt::print("{}\n", line.dump()); }

}  // namespace

Trainer::Trainer(const Options& options, ncclComm_t comm, sweep::Oob& oob)
    : options_(options),
      comm_(comm),
      oob_(oob),
      task_({.seed = options.seed}),
      model_(widths_of(options, task_)),
      own_(shard(task_, 0, options.examples, oob)),
      held_out_(shard(task_, kFirstHeldOut, options.held_out, oob)),
      batch_(
          {.inputs = Eigen::MatrixXf(task_.features, static_cast<Eigen::Index>(options.batch)), .labels = std::vector<int>(options.batch)}),
      parameters_(model_.parameters()),
      velocity_(model_.parameters()) {
  if (oob_.rank() != 0) return;
  print({{"event", "job"},
         {"ranks", oob_.size()},
         {"parameters", model_.parameters()},
         {"seed", options_.seed},
         {"batch", options_.batch},
         {"learning_rate", options_.learning_rate},
         {"momentum", options_.momentum},
         {"examples", options_.examples},
         {"held_out", options_.held_out}});
}

void Trainer::begin() {
  model_.initialize(options_.seed, parameters_);
  check(ncclBroadcast(parameters_.data(), parameters_.data(), parameters_.size(), ncclFloat32, 0, comm_, nullptr), "ncclBroadcast");
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  seconds_ = link_bytes_ = loss_sum_ = 0;
  losses_ = 0;
}

void Trainer::run(const std::string& codec) {
  Averager averager(comm_, codec, model_.parameters());
  begin();
  report(codec, 0, averager);
  for (uint64_t done = 0; done < options_.steps;) {
    const uint64_t until = std::min(options_.steps, done + options_.report_every);
    const uint64_t link_before = link_bytes_sent();
    const Clock::time_point began = Clock::now();
    for (; done < until; ++done) step(done, averager);
    seconds_ += std::chrono::duration<double>(Clock::now() - began).count();
    link_bytes_ += static_cast<double>(link_bytes_sent() - link_before);
    if (options_.inject_wrong && done == options_.steps && oob_.rank() == oob_.size() - 1) parameters_[0] += 1;
    report(codec, done, averager);
  }
  conclude(codec, averager);
}

void Trainer::step(uint64_t number, Averager& averager) {
  draw_batch(own_, options_.seed, oob_.rank(), number, batch_);
  loss_sum_ += model_.differentiate(parameters_, batch_.inputs, batch_.labels, averager.own()).loss;
  ++losses_;
  averager.average();
  const std::span<const float> gradient = averager.averaged();
  const auto momentum = static_cast<float>(options_.momentum);
  const double left = 1 - static_cast<double>(number) / static_cast<double>(options_.steps);
  const auto rate = static_cast<float>(options_.learning_rate * left);
  for (size_t at = 0; at < parameters_.size(); ++at) {
    velocity_[at] = momentum * velocity_[at] + gradient[at];
    parameters_[at] -= rate * velocity_[at];
  }
}

Trainer::Account Trainer::account(const Averager& averager) {
  const auto score = model_.evaluate(parameters_, held_out_.inputs, held_out_.labels);
  return {.seconds = seconds_,
          .communication_seconds = averager.seconds(),
          .training_loss = losses_ == 0 ? 0 : loss_sum_ / static_cast<double>(losses_),
          .held_out_loss = score.loss * static_cast<double>(held_out_.size()),
          .held_out_correct = static_cast<double>(score.correct),
          .link_bytes = link_bytes_,
          .encoded_bytes = static_cast<double>(averager.encoded_bytes()),
          .parameters_hash = hash_of(parameters_)};
}

void Trainer::require_same(const std::vector<Account>& accounts, const std::string& codec, uint64_t steps_done) const {
  for (size_t rank = 1; rank < accounts.size(); ++rank) {
    if (accounts[rank].parameters_hash == accounts[0].parameters_hash) continue;
    throw sweep::Failure{sweep::kExitWrongData, fmt::format("codec {}: after {} steps the parameters of rank {} are not those of rank 0",
                                                            codec, steps_done, rank)};
  }
}

/// Through the launcher, so that a report costs no byte on the links; it also lines the ranks up before the clock goes on.
void Trainer::report(const std::string& codec, uint64_t steps_done, const Averager& averager) {
  const std::vector<Account> accounts = oob_.gather<Account>(std::array{account(averager)});
  require_same(accounts, codec, steps_done);
  Account all;
  for (const Account& one : accounts) {
    all.seconds = std::max(all.seconds, one.seconds);
    all.communication_seconds += one.communication_seconds;
    all.training_loss += one.training_loss;
    all.held_out_loss += one.held_out_loss;
    all.held_out_correct += one.held_out_correct;
    all.link_bytes += one.link_bytes;
    all.encoded_bytes += one.encoded_bytes;
  }
  const auto ranks = static_cast<double>(accounts.size());
  const auto held_out = static_cast<double>(options_.held_out);
  loss_sum_ = 0;
  losses_ = 0;
  if (oob_.rank() != 0) return;
  nlohmann::json line = {{"event", "point"},
                         {"codec", codec},
                         {"step", steps_done},
                         {"seconds", all.seconds},
                         {"communication_seconds", all.communication_seconds / ranks},
                         {"training_loss", nullptr},
                         {"held_out_loss", all.held_out_loss / held_out},
                         {"held_out_accuracy", all.held_out_correct / held_out},
                         {"link_bytes", all.link_bytes / ranks},
                         {"encoded_bytes", all.encoded_bytes / ranks}};
  if (steps_done > 0) line["training_loss"] = all.training_loss / ranks;
  print(line);
}

void Trainer::conclude(const std::string& codec, const Averager& averager) {
  if (oob_.rank() != 0) return;
  const isthmusCompressionInfo_t info = averager.info();
  nlohmann::json line = {{"event", "end"}, {"codec", codec}, {"same_parameters", true}, {"parameters_hash", hash_of(parameters_)}};
  if (averager.compresses()) {
    line["as"] = info.codec;
    line["algorithm"] = info.algorithm;
    line["predicted_error"] = info.predictedError;
    line["measured_error"] = info.measuredError;
  }
  print(line);
}

}  // namespace training
