#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/virtual/virtual_fabric.h"

namespace verbatim::fabric {

/// Programs at all hosts, of which each receives at once.
struct VirtualNet {
  explicit VirtualNet(const Topology& topology, ImageOptions options = {}) {
    options.is_active = true;
    options.ends_max = 32;
    fabric = std::move(VirtualFabric::create(topology, options).value());
    set_routes(image());
    for (const NodeIndex host : hosts_of(image())) {
      const NodeRecord& record = image().node(host);
      const std::uint32_t end =
          fabric->ends().take({record.topology_node, record.topology_port}).value();
      fabric->ends().steer(end, 1);
      hosts.push_back(host);
      ends.push_back(std::make_unique<End>(image(), end));
      by_end[end] = ends.size() - 1;
    }
  }
  const Image& image() const { return fabric->image(); }
  bool send(std::size_t from, std::size_t to, Mark mark, std::uint32_t bytes, std::uint8_t sl = 0) {
    return post_mark(*ends[from], lid_of(hosts[to]), sl, mark, bytes);
  }
  void push(std::size_t from) { ends[from]->push(fabric->walker()); }
  /// Runs all events. `on_packet(program, mark)`, `on_news(program)`.
  template <typename OnPacket, typename OnNews>
  void run(OnPacket on_packet, OnNews on_news) {
    while (fabric->next_event() != kNever) {
      const std::optional<std::uint32_t> end = fabric->step();
      ++steps;
      if (!end) continue;
      const std::size_t program = by_end.at(*end);
      ends[program]->receive(fabric->walker(), fabric->now(), [&](const IncomingPacket& packet) {
        on_packet(program, mark_of(packet));
      });
      if (ends[program]->take_credit_news()) on_news(program);
    }
  }
  std::unique_ptr<VirtualFabric> fabric;
  std::vector<NodeIndex> hosts;
  std::vector<std::unique_ptr<End>> ends;
  std::map<std::uint32_t, std::size_t> by_end;
  std::uint64_t steps = 0;
};

inline void set_rates(const Image& image, std::uint32_t ps_per_byte, std::uint32_t delay_ns) {
  for (std::uint32_t cable = 0; cable < image.cables(); ++cable) {
    for (const bool from_b : {false, true}) {
      image.link(image.link_of_cable(cable, from_b)).ps_per_byte = ps_per_byte;
      image.link(image.link_of_cable(cable, from_b)).cable = CableTraits{.delay_ns = delay_ns};
    }
  }
}

}  // namespace verbatim::fabric
