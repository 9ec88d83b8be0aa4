// SPDX-License-Identifier: Apache-2.0
// Boxes within boxes as an SVG drawing. See drawing.h. Two passes: sizes from the inside out, then places from the outside in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/xml.h"
#include "topology/drawing.h"

namespace isthmus::topology {
namespace {

constexpr double kGap = 10;           // between boxes, and between a box's edge and what is in it
constexpr double kTitleHeight = 20;   // of a line
constexpr double kLetterWidth = 7.4;  // of the fixed-width font below, at its larger size; generous
constexpr size_t kMaxNote = 60;       // letters of a note; the rest is in the box's tool tip

struct Sized {
  const Box* box;
  double width = 0, height = 0;
  size_t columns = 1;
  double cell_width = 0;  ///< of a child
  std::vector<double> row_heights;
  std::vector<Sized> children;
};

/// Bytes that begin a character of UTF-8, which is what widths count.
size_t letters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

Sized size_of(const Box& box) {
  Sized sized{.box = &box};
  const size_t widest = std::max(letters(box.title), std::min(letters(box.note), kMaxNote + 1));
  const double head = kGap / 2 + kTitleHeight * (box.note.empty() ? 1 : 2);
  sized.width = 2 * kGap + kLetterWidth * static_cast<double>(widest);
  sized.height = head + kGap / 2;
  if (box.children.empty()) return sized;
  for (const Box& child : box.children) {
    sized.children.push_back(size_of(child));
    sized.cell_width = std::max(sized.cell_width, sized.children.back().width);
  }
  const size_t count = sized.children.size();
  sized.columns = std::max<size_t>(1, static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(count)))));
  for (size_t at = 0; at < count; at += sized.columns) {
    double row = 0;
    for (size_t one = at; one < std::min(count, at + sized.columns); ++one) row = std::max(row, sized.children[one].height);
    sized.row_heights.push_back(row);
    sized.height += row + kGap;
  }
  const auto columns = static_cast<double>(sized.columns);
  sized.width = std::max(sized.width, kGap + columns * (sized.cell_width + kGap));
  sized.cell_width = (sized.width - kGap) / columns - kGap;
  return sized;
}

std::string_view colour_of(std::string_view kind) {
  struct Colour {
    std::string_view kind, colour;
  };
  static constexpr std::array kColours = {Colour{"job", "#ffffff"},        Colour{"region", "#e8eef7"},  Colour{"building", "#d3e2f4"},
                                          Colour{"zone", "#bcd4ee"},       Colour{"host", "#f7f3e3"},    Colour{"package", "#efe6c4"},
                                          Colour{"numa", "#d9ead3"},       Colour{"network", "#f4d7c9"}, Colour{"rdma", "#f4d7c9"},
                                          Colour{"accelerator", "#e3d0ea"}};
  const auto* found = std::find_if(kColours.begin(), kColours.end(), [&](const Colour& one) { return one.kind == kind; });
  return found == kColours.end() ? "#fbf9f0" : found->colour;
}

/// A box fills the cell that its parent gives it, so that what stands side by side is of one size.
void draw(const Sized& sized, double x, double y, double width, double height, std::string& out) {
  const Box& box = *sized.box;
  out += fmt::format(
      "<g class=\"{}\"><title>{}</title>\n<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" fill=\"{}\" "
      "stroke=\"#555\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n",
      xml_text(box.kind), xml_text(box.note.empty() ? box.title : box.title + ": " + box.note), x, y, width, height, colour_of(box.kind),
      x + kGap, y + kTitleHeight - 2, xml_text(box.title));
  double below = y + kGap / 2 + kTitleHeight;
  if (!box.note.empty()) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#444\">{}</text>\n", x + kGap, y + 2 * kTitleHeight - 4,
                       xml_text(box.note, kMaxNote));
    below += kTitleHeight;
  }
  const double cell_width = (width - kGap) / static_cast<double>(sized.columns) - kGap;
  for (size_t at = 0; at < sized.children.size(); ++at) {
    const double row_height = sized.row_heights[at / sized.columns];
    draw(sized.children[at], x + kGap + static_cast<double>(at % sized.columns) * (cell_width + kGap), below, cell_width, row_height, out);
    if (at % sized.columns + 1 == sized.columns) below += row_height + kGap;
  }
  out += "</g>\n";
}

}  // namespace

std::string to_svg(const Box& box) {
  const Sized sized = size_of(box);
  const double width = sized.width + 2 * kGap, height = sized.height + 2 * kGap;
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"monospace\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  draw(sized, kGap, kGap, sized.width, sized.height, out);
  return out + "</svg>\n";
}

}  // namespace isthmus::topology
