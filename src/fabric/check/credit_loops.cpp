#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "fabric/check/check.h"

namespace verbatim::fabric {
namespace {

/// One direction of a cable and one lane: buffers that packets wait for.
using Channel = std::uint32_t;

Channel channel_of(Direction direction, std::uint8_t lane) { return direction * 16 + lane; }

/// Which channel a packet in another one may wait for, over all routes.
class Dependencies {
 public:
  explicit Dependencies(const Snapshot& snapshot)
      : snapshot_(snapshot), cables_(snapshot), next_(snapshot.cables.size() * 2 * 16) {}

  void add(unsigned service_level) {
    const auto from = sources(snapshot_);
    for (const Destination to : destinations(snapshot_, /*with_switches=*/true)) {
      std::unordered_set<Channel> seen;
      for (const Direction source : from) {
        if (cables_.start(source) != to.port) follow(source, to, service_level, seen);
      }
    }
  }

  /// Cycles that share no channel, as the walk finds them.
  std::vector<std::vector<Channel>> cycles() const {
    enum class Color : std::uint8_t { white, grey, black };
    std::vector<Color> colors(next_.size());
    std::vector<bool> is_told(next_.size());
    std::vector<std::vector<Channel>> found;
    struct Visit {
      Channel channel;
      std::size_t tried = 0;
    };
    std::vector<Visit> way;
    for (Channel first = 0; first < next_.size(); ++first) {
      if (colors[first] == Color::white) way.push_back({first});
      while (!way.empty()) {
        Visit& visit = way.back();
        colors[visit.channel] = Color::grey;
        if (visit.tried == next_[visit.channel].size()) {
          colors[visit.channel] = Color::black;
          way.pop_back();
          continue;
        }
        const Channel next = next_[visit.channel][visit.tried++];
        if (colors[next] == Color::white) {
          way.push_back({next});
        } else if (colors[next] == Color::grey) {
          std::vector<Channel> cycle;
          const auto start = std::ranges::find(way, next, &Visit::channel);
          for (auto at = start; at != way.end(); ++at) cycle.push_back(at->channel);
          if (std::ranges::any_of(cycle, [&](Channel c) { return is_told[c]; })) continue;
          for (const Channel channel : cycle) is_told[channel] = true;
          found.push_back(std::move(cycle));
        }
      }
    }
    return found;
  }

  /// "S1/3 lane 0": the port that sends into it.
  std::string text_of(Channel channel) const {
    return fmt::format("{} lane {}", fabric::text_of(snapshot_, cables_.start(channel / 16)),
                       channel % 16);
  }

 private:
  /// Along one route, until it ends or goes on as another one that has been seen.
  void follow(Direction direction, Destination to, unsigned service_level,
              std::unordered_set<Channel>& seen) {
    const PortPlace source = cables_.start(direction);
    std::uint8_t lane = snapshot_.nodes[source.node].lane(0, source.port, service_level);
    while (lane != kNoLane) {
      const Channel channel = channel_of(direction, lane);
      const PortPlace at = cables_.end(direction);
      const NodeSnapshot& node = snapshot_.nodes[at.node];
      if (!seen.insert(channel).second || !node.is_switch || at.node == to.port.node) return;
      const std::uint8_t output = node.output(to.lid);
      const auto leaving = cables_.leaving({at.node, output});
      if (!leaving) return;
      direction = *leaving;
      lane = node.lane(at.port, output, service_level);
      if (lane == kNoLane) return;
      auto& next = next_[channel];
      const Channel wanted = channel_of(direction, lane);
      if (std::ranges::find(next, wanted) == next.end()) next.push_back(wanted);
    }
  }

  const Snapshot& snapshot_;
  const Cables cables_;
  std::vector<std::vector<Channel>> next_;
};

}  // namespace

std::vector<std::string> find_credit_loops(const Snapshot& snapshot,
                                           std::span<const unsigned> service_levels) {
  Dependencies dependencies(snapshot);
  for (const unsigned level : service_levels) dependencies.add(level);
  std::vector<std::string> findings;
  for (const auto& cycle : dependencies.cycles()) {
    std::string text = "a credit loop:";
    for (const Channel channel : cycle) text += fmt::format(" {} >", dependencies.text_of(channel));
    findings.push_back(text + " " + dependencies.text_of(cycle.front()));
  }
  return findings;
}

}  // namespace verbatim::fabric
