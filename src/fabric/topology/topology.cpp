#include "fabric/topology/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace verbatim::fabric {
namespace {

class Faults {
 public:
  explicit Faults(const Lines& lines) : lines_(lines) {}
  void node(std::size_t index, std::string text) {
    add(index < lines_.nodes.size() ? lines_.nodes[index] : 0, std::move(text));
  }
  void link(std::size_t index, std::string text) {
    add(index < lines_.links.size() ? lines_.links[index] : 0, std::move(text));
  }
  std::vector<Fault> take() { return std::move(faults_); }

 private:
  void add(unsigned line, std::string text) {
    if (faults_.size() < kFaultsMax) faults_.push_back({line, std::move(text)});
  }
  const Lines& lines_;
  std::vector<Fault> faults_;
};

bool is_description(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::none_of(name, [](char c) {
    return c == '"' || (static_cast<unsigned char>(c) < ' ') || c == '\x7f';
  });
}

void check_node(const Topology& topology, std::size_t index, Faults& faults) {
  const Node& node = topology.nodes[index];
  if (!is_description(node.name)) {
    faults.node(index,
                fmt::format("a node's name has 1 to {} bytes without quotes and control characters",
                            kNameBytesMax));
  }
  if (node.guid == 0) faults.node(index, fmt::format("{} has GUID 0", node.name));
  if (node.ports == 0 || node.ports > kPortsMax) {
    faults.node(
        index, fmt::format("{} has {} ports: there are 1 to {}", node.name, node.ports, kPortsMax));
  }
  const std::size_t identities = node.kind == NodeKind::switch_node ? 1 : node.ports;
  if (node.identities.size() != identities) {
    faults.node(index, fmt::format("{} has the identities of {} ports, and not of {}", node.name,
                                   node.identities.size(), identities));
  }
}

void check_ends(const Topology& topology, std::size_t index, Faults& faults) {
  const Link& link = topology.links[index];
  for (const PortPlace end : {link.a, link.b}) {
    if (end.node >= topology.nodes.size()) {
      faults.link(index, "a link ends at a node that there is not");
    } else if (end.port == 0 || end.port > topology.nodes[end.node].ports) {
      faults.link(index, fmt::format("{} has no port {}: it has {}", topology.nodes[end.node].name,
                                     end.port, topology.nodes[end.node].ports));
    }
  }
  if (link.a == link.b) faults.link(index, "a cable leads from a port to itself");
}

std::uint64_t key_of(PortPlace end) { return std::uint64_t{end.node} << 8 | end.port; }

}  // namespace

std::string_view word_of(NodeKind kind) {
  constexpr std::array<std::string_view, 3> kWords{"Ca", "Switch", "Rt"};
  return kWords[static_cast<std::size_t>(kind)];
}

char letter_of(NodeKind kind) {
  constexpr std::array<char, 3> kLetters{'H', 'S', 'R'};
  return kLetters[static_cast<std::size_t>(kind)];
}

const PortIdentity& identity_of(const Node& node, unsigned port) {
  return node.identities[node.kind == NodeKind::switch_node ? 0 : port - 1];
}

PortIdentity& identity_of(Node& node, unsigned port) {
  return node.identities[node.kind == NodeKind::switch_node ? 0 : port - 1];
}

void sort_links(Topology& topology) {
  for (Link& link : topology.links) {
    if (link.b < link.a) std::swap(link.a, link.b);
  }
  std::ranges::sort(topology.links, {},
                    [](const Link& link) { return std::tuple(link.a, link.b); });
}

std::string text_of(const Fault& fault) {
  return fault.line == 0 ? fault.text : fmt::format("line {}: {}", fault.line, fault.text);
}

std::vector<Fault> faults_of(const Topology& topology, const Lines& lines) {
  Faults faults(lines);
  if (topology.nodes.size() > kNodesMax) {
    faults.node(kNodesMax, fmt::format("a subnet has at most {} nodes", kNodesMax));
  }
  std::unordered_map<std::uint64_t, std::size_t> by_guid;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    check_node(topology, i, faults);
    const Node& node = topology.nodes[i];
    const auto [first, is_new] = by_guid.emplace(node.guid, i);
    if (!is_new && node.guid != 0) {
      faults.node(i, fmt::format("{} and {} have the same GUID {:#x}", node.name,
                                 topology.nodes[first->second].name, node.guid));
    }
  }
  std::unordered_map<std::uint64_t, std::size_t> by_port;
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    check_ends(topology, i, faults);
    for (const PortPlace end : {topology.links[i].a, topology.links[i].b}) {
      if (by_port.emplace(key_of(end), i).second || end.node >= topology.nodes.size()) continue;
      if (topology.links[i].a == topology.links[i].b) continue;
      faults.link(
          i, fmt::format("port {} of {} has two cables", end.port, topology.nodes[end.node].name));
    }
  }
  return faults.take();
}

std::string rate_text(LinkWidth width, LinkSpeed speed) {
  return fmt::format("{}x{}", lanes_of(width), facts_of(speed).name);
}

std::optional<Rate> parse_rate(std::string_view text) {
  unsigned lanes = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), lanes);
  const auto digits = static_cast<std::size_t>(rest - text.data());
  if (error != std::errc{} || digits >= text.size() || text[digits] != 'x') return std::nullopt;
  const std::string_view name = text.substr(digits + 1);
  for (const LinkWidth width : kLinkWidths) {
    if (lanes_of(width) != lanes) continue;
    for (std::size_t i = 0; i < kLinkSpeeds.size(); ++i) {
      if (kLinkSpeeds[i].name == name) return Rate{width, static_cast<LinkSpeed>(i)};
    }
  }
  return std::nullopt;
}

}  // namespace verbatim::fabric
