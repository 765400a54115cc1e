#include <algorithm>

#include "fabric/data/image/image.h"
#include "fabric/topology/subnets/gid_prefix.h"
#include "wire/subnet/port_info.h"

/// What a new image says: nodes, ports and links as the topology has them.
namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kNsOfAMetre = 5;

class Filler {
 public:
  Filler(const Image& image, NodeIndex* first_stations, const ImageOptions& options)
      : image_(image), first_stations_(first_stations), options_(options) {}

  void node(std::uint32_t index, const Node& node) {
    first_stations_[index] = next_station_;
    if (node.kind == NodeKind::switch_node) {
      station(index, RecordKind::switch_node, node.ports, next_switch_++);
      return;
    }
    if (node.kind == NodeKind::router) return router(index, node);
    for (unsigned port = 1; port <= node.ports; ++port) {
      NodeRecord& host = station(index, RecordKind::host, kHostPorts, next_host_++);
      host.topology_port = static_cast<std::uint8_t>(port);
      host.guid = identity_of(node, port).guid;
      image_.port(host, kCablePort).gid_prefix = kDefaultGidPrefix;
      host.lid = raw(identity_of(node, port).lid);
      host.lmc = identity_of(node, port).lmc;
    }
  }

  void router(std::uint32_t index, const Node& node) {
    const NodeRecord& router = station(index, RecordKind::router, node.ports, next_switch_++);
    for (unsigned number = 1; number <= node.ports; ++number) {
      PortRecord& port = image_.port(router, number);
      port.lid = raw(identity_of(node, number).lid);
      port.lmc = identity_of(node, number).lmc;
      port.gid_prefix = kDefaultGidPrefix;
    }
  }

  void cable(std::uint32_t index, const Link& cable) {
    const LinkIndex there = image_.link_of_cable(index, false);
    const LinkIndex back = image_.link_of_cable(index, true);
    for (const auto& [out, in, from, to] :
         {std::tuple(there, back, cable.a, cable.b), std::tuple(back, there, cable.b, cable.a)}) {
      LinkRecord& link = image_.link(out);
      link.start = image_.station_of(from);
      link.end = image_.station_of(to);
      link.start_port = port_of(link.start, from.port);
      link.end_port = port_of(link.end, to.port);
      PortRecord& port = image_.port(image_.node(link.start), link.start_port);
      port.out = out;
      port.in = in;
      port.has_cable_up = true;
      port.state = raw(options_.is_active ? wire::PortState::active : wire::PortState::initialize);
      link.passes =
          static_cast<std::uint8_t>(options_.is_active ? Passes::all : Passes::management);
      if (options_.is_paced) {
        link.ps_per_byte = ps_per_byte(effective_rate_bps(cable.width, cable.speed));
      }
      if (options_.has_lengths) {
        link.cable = CableTraits{.delay_ns = cable.length_m * kNsOfAMetre};
      }
    }
  }

  void hub() {
    image_.node(image_.hub()).kind = RecordKind::hub;
    for (NodeIndex station = 1; station < image_.hub(); ++station) {
      const LinkIndex to_hub = image_.first_hub_link() + 2 * (station - 1);
      join(to_hub, station, image_.hub());
      join(to_hub + 1, image_.hub(), station);
      PortRecord& port = image_.port(image_.node(station), 0);
      port.out = to_hub;
      port.in = to_hub + 1;
      port.state = raw(wire::PortState::active);
    }
    for (std::uint32_t end = 0; end < image_.extent().ends; ++end) {
      image_.node(image_.node_of_end(end)).kind = RecordKind::end;
    }
    join(image_.from_end(0), image_.node_of_end(0), image_.hub());
    join(image_.to_end(0), image_.hub(), image_.node_of_end(0));
    image_.end(0).state = EndRecord::kTaken;
    image_.end(0).host = image_.hub();
  }

 private:
  NodeRecord& station(std::uint32_t topology_node, RecordKind kind, unsigned ports,
                      std::uint32_t tables) {
    NodeRecord& node = image_.node(next_station_++);
    node.kind = kind;
    node.ports = static_cast<std::uint8_t>(ports);
    node.topology_node = topology_node;
    node.tables = tables;
    node.first_port = next_port_;
    next_port_ += ports + 1;
    return node;
  }
  std::uint8_t port_of(NodeIndex node, std::uint8_t topology_port) const {
    return image_.node(node).kind == RecordKind::host ? kCablePort : topology_port;
  }
  void join(LinkIndex index, NodeIndex start, NodeIndex end) {
    LinkRecord& link = image_.link(index);
    link.start = start;
    link.end = end;
    link.passes = static_cast<std::uint8_t>(Passes::all);
  }

  const Image& image_;
  NodeIndex* const first_stations_;
  const ImageOptions& options_;
  NodeIndex next_station_ = 1;
  std::uint32_t next_port_ = 1;
  std::uint32_t next_switch_ = 1;
  std::uint32_t next_host_ = 1;
};

}  // namespace

void Image::fill(const Topology& topology, const ImageOptions& options) {
  Filler filler(*this, first_stations_, options);
  for (std::uint32_t i = 0; i < topology.nodes.size(); ++i) filler.node(i, topology.nodes[i]);
  for (std::uint32_t i = 0; i < topology.links.size(); ++i) filler.cable(i, topology.links[i]);
  filler.hub();
  sort_guids();
}

void Image::sort_guids() const {
  NodeIndex* next = by_guid_ + 1;
  for (NodeIndex i = 1; i < hub(); ++i) {
    if (node(i).kind == RecordKind::host) *next++ = i;
  }
  std::ranges::sort(by_guid_ + 1, next, {}, [this](NodeIndex i) { return node(i).guid; });
}

}  // namespace verbatim::fabric
