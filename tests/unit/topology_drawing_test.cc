// SPDX-License-Identifier: Apache-2.0
// topology/drawing.h: trees as text and as SVG.
#include "topology/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Box kTwo = {
    .kind = "job",
    .title = "job",
    .note = "2 hosts",
    .children = {{.kind = "region", .title = "eu", .children = {{.kind = "host", .title = "a"}, {.kind = "host", .title = "b"}}},
                 {.kind = "host", .title = "c", .note = "rank 2"}}};

TEST(Drawing, TextIsALineForEachBox) {
  EXPECT_EQ(to_text(kTwo),
            "job  2 hosts\n"
            "├─ eu\n"
            "│  ├─ a\n"
            "│  └─ b\n"
            "└─ c  rank 2\n");
}

TEST(Drawing, TreesAndHostsAreBoxes) {
  const Place a{.host_id = 1, .hostname = "h1", .claims = {{.level = Level::building, .name = "x", .source = "ISTHMUS_SITE"}}};
  const Place b{.host_id = 2, .hostname = "h2", .claims = a.claims};
  EXPECT_EQ(to_text(box_of(make_tree(std::vector{a, a, b}))),
            "job  2 hosts, ranks 0-2\n"
            "└─ building x  2 hosts, ranks 0-2  [ISTHMUS_SITE]\n"
            "   ├─ host h1  ranks 0-1\n"
            "   └─ host h2  rank 2\n");
  const Part package{.kind = "package",
                     .name = "0",
                     .cores = 2,
                     .cpus = "0-3",
                     .model = "EPYC",
                     .children = {{.kind = "numa", .name = "0", .bytes = 16'750'372'454},
                                  {.kind = "l3", .bytes = 32 << 20, .cores = 2, .cpus = "0-3"},
                                  {.kind = "network", .name = "eth0", .link_gb_per_s = 15.75}}};
  EXPECT_EQ(to_text(box_of(package)),
            "package 0  2 cores, CPUs 0-3, EPYC\n"
            "├─ NUMA node 0  15.6 GiB\n"
            "├─ L3 32 MiB  2 cores, CPUs 0-3\n"
            "└─ network eth0  15.8 GB/s over PCI\n");
}

TEST(Drawing, SvgHoldsEveryBoxOnce) {
  const std::string svg = to_svg(kTwo);
  EXPECT_THAT(svg, AllOf(HasSubstr("<?xml"), HasSubstr("</svg>"), HasSubstr("<g class=\"region\">"), HasSubstr(">rank 2</text>")));
  size_t boxes = 0;
  for (size_t at = svg.find("<rect x="); at != std::string::npos; at = svg.find("<rect x=", at + 1)) ++boxes;
  EXPECT_EQ(boxes, 5U);
}

TEST(Drawing, SvgStaysWellFormedWhateverNamesHold) {
  const std::string svg = to_svg({.kind = "host", .title = "a<b>&\"c\x07\xff\xc3\xa9\xed\xa0\x80\xef\xbf\xbf"});
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;c??\xc3\xa9??????"));
  EXPECT_THAT(svg, Not(HasSubstr("\xff")));
}

}  // namespace
}  // namespace isthmus::topology
