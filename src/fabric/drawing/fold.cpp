#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "fabric/drawing/layout.h"

namespace verbatim::fabric::drawing {
namespace {

constexpr std::ptrdiff_t kHostsMax = 72;

/// Joins the links of folded hosts to their switch.
void join(Link& all, const Link& one) {
  constexpr std::string_view kWorst = "the worst of its cables: ";
  if (std::tie(one.health, one.load) > std::tie(all.health, all.load)) all.detail = one.detail;
  if (!all.detail.starts_with(kWorst)) all.detail.insert(0, kWorst);
  all.health = std::max(all.health, one.health);
  all.load = std::max(all.load, one.load);
}

}  // namespace

Drawing folded(const Drawing& drawing) {
  const auto hosts = std::ranges::count(drawing.nodes, Kind::host, &Node::kind);
  if (hosts <= kHostsMax && form_of(drawing) != Form::grid) return drawing;
  const auto neighbors = neighbors_of(drawing);
  Drawing result{.title = drawing.title, .nodes = {}, .links = {}};
  std::vector<std::uint32_t> places(drawing.nodes.size());
  std::map<std::uint32_t, std::vector<std::uint32_t>> groups;  // By switch.
  for (std::uint32_t i = 0; i < drawing.nodes.size(); ++i) {
    if (drawing.nodes[i].kind == Kind::host && !neighbors[i].empty()) {
      groups[neighbors[i].front()].push_back(i);
    } else {
      places[i] = static_cast<std::uint32_t>(result.nodes.size());
      result.nodes.push_back(drawing.nodes[i]);
    }
  }
  for (const auto& [at, members] : groups) {
    for (const std::uint32_t member : members) {
      places[member] = static_cast<std::uint32_t>(result.nodes.size());
    }
    const std::string& first = drawing.nodes[members.front()].name;
    const std::string& last = drawing.nodes[members.back()].name;
    result.nodes.push_back(
        {.kind = Kind::host,
         .name = members.size() == 1 ? first : fmt::format("{} hosts", members.size()),
         .detail = members.size() == 1 ? first : fmt::format("{} to {}", first, last),
         .count = static_cast<unsigned>(members.size())});
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> joined;
  for (Link link : drawing.links) {
    const bool is_of_host =
        drawing.nodes[link.a].kind == Kind::host || drawing.nodes[link.b].kind == Kind::host;
    link.a = places[link.a];
    link.b = places[link.b];
    const auto [known, is_new] =
        joined.try_emplace(std::minmax(link.a, link.b), result.links.size());
    if (is_of_host && !is_new) {
      join(result.links[known->second], link);
    } else {
      result.links.push_back(link);
    }
  }
  return result;
}

}  // namespace verbatim::fabric::drawing
