// SPDX-License-Identifier: Apache-2.0
// Which messages hierarchies of sums and gathers send, in closed form. Used by forms.cc; cannot fail. See formulas.h.
#include <algorithm>
#include <bit>

#include "topology/planner/formulas.h"

namespace isthmus::topology {

/// Fills the form of one choice. A path goes from a rank of one site up to who speaks for it there, across, and down to a rank of another;
/// of the first share, or of the block of its first rank (what is gathered) or its last (what is scattered).
class Formulas::Hierarchy {
 public:
  Hierarchy(const Formulas& formulas, const collectives::Choice& choice, Form& form)
      : formulas_(formulas),
        form_(form),
        sites_(formulas.widest_),
        leaders_(choice.leaders),
        gathers_(choice.algorithm->collective == Collective::allgather),
        scatters_(choice.algorithm->collective == Collective::reduce_scatter) {
    const double ranks = formulas.scene_.ranks();
    const bool allreduce = !gathers_ && !scatters_, parts = choice.across == plan::Across::ring || choice.across == plan::Across::direct;
    const double shares = choice.leaders == 0 ? formulas.tree_.smallest_site() : choice.leaders;
    whole_ = allreduce && !(parts && (sites_.size() > 2 || choice.across == plan::Across::ring));
    form.cells = allreduce ? shares * (whole_ ? 1 : count()) : ranks;
    across_ = 1 / form.cells;
    inside_ = allreduce ? 1 / shares : across_;
  }

  // One path for each pair of sites, and what each site sends across.
  void directly() {
    if (!gathers_) {
      form_.inbox_messages = count() - 1;  // at the first site: the others keep a first summand elsewhere
      form_.inbox_latency_ns = kNever;
      for (size_t b = 1; b < sites_.size(); ++b) form_.inbox_latency_ns = std::min(form_.inbox_latency_ns, link(b, 0).latency_ns);
    }
    const bool alike = sites_.size() == 2 && formulas_.tree_.top() == 2;  // deeper trees have ways of different lengths
    for (size_t a = 0; a < sites_.size(); ++a) {
      for (size_t b = 0; b < sites_.size(); ++b) {
        if (a == b) continue;
        const int32_t from = gathers_ ? sites_[a].front() : sites_[a].back(), to = scatters_ ? sites_[b].front() : sites_[b].back();
        Path path = way(from, {{b, !gathers_}}, to);
        Path around = path;
        std::erase_if(around, [&](const Hop& hop) { return hop.link == &formulas_.scene_.facts(from, to); });
        form_.paths.push_back(std::move(path));
        double crosses = whole_ ? 1 : 2 / count();
        if (gathers_) crosses = part_of(a);
        if (scatters_) crosses = part_of(b);
        cross(a, b, crosses, alike ? around : Path());
      }
    }
  }

  // Sums of a share's first part end at the first site, and are told to the last one last; blocks come to the site before their own last.
  void around() {
    const size_t sites = sites_.size(), ways = gathers_ || scatters_ ? sites : 1;
    for (size_t home = 0; home < ways; ++home) {
      const size_t first = gathers_ ? home : (home + 1) % sites, last = (home + sites - 1) % sites;
      std::vector<Crossing> crossings;
      for (size_t step = gathers_ ? 1 : 2; !gathers_ && step <= sites; ++step) crossings.push_back({(home + step) % sites, true});
      for (size_t step = 1; !scatters_ && step < sites; ++step) crossings.push_back({(home + step) % sites, false});
      const int32_t from = gathers_ ? sites_[first].front() : sites_[first].back();
      form_.paths.push_back(way(from, crossings, scatters_ ? sites_[home].front() : sites_[last].back()));
    }
    for (size_t site = 0; site < sites; ++site) {
      const size_t next = (site + 1) % sites;
      cross(site, next, gathers_ ? 1 - part_of(next) : scatters_ ? 1 - part_of(site) : 2 * (count() - 1) / count(), {});
    }
  }

  // As Formulas::describe_doubling, of sites.
  void doubling() {
    const size_t staying = std::bit_floor(sites_.size()), folded = sites_.size() - staying;
    const auto at = [&](size_t number) { return number < folded ? 2 * number : number + folded; };
    for (size_t first = 0; first < staying; ++first) {
      std::vector<Crossing> crossings;
      size_t number = first;
      const bool folds = number < folded;
      if (folds) {
        crossings.push_back({at(number), true});
        cross(at(number) + 1, at(number), 1, {});
        cross(at(number), at(number) + 1, 1, {});
      }
      for (size_t distance = 1; distance < staying; distance *= 2) {
        number ^= distance;
        crossings.push_back({at(number), true});
        cross(at(first), at(first ^ distance), 1, {});
      }
      if (number < folded) crossings.push_back({at(number) + 1, false});
      form_.paths.push_back(way(sites_[folds ? at(first) + 1 : at(first)].back(), crossings, sites_[crossings.back().to].back()));
    }
  }

 private:
  struct Crossing {
    size_t to;  ///< site
    bool reduces;
  };

  [[nodiscard]] double count() const { return static_cast<double>(sites_.size()); }
  /// The share of the blocks that a site's ranks have.
  [[nodiscard]] double part_of(size_t site) const { return static_cast<double>(sites_[site].size()) / formulas_.scene_.ranks(); }
  [[nodiscard]] const LinkFacts& link(size_t from, size_t to) const {
    return formulas_.scene_.facts(sites_[from].front(), sites_[to].front());
  }
  void cross(size_t from, size_t to, double share, const Path& around) {
    formulas_.add_crossing(form_.loads, sites_[from].front(), sites_[to].front(), share, around);
  }

  [[nodiscard]] Path way(int32_t from, const std::vector<Crossing>& crossings, int32_t to) const {
    const collectives::Tree& tree = formulas_.tree_;
    const int32_t owner = gathers_ ? from : scatters_ ? to : -1, top = tree.top() - 1;
    const int32_t key = owner < 0 ? 0 : tree.key_of(owner, leaders_);
    Path path;
    int32_t held = from;
    const auto go = [&](int32_t level, int32_t node, double share, bool reduces) {
      const int32_t next = tree.home(level, node, key, owner);
      if (next != held) path.push_back({.link = &formulas_.scene_.facts(held, next), .share = share, .reduces = reduces});
      held = next;
    };
    for (int32_t level = 1; level <= top; ++level) go(level, tree.node(level, from), inside_, true);
    for (const Crossing& one : crossings) go(top, tree.node(top, sites_[one.to].front()), across_, one.reduces);
    for (int32_t level = top - 1; level >= 0; --level) go(level, tree.node(level, to), inside_, false);
    return path;
  }

  const Formulas& formulas_;
  Form& form_;
  const std::vector<std::vector<int32_t>>& sites_;
  uint32_t leaders_;
  bool gathers_, scatters_;
  bool whole_ = false;              ///< each leader adds all of its share
  double inside_ = 0, across_ = 0;  ///< what of the buffer travels in one message
};

void Formulas::describe_hierarchy(Form& form, const collectives::Choice& choice) const {
  Hierarchy hierarchy(*this, choice, form);
  switch (choice.across) {
    case plan::Across::direct:
    case plan::Across::one_shot:
      return hierarchy.directly();
    case plan::Across::ring:
      return hierarchy.around();
    case plan::Across::recursive_doubling:
      return hierarchy.doubling();
  }
}

}  // namespace isthmus::topology
