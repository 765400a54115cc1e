#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A drawing of a fabric, as SVG. Values and text, without behaviour.
namespace verbatim::fabric::drawing {

enum class Kind : std::uint8_t { host, switch_node, router };

struct Node {
  Kind kind{};
  std::string name;
  std::string detail;  // What a browser shows where the mouse is.
  unsigned count = 1;  // Hosts that it stands for.
};

/// Ordered: of links that are drawn as one, the worst counts.
enum class Health : std::uint8_t { active, waiting, degraded, noisy, down };
inline constexpr std::size_t kHealths = 5;

struct Link {
  std::uint32_t a = 0;  // Places in `Drawing::nodes`.
  std::uint32_t b = 0;
  Health health{};
  double load = 0;  // Of the busier direction, 0 to 1.
  std::string detail;
};

struct Drawing {
  std::string title;
  std::vector<Node> nodes;
  std::vector<Link> links;
};

/// The hosts of a switch become one node, "18 hosts", where there are too many to be drawn. Hosts
/// with several cables count at the first of their switches.
Drawing folded(const Drawing& drawing);

/// The picture as an SVG document. The same drawing gives the same text.
std::string svg_of(const Drawing& drawing);

}  // namespace verbatim::fabric::drawing
