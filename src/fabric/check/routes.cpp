#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>

#include "fabric/check/check.h"

namespace verbatim::fabric {
namespace {

/// What becomes of packets to one LID at each switch. A switch has one output for a LID, so that
/// all packets that reach it share its fate.
class Fates {
 public:
  Fates(const Snapshot& snapshot, const Cables& cables, Destination to)
      : snapshot_(snapshot), cables_(cables), to_(to), whys_(snapshot.nodes.size()) {}

  /// Empty: they arrive.
  const std::string& why_lost(PortPlace at) {
    if (!snapshot_.nodes[at.node].is_switch()) return at == to_.port ? kArrives : kWrongHost;
    std::vector<std::uint32_t> way;
    std::optional<std::string> why;
    for (std::uint32_t node = at.node; !why;) {
      if (whys_[node]) {
        why = whys_[node];
      } else if (const auto again = std::ranges::find(way, node); again != way.end()) {
        why = loop_text({again, way.end()});
      } else {
        way.push_back(node);
        why = step(node);
      }
    }
    for (const std::uint32_t node : way) whys_[node] = why;
    return *whys_[at.node];
  }

 private:
  /// One switch further, or how it ends at this one.
  std::optional<std::string> step(std::uint32_t& node) const {
    if (node == to_.port.node) return kArrives;
    const std::string& name = snapshot_.nodes[node].name;
    const std::uint8_t output = snapshot_.nodes[node].output(to_.lid);
    if (output == kNoOutput || output == 0) return fmt::format("{} has no route", name);
    const auto direction = cables_.leaving({node, output});
    if (!direction) return fmt::format("{} sends to port {}, which is not active", name, output);
    const PortPlace next = cables_.end(*direction);
    if (snapshot_.nodes[next.node].is_switch()) {
      node = next.node;
      return std::nullopt;
    }
    if (next == to_.port) return kArrives;
    return fmt::format("{} sends to {}", name, text_of(snapshot_, next));
  }

  std::string loop_text(std::span<const std::uint32_t> nodes) const {
    std::string text = "a forwarding loop:";
    for (const std::uint32_t node : nodes) text += fmt::format(" {} >", snapshot_.nodes[node].name);
    return text + " " + snapshot_.nodes[nodes.front()].name;
  }

  inline static const std::string kArrives;
  inline static const std::string kWrongHost = "the cable goes to another host";
  const Snapshot& snapshot_;
  const Cables& cables_;
  const Destination to_;
  std::vector<std::optional<std::string>> whys_;
};

std::string list_of(const std::vector<std::string>& names) {
  if (names.size() <= 3) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {} and {} more", names[0], names[1], names.size() - 2);
}

void add_unmanaged(const Snapshot& snapshot, std::vector<std::string>& findings) {
  for (const CableSnapshot& cable : snapshot.cables) {
    for (const PortPlace port : {cable.a, cable.b}) {
      const NodeSnapshot& node = snapshot.nodes[port.node];
      if (node.is_switch()) continue;
      if (!cable.is_active) {
        findings.push_back(fmt::format("{}: its link is not active", text_of(snapshot, port)));
      } else if (node.ports[port.port].lid == 0) {
        findings.push_back(fmt::format("{}: it has no LID", text_of(snapshot, port)));
      }
    }
  }
  for (std::uint32_t i = 0; i < snapshot.nodes.size(); ++i) {
    const NodeSnapshot& node = snapshot.nodes[i];
    if (node.is_switch() && node.ports[0].lid == 0) {
      findings.push_back(fmt::format("{}: it has no LID", node.name));
    }
  }
}

}  // namespace

std::vector<std::string> find_unreachable(const Snapshot& snapshot) {
  std::vector<std::string> findings;
  add_unmanaged(snapshot, findings);
  const Cables cables(snapshot);
  const auto from = sources(snapshot);
  for (const Destination to : destinations(snapshot, /*with_switches=*/true)) {
    Fates fates(snapshot, cables, to);
    std::map<std::string, std::vector<std::string>> lost;  // By why: from where.
    for (const Direction source : from) {
      const PortPlace start = cables.start(source);
      if (start == to.port) continue;
      const std::string& why = fates.why_lost(cables.end(source));
      if (!why.empty()) lost[why].push_back(text_of(snapshot, start));
    }
    for (const auto& [why, names] : lost) {
      findings.push_back(fmt::format("{} (LID {}) cannot be reached from {}: {}",
                                     text_of(snapshot, to.port), to.lid, list_of(names), why));
    }
  }
  return findings;
}

std::vector<std::string> find_unbalanced(const Snapshot& snapshot) {
  std::vector<std::string> findings;
  const Cables cables(snapshot);
  const auto hosts = destinations(snapshot, /*with_switches=*/false);
  for (std::uint32_t i = 0; i < snapshot.nodes.size(); ++i) {
    const NodeSnapshot& node = snapshot.nodes[i];
    if (!node.is_switch()) continue;
    std::vector<unsigned> routes(256);
    for (const Destination& host : hosts) ++routes[node.output(host.lid)];
    std::map<std::uint32_t, std::vector<std::uint8_t>> ports_to;  // By the switch behind them.
    for (unsigned port = 1; port < node.ports.size(); ++port) {
      const PortPlace place{i, static_cast<std::uint8_t>(port)};
      const auto direction = cables.leaving(place);
      if (!direction) continue;
      const std::uint32_t peer = cables.end(*direction).node;
      if (snapshot.nodes[peer].is_switch()) ports_to[peer].push_back(place.port);
    }
    for (const auto& [peer, ports] : ports_to) {
      const auto by_routes = [&](std::uint8_t port) { return routes[port]; };
      const auto [least, most] = std::ranges::minmax_element(ports, {}, by_routes);
      if (routes[*most] <= 2 * routes[*least] + 1) continue;
      findings.push_back(fmt::format(
          "unbalanced cables from {} to {}: {} routes by port {}, {} by port {}", node.name,
          snapshot.nodes[peer].name, routes[*most], *most, routes[*least], *least));
    }
  }
  return findings;
}

}  // namespace verbatim::fabric
