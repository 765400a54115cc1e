#include "fabric/drawing/drawing.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "fabric/drawing/layout.h"

namespace verbatim::fabric::drawing {
namespace {

/// Switches of a level are connected to all of the next one; hosts to the first level.
Drawing tree(std::size_t hosts_of_a_leaf, const std::vector<std::size_t>& levels) {
  Drawing drawing{.title = "tree", .nodes = {}, .links = {}};
  std::vector<std::uint32_t> below;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    std::vector<std::uint32_t> row;
    for (std::size_t i = 0; i < levels[level]; ++i) {
      const auto node = static_cast<std::uint32_t>(drawing.nodes.size());
      row.push_back(node);
      drawing.nodes.push_back({.kind = Kind::switch_node, .name = "S", .detail = ""});
      for (const std::uint32_t other : below) drawing.links.push_back({.a = node, .b = other});
      for (std::size_t h = 0; level == 0 && h < hosts_of_a_leaf; ++h) {
        drawing.links.push_back({.a = node, .b = static_cast<std::uint32_t>(drawing.nodes.size())});
        drawing.nodes.push_back({.kind = Kind::host, .name = "H", .detail = ""});
      }
    }
    below = row;
  }
  return drawing;
}

Drawing ring(std::size_t switches) {
  Drawing drawing = tree(2, {switches});
  for (std::uint32_t i = 0; i < switches; ++i) {
    drawing.links.push_back(
        {.a = 3 * i, .b = static_cast<std::uint32_t>(3 * ((i + 1) % switches))});
  }
  return drawing;
}

double nearest(const Layout& layout) {
  double least = INFINITY;
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      least = std::min(least, std::hypot(layout.places[i].x - layout.places[j].x,
                                         layout.places[i].y - layout.places[j].y));
    }
  }
  return least;
}

std::size_t count_of(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Drawing, NodesAreApartAndInThePicture) {
  for (const Drawing& drawing : {tree(4, {1}), tree(16, {4, 2}), tree(4, {8, 8, 4}), ring(3),
                                 ring(16), ring(60), tree(0, {5}), tree(3, {0, 2})}) {
    const Layout layout = layout_of(folded(drawing));
    EXPECT_GE(nearest(layout), 20) << drawing.nodes.size();
    for (const Point& place : layout.places) {
      EXPECT_TRUE(place.x > 0 && place.x < layout.width);
      EXPECT_TRUE(place.y > 0 && place.y < layout.height);
    }
  }
}

/// Names as switches and hosts of real fabrics have them.
Drawing named(Drawing drawing) {
  for (std::size_t i = 0; i < drawing.nodes.size(); ++i) {
    drawing.nodes[i].name = drawing.nodes[i].kind == Kind::host
                                ? "machine-" + std::to_string(i) + " HCA-1"
                                : "MF0;leaf-" + std::to_string(i) + "-upper:MQM8700/U1";
  }
  return drawing;
}

TEST(Drawing, BoxesDoNotOverlap) {
  for (const Drawing& drawing : {tree(4, {1}), tree(16, {4, 2}), tree(20, {40, 20, 20}), ring(16),
                                 ring(60), tree(2, {70, 80, 36}), tree(0, {5, 3})}) {
    const Drawing shown = folded(named(drawing));
    const Layout layout = layout_of(shown);
    for (std::size_t i = 0; i < shown.nodes.size(); ++i) {
      const bool is_box = shown.nodes[i].kind != Kind::host || layout.is_folded;
      const Box one = box_of(shown.nodes[i], layout.is_turned[i]);
      const Point at = layout.places[i];
      EXPECT_TRUE(!is_box || (at.x > one.width / 2 && at.x + one.width / 2 < layout.width));
      for (std::size_t j = 0; j < i && is_box; ++j) {
        if (shown.nodes[j].kind == Kind::host && !layout.is_folded) continue;
        const Box other = box_of(shown.nodes[j], layout.is_turned[j]);
        const Point there = layout.places[j];
        EXPECT_TRUE(std::abs(at.x - there.x) >= (one.width + other.width) / 2 ||
                    std::abs(at.y - there.y) >= (one.height + other.height) / 2)
            << shown.nodes[i].name << " and " << shown.nodes[j].name;
      }
    }
  }
}

TEST(Drawing, LabelsAreTheNamesThatDiffer) {
  const auto label = [](Kind kind, const char* name) {
    return label_of({.kind = kind, .name = name, .detail = ""});
  };
  EXPECT_EQ(label(Kind::switch_node, "MF0;leaf1:MQM8700/U1"), "leaf1");
  EXPECT_EQ(label(Kind::switch_node, "S1"), "S1");
  EXPECT_EQ(label(Kind::switch_node, "MF0;:x"), "MF0;:x");
  EXPECT_EQ(label(Kind::host, "a;b:c"), "a;b:c");
  EXPECT_EQ(label(Kind::host, "Mellanox Technologies Aggregation Node"),
            "Mellanox Technologies ..");
}

/// Two of its 36 ports have hosts, all others lead to leaves, as the other upper switch's do.
TEST(Drawing, ASwitchThatConnectsLeavesIsAboveThemThoughItHasAHost) {
  Drawing drawing = tree(8, {6, 2});
  const auto upper = static_cast<std::uint32_t>(drawing.nodes.size() - 1);
  drawing.nodes.push_back({.kind = Kind::host, .name = "H", .detail = ""});
  drawing.links.push_back({.a = upper, .b = upper + 1});
  const Layout layout = layout_of(drawing);
  EXPECT_EQ(layout.places[upper].y, layout.places[upper - 1].y);
  EXPECT_LT(layout.places[upper].y, layout.places[0].y);
  EXPECT_LT(layout.places[upper + 1].y, layout.places[upper].y) << "its host is above it";
}

TEST(Drawing, TreesStandInRowsAndRingsInACircleOrAGrid) {
  EXPECT_EQ(form_of(tree(4, {4, 2})), Form::rows);
  EXPECT_EQ(form_of(tree(4, {1})), Form::rows);
  EXPECT_EQ(form_of(ring(6)), Form::circle);
  EXPECT_EQ(form_of(ring(40)), Form::grid);
  const Layout layout = layout_of(tree(2, {2, 1}));
  EXPECT_LT(layout.places[6].y, layout.places[0].y);  // The upper switch, and a leaf.
  EXPECT_LT(layout.places[0].y, layout.places[1].y);  // And its host.
}

TEST(Drawing, ManyHostsOfASwitchAreOneNodeWithTheWorstOfTheirLinks) {
  Drawing drawing = tree(40, {2, 1});
  drawing.links[3].health = Health::down;
  drawing.links[3].detail = "H4 is down";
  drawing.links[4].load = 0.75;
  std::swap(drawing.links[4].a, drawing.links[4].b);
  const Drawing shown = folded(drawing);
  ASSERT_EQ(shown.nodes.size(), 5u);
  EXPECT_EQ(shown.nodes[3].name, "40 hosts");
  ASSERT_EQ(shown.links.size(), 4u);
  EXPECT_EQ(shown.links[0].health, Health::down);
  EXPECT_EQ(shown.links[0].load, 0.75);
  EXPECT_EQ(shown.links[0].detail, "the worst of its cables: H4 is down");
  EXPECT_EQ(shown.links[1].health, Health::active);
  EXPECT_EQ(folded(tree(4, {2, 1})).nodes.size(), 11u);
}

TEST(Drawing, ADocumentHasAllNodesAndLinks) {
  const std::string text = svg_of(tree(4, {3, 2}));
  EXPECT_EQ(count_of(text, "class=\"switch\""), 5u);
  EXPECT_EQ(count_of(text, "class=\"host\""), 12u);
  EXPECT_EQ(count_of(text, "class=\"link\""), 18u);
  EXPECT_EQ(text, svg_of(tree(4, {3, 2})));
  EXPECT_EQ(count_of(svg_of({}), "</svg>"), 1u);
}

TEST(Drawing, NamesAreText) {
  Drawing drawing = tree(0, {1});
  drawing.nodes[0].name = "<script>&\"";
  EXPECT_NE(svg_of(drawing).find("&lt;script&gt;&amp;&quot;</text>"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::fabric::drawing
