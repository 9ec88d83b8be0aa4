// SPDX-License-Identifier: Apache-2.0
// A cohort's memory: who reported what, who is in which cluster, where centres were. Reports go in at any time and in any order; update()
// moves clients or clusters all anew, and says what it did. Everything that decides is here or below; nothing here sends, waits or reads a
// clock, and equal reports with an equal seed give equal results on hosts with the same C library. Used by cohorts over communicators, by
// the simulation and by the offline tool. Errors are reports that cannot be compared and rules that cannot be met.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "federated/clustering.h"
#include "federated/defences.h"
#include "federated/heterogeneity.h"
#include "federated/partition.h"
#include "federated/representation.h"
#include "federated/trigger.h"

namespace isthmus::federated {

enum class Recluster : uint8_t { by_trigger, at_every_report, never };

struct CohortConfig {
  RepHeader rep;          ///< what every report must carry
  ClusterRules clusters;  ///< its metric is the cohort's
  TriggerRules trigger;   ///< its min_cohort is clusters.min_cohort
  double hysteresis = 0.05;
  bool migrates = true;
  Recluster recluster = Recluster::by_trigger;
  double trim = 0;  ///< > 0: centres are trimmed means
  double clip = 0;  ///< > 0: rows count as if at most so far from their centre
  MoveCap move_cap;
  QuarantineRules quarantine;
};

struct Report {
  uint64_t client = 0;
  uint64_t sequence = 0;  ///< of this client's reports; one that is not above the last is a repetition and changes nothing
  uint64_t samples = 0;
  std::span<const float> values;
};

/// What an update came to.
struct DriftReport {
  uint64_t epoch = 0;  ///< of the partition: rises when any client's cluster changes
  uint64_t round = 0;  ///< updates so far, this one included
  uint32_t k = 0;
  bool reclustered = false;  ///< all were clustered anew, the first time not counted
  Cause cause = Cause::none;
  uint64_t clients = 0, reported = 0, repeated = 0, refused = 0;  ///< the last three: since the last update
  uint64_t joined = 0, migrated = 0, capped = 0, quarantined = 0;
  double rho = 0, tau = 0;              ///< rho before a re-clustering
  double theta = 0, silhouette = 0;     ///< of the last clustering
  double spread = 0;                    ///< mean distance to centres
  std::vector<Heterogeneity> clusters;  ///< by cluster; size 0: kept though empty
};

class CohortState {
 public:
  explicit CohortState(const CohortConfig& config);

  /// Takes a client's representation in; it counts from the next update. invalid_argument: another header, or no representation at all; the
  /// client's last one stays.
  Status report(const RepHeader& header, const Report& report);
  /// The client is gone, at once; without it nothing is done.
  void remove(uint64_t client);
  /// `cosine` of the client's update with its cluster's, this round. Those in quarantine do not move centres and should not train.
  void observe_update(uint64_t client, double cosine);
  void release(uint64_t client);
  /// The next update clusters anew whatever the trigger says.
  void ask() { asked_ = true; }

  /// Clusters for the first time, or moves reporters, then re-clusters if need be. invalid_argument: fewer clients than clusters are to be.
  Result<DriftReport> update();

  [[nodiscard]] const CohortConfig& config() const { return config_; }
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] uint32_t k() const { return static_cast<uint32_t>(sizes_.size()); }
  [[nodiscard]] size_t clients() const { return table_.size(); }
  /// kNoCluster for clients that no update has seen.
  [[nodiscard]] uint32_t cluster_of(uint64_t client) const;
  [[nodiscard]] bool quarantined(uint64_t client) const;
  /// Of the client's latest report; 0: there is none.
  [[nodiscard]] uint64_t sequence_of(uint64_t client) const;
  /// Whether a client has something to report: it has not yet, its data have changed by more than `at_least` and than noise since it did,
  /// or it would be in another cluster now. The noise of shares of labels follows from numbers of samples; others' is the caller's to know.
  [[nodiscard]] bool is_news(uint64_t client, std::span<const float> values, uint64_t samples, double at_least) const;
  /// Ascending, and the cluster of each.
  [[nodiscard]] std::vector<uint64_t> ids() const;
  [[nodiscard]] std::vector<uint32_t> assignment() const;
  [[nodiscard]] Points centres() const { return {.values = centres_, .dims = config_.rep.dims}; }
  /// How the last re-clustering makes new models of old ones: k() rows of k_old(). Empty unless the last update re-clustered.
  [[nodiscard]] std::span<const double> mixing() const { return mixing_; }
  [[nodiscard]] uint32_t k_old() const { return k_old_; }

 private:
  struct Client {
    uint64_t id = 0, sequence = 0, samples = 0;
    uint32_t cluster = kNoCluster;
    bool fresh = false;         ///< reported since the last update
    bool in_reference = false;  ///< its representation is among those that the reference centres are means of
    Moves moves;
    Conduct conduct;
  };
  /// Rows of clients that count, by ascending id; copied where they do not lie so already.
  struct Rows {
    std::vector<uint32_t> slots;
    std::vector<float> copied;
    Points points;
    std::vector<uint32_t> assignment;
  };

  [[nodiscard]] std::span<float> values_of(uint32_t slot);
  [[nodiscard]] std::span<const float> values_of(uint32_t slot) const;
  [[nodiscard]] std::vector<uint32_t> slots_by_id() const;
  [[nodiscard]] Rows rows_that_count() const;
  Status cluster_anew(Rows& rows, DriftReport& report);
  void adopt(Rows& rows, Found found, DriftReport& report);
  void place_uncounted();
  void move_reporters(DriftReport& report);
  void update_centres(const Rows& rows);
  void count_sizes(const Rows& rows);
  void measure(const Rows& rows, DriftReport& report) const;
  [[nodiscard]] std::vector<double> noise_of_moves(const Rows& rows) const;
  [[nodiscard]] Cause cause_of(const DriftReport& report) const;

  CohortConfig config_;
  std::vector<Client> table_;  ///< by slot
  std::vector<float> values_;  ///< by slot, rows of config_.rep.dims
  std::unordered_map<uint64_t, uint32_t> slots_;
  std::vector<float> centres_, reference_;
  std::vector<Heterogeneity> reference_clusters_;  ///< around reference_
  std::vector<uint64_t> sizes_;
  std::vector<uint32_t> empty_rounds_;  ///< by cluster
  std::vector<double> mixing_;
  uint32_t k_old_ = 0;
  double theta_ = 0, silhouette_ = 0;
  uint64_t epoch_ = 0, round_ = 0, clustered_at_ = 0;
  uint64_t repeated_ = 0, refused_ = 0, reported_ = 0;
  bool asked_ = false, changed_ = false;
};

}  // namespace isthmus::federated
