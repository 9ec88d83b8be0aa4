// SPDX-License-Identifier: Apache-2.0
// timeline.h. Three panels above each other with one axis of rounds: accuracy by method; rho with its threshold and the re-clusterings of
// `isthmus`; one line for each client, coloured by its cluster there.
#include "cli/federated/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/xml.h"

namespace isthmus::cli {
namespace {

constexpr double kWidth = 900, kLeft = 60, kRight = 170, kTop = 40, kPanel = 220, kSmallPanel = 110, kGap = 46, kLine = 4;
constexpr std::array<const char*, 8> kColours = {"#3b6ea5", "#d9822b", "#4f9d69", "#b0413e", "#7b5ea7", "#8c6d46", "#c774a8", "#6b7b8c"};

std::string colour_of(size_t index) { return kColours[index % kColours.size()]; }

class Drawing {
 public:
  Drawing(const Study& study, double height) : rounds_(study.rules.episode.rounds) {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        kWidth, height);
  }
  /// The left edge of a round, from 1; also of the one after the last.
  [[nodiscard]] double x(double round) const { return kLeft + (round - 1) / rounds_ * (kWidth - kLeft - kRight); }

  void words(double x, double y, std::string_view what, std::string_view more = "") {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, xml_text(what));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view colour, std::string_view more = "") {
    text_ +=
        fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" {}/>\n", x1, y1, x2, y2, colour, more);
  }
  void box(double x, double y, double width, double height, std::string_view colour) {
    text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y, width, height, colour);
  }
  /// A value for each round, between 0 and `most` of the panel from `top` down; 0 where there is none (NaN).
  template <typename Value>
  void curve(double top, double height, double most, std::string_view colour, double width, const Value& value) {
    text_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"", colour, width);
    for (uint32_t round = 1; round <= rounds_; ++round) {
      const double part = value(round - 1) / most;
      text_ += fmt::format("{:.1f},{:.1f} ", x(round + 0.5), top + height * (1 - (std::isnan(part) ? 0 : std::clamp(part, 0.0, 1.0))));
    }
    text_ += "\"/>\n";
  }
  void frame(double top, double height, double most, std::string_view title) {
    words(kLeft, top - 8, title, "font-weight=\"bold\"");
    line(x(1), top + height, x(rounds_ + 1), top + height, "#444444");
    line(x(1), top, x(1), top + height, "#444444");
    words(kLeft - 8, top + 10, fmt::format("{:.2g}", most), "text-anchor=\"end\"");
    words(kLeft - 8, top + height, "0", "text-anchor=\"end\"");
  }
  void axis(double y) {
    const uint32_t step = std::max(1U, rounds_ / 10);
    for (uint32_t round = step; round <= rounds_; round += step)
      words(x(round + 0.5), y + 16, fmt::format("{}", round), "text-anchor=\"middle\"");
    words(x(rounds_ + 1) + 12, y + 16, "round");
  }
  std::string finish() && { return std::move(text_) + "</svg>\n"; }

 private:
  uint32_t rounds_;
  std::string text_;
};

/// What is shown in the lower panels: ours, else the first method.
size_t shown_method(const Study& study) {
  const auto found = std::find(study.rules.methods.begin(), study.rules.methods.end(), Method::isthmus);
  return found == study.rules.methods.end() ? 0 : static_cast<size_t>(found - study.rules.methods.begin());
}

void draw_drifts(Drawing& drawing, const EpisodeRules& rules, double top, double bottom) {
  for (uint32_t round = rules.drift_every; round < rules.rounds; round += rules.drift_every) {
    const bool big = round == rules.big_drift;
    drawing.line(drawing.x(round), top, drawing.x(round), bottom, big ? "#888888" : "#dddddd", big ? "stroke-dasharray=\"4 3\"" : "");
  }
}

void draw_accuracies(Drawing& drawing, const Study& study, double top) {
  drawing.frame(top, kPanel, 1, "accuracy of each client's model on its own task, mean");
  for (size_t m = 0; m < study.rules.methods.size(); ++m) {
    const History& history = study.histories[m].front();
    const bool ours = study.rules.methods[m] == Method::isthmus;
    drawing.curve(top, kPanel, 1, colour_of(m), ours ? 2.6 : 1.3, [&](size_t at) { return history[at].accuracy; });
    const double y = top + 14 + 18 * static_cast<double>(m);
    drawing.line(kWidth - kRight + 14, y - 4, kWidth - kRight + 34, y - 4, colour_of(m), "stroke-width=\"3\"");
    drawing.words(kWidth - kRight + 40, y, name_of(study.rules.methods[m]));
  }
}

void draw_rho(Drawing& drawing, const History& history, double tau, double top) {
  double most = 2 * tau;
  for (const RoundRecord& record : history) most = std::max(most, std::min(record.rho, 2.0));
  if (!(most > 0)) most = 1;  // no threshold, and nothing has moved
  drawing.frame(top, kSmallPanel, most, "rho: the largest move of a centre since the last clustering, over the centres' mean distance");
  const double threshold = top + kSmallPanel * (1 - tau / most);
  drawing.line(drawing.x(1), threshold, drawing.x(static_cast<double>(history.size()) + 1), threshold, "#b0413e",
               "stroke-dasharray=\"2 3\"");
  drawing.words(kWidth - kRight + 14, threshold + 4, "tau");
  drawing.curve(top, kSmallPanel, most, "#3b6ea5", 1.8, [&](size_t at) { return history[at].rho; });
  for (size_t at = 0; at < history.size(); ++at) {
    if (!history[at].reclustered) continue;
    const double x = drawing.x(static_cast<double>(at) + 1.5);
    drawing.line(x, top, x, top + kSmallPanel, "#b0413e", "stroke-width=\"2\"");
    drawing.words(x + 4, top + 12, "re-clustered", "fill=\"#b0413e\"");
  }
}

void draw_clusters(Drawing& drawing, const History& history, double top) {
  const size_t clients = history.front().clusters.size();
  drawing.frame(top, kLine * static_cast<double>(clients), static_cast<double>(clients), "clients, coloured by cluster");
  for (size_t client = 0; client < clients; ++client) {
    for (size_t first = 0, at = 0; at < history.size(); first = at) {
      while (at < history.size() && history[at].clusters[client] == history[first].clusters[client]) ++at;
      const double x = drawing.x(static_cast<double>(first) + 1);
      drawing.box(x, top + kLine * static_cast<double>(client), drawing.x(static_cast<double>(at) + 1) - x, kLine - 0.6,
                  colour_of(history[first].clusters[client]));
    }
  }
}

}  // namespace

std::string timeline_svg(const Study& study) {
  const EpisodeRules& rules = study.rules.episode;
  const size_t shown = shown_method(study);
  const History& history = study.histories[shown].front();
  const double second = kTop + kPanel + kGap, third = second + kSmallPanel + kGap;
  const double bottom = third + kLine * rules.clients;
  Drawing drawing(study, bottom + 60);
  draw_drifts(drawing, rules, kTop, bottom);
  draw_accuracies(drawing, study, kTop);
  draw_rho(drawing, history, study.rules.method.tau, second);
  draw_clusters(drawing, history, third);
  drawing.axis(bottom);
  drawing.words(kLeft, bottom + 44,
                fmt::format("scenario {}, seed {}; lower panels: {}; grey lines: drift, dashed: the big one; images: {}",
                            name_of(rules.scenario), study.rules.first_seed, name_of(study.rules.methods[shown]), study.source));
  return std::move(drawing).finish();
}

}  // namespace isthmus::cli
