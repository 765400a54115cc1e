#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "fabric/check/check.h"

namespace verbatim::fabric {
namespace {

/// One direction of a cable and one lane: buffers that packets wait for.
using Channel = std::uint32_t;

Channel channel_of(Direction direction, std::uint8_t lane) { return direction * 16 + lane; }

bool has(LevelSet levels, unsigned level) { return (levels >> level & 1U) != 0; }

/// A port that packets come from: a host's, or a router's that forwards them.
struct Sender {
  Direction direction = 0;
  PortPlace port;
  PortPlace subnet;
  const LevelsByLid* by_lid = nullptr;  // None: `to_any` holds for all LIDs.
  LevelSet to_any = 0;

  LevelSet levels(std::uint16_t lid) const {
    if (by_lid == nullptr) return to_any;
    return lid < by_lid->size() ? (*by_lid)[lid] : LevelSet{0};
  }
  LevelSet all_levels() const {
    if (by_lid == nullptr) return to_any;
    return std::reduce(by_lid->begin(), by_lid->end(), LevelSet{0}, std::bit_or<LevelSet>());
  }
};

struct Receiver {
  Destination at;
  PortPlace subnet;
};

/// Which channel a packet in another one may wait for, over all routes.
class Dependencies {
 public:
  Dependencies(const Snapshot& snapshot, const ServiceLevels& levels)
      : snapshot_(snapshot),
        cables_(snapshot),
        next_(snapshot.cables.size() * 2 * 16),
        last_pass_(next_.size()) {
    const Subnets subnets = ports_by_subnet(snapshot);
    for (const Direction direction : sources(snapshot)) {
      const PortPlace port = cables_.start(direction);
      Sender sender{.direction = direction, .port = port, .subnet = subnets.of(port)};
      if (kind_of(port) == NodeKind::router) {
        routers_.push_back(sender);
        continue;
      }
      const auto known = levels.by_port.find(port);
      if (known != levels.by_port.end()) sender.by_lid = &known->second;
      sender.to_any = levels.of_other_ports;
      hosts_.push_back(sender);
    }
    for (const Destination& to : destinations(snapshot, /*with_switches=*/true)) {
      receivers_.push_back({to, subnets.of(to.port)});
    }
  }

  /// What hosts send, as far as a host, a switch or a router.
  void add_sent() { add(hosts_, receivers_); }

  /// What routers forward to hosts, at the service level at which it came (data/walk/forward.h). It
  /// crosses one router at most.
  void add_forwarded() {
    for (Sender& router : routers_) {
      for (const auto& [port, arrivals] : arrivals_) {
        if (port.node != router.port.node || port == router.port) continue;
        for (const auto& [channel, level] : arrivals) {
          router.to_any |= static_cast<LevelSet>(1U << level);
          const std::uint8_t lane = first_lane(router.port, level);
          if (lane != kNoLane) wait_for(channel, channel_of(router.direction, lane));
        }
      }
    }
    std::erase_if(receivers_, [this](const Receiver& receiver) {
      return kind_of(receiver.at.port) != NodeKind::adapter;
    });
    add(routers_, receivers_);
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
  NodeKind kind_of(PortPlace port) const { return snapshot_.nodes[port.node].kind; }
  std::uint8_t first_lane(PortPlace port, unsigned service_level) const {
    return snapshot_.nodes[port.node].lane(0, port.port, service_level);
  }
  void wait_for(Channel held, Channel wanted) {
    auto& next = next_[held];
    if (std::ranges::find(next, wanted) == next.end()) next.push_back(wanted);
  }

  void add(std::span<const Sender> senders, std::span<const Receiver> receivers) {
    LevelSet all = 0;
    for (const Sender& from : senders) all |= from.all_levels();
    for (unsigned level = 0; level < kServiceLevels; ++level) {
      if (!has(all, level)) continue;
      for (const Receiver& to : receivers) {
        ++pass_;
        for (const Sender& from : senders) {
          if (from.subnet != to.subnet || from.port == to.at.port) continue;
          if (has(from.levels(to.at.lid), level)) follow(from, to.at, level);
        }
      }
    }
  }

  /// Along one route, until it ends or goes on as another one of this pass.
  void follow(const Sender& from, Destination to, unsigned service_level) {
    Direction direction = from.direction;
    std::uint8_t lane = first_lane(from.port, service_level);
    while (lane != kNoLane) {
      const Channel channel = channel_of(direction, lane);
      const PortPlace at = cables_.end(direction);
      const NodeSnapshot& node = snapshot_.nodes[at.node];
      if (node.kind == NodeKind::router) arrivals_[at].emplace(channel, service_level);
      if (std::exchange(last_pass_[channel], pass_) == pass_) return;
      if (!node.is_switch() || at.node == to.port.node) return;
      const std::uint8_t output = node.output(to.lid);
      const auto leaving = cables_.leaving({at.node, output});
      if (!leaving) return;
      direction = *leaving;
      lane = node.lane(at.port, output, service_level);
      if (lane != kNoLane) wait_for(channel, channel_of(direction, lane));
    }
  }

  const Snapshot& snapshot_;
  const Cables cables_;
  std::vector<Sender> hosts_;
  std::vector<Sender> routers_;  // Their ports.
  std::vector<Receiver> receivers_;
  /// By a router's port: through which channels packets come to it, and at which service level.
  std::map<PortPlace, std::set<std::pair<Channel, unsigned>>> arrivals_;
  std::vector<std::vector<Channel>> next_;
  std::uint32_t pass_ = 0;                // A destination and a service level.
  std::vector<std::uint32_t> last_pass_;  // By channel.
};

}  // namespace

std::vector<std::string> find_credit_loops(const Snapshot& snapshot, const ServiceLevels& levels) {
  Dependencies dependencies(snapshot, levels);
  dependencies.add_sent();
  dependencies.add_forwarded();
  std::vector<std::string> findings;
  for (const auto& cycle : dependencies.cycles()) {
    std::string text = "a credit loop:";
    for (const Channel channel : cycle) text += fmt::format(" {} >", dependencies.text_of(channel));
    findings.push_back(text + " " + dependencies.text_of(cycle.front()));
  }
  return findings;
}

}  // namespace verbatim::fabric
