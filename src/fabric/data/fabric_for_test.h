#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "fabric/data/image/audit.h"
#include "fabric/data/marks_for_test.h"
#include "fabric/data/shared_fabric.h"
#include "fabric/topology/builder.h"
#include "fabric/topology/generate.h"

/// Fabrics for tests: routes by shortest paths, programs that count, and what must hold of every
/// image.
namespace verbatim::fabric {

/// `switches` in a row; host i at the first switch if i is even, else at the last.
inline Topology row_of_switches(unsigned switches, unsigned hosts) {
  Builder builder({LinkWidth::x4, LinkSpeed::edr}, 0);
  std::vector<std::uint32_t> row;
  for (unsigned i = 0; i < switches; ++i) {
    row.push_back(builder.add_numbered(NodeKind::switch_node, 'S', 36));
    if (i > 0) builder.connect(row[i - 1], row[i]);
  }
  for (unsigned i = 0; i < hosts; ++i) {
    const std::uint32_t host = builder.add_numbered(NodeKind::adapter, 'H', 1);
    builder.connect(i % 2 == 0 ? row.front() : row.back(), host);
  }
  return builder.take();
}

/// Two subnets of a switch each, and a router between them, which is port 1 of both; host i is in
/// the first one if i is even, else in the second.
inline Topology two_switches_and_a_router(unsigned hosts) {
  Builder builder({LinkWidth::x4, LinkSpeed::edr}, 0);
  const std::array switches{builder.add_numbered(NodeKind::switch_node, 'S', 36),
                            builder.add_numbered(NodeKind::switch_node, 'S', 36)};
  const std::uint32_t router = builder.add_numbered(NodeKind::router, 'R', 2);
  for (const std::uint32_t subnet : switches) builder.connect(subnet, router);
  for (unsigned i = 0; i < hosts; ++i) {
    builder.connect(switches[i % 2], builder.add_numbered(NodeKind::adapter, 'H', 1));
  }
  return builder.take();
}

inline std::vector<NodeIndex> hosts_of(const Image& image) {
  std::vector<NodeIndex> hosts;
  for (NodeIndex node = 1; node < image.hub(); ++node) {
    if (image.node(node).kind == RecordKind::host) hosts.push_back(node);
  }
  return hosts;
}

inline Lid lid_of(NodeIndex node) { return Lid(node); }

/// The GID prefix of the subnet that begins behind the port, which follows from its first switch.
inline std::uint64_t prefix_behind(const Image& image, NodeIndex node, unsigned port) {
  NodeIndex first = image.hub();
  std::vector<bool> known(image.hub());
  std::deque<NodeIndex> next{image.link(image.port(image.node(node), port).out).end};
  while (!next.empty()) {
    const NodeIndex found = next.front();
    next.pop_front();
    const NodeRecord& record = image.node(found);
    if (record.kind != RecordKind::switch_node || known[found]) continue;
    known[found] = true;
    first = std::min(first, found);
    for (unsigned i = 1; i <= record.ports; ++i) {
      if (image.port(record, i).out != 0) next.push_back(image.link(image.port(record, i).out).end);
    }
  }
  return std::uint64_t{0xfec0} << 48 | first;
}

/// The node's LIDs are its index; the prefixes are those of its ports' subnets.
inline void set_addresses(const Image& image, NodeIndex node) {
  Tables tables(image);
  const NodeRecord& record = image.node(node);
  if (record.kind == RecordKind::host) {
    tables.set_lid(node, lid_of(node), 0);
    tables.set_gid_prefix(node, kCablePort, prefix_behind(image, node, kCablePort));
  }
  for (unsigned port = 1; record.kind == RecordKind::router && port <= record.ports; ++port) {
    tables.set_router_lid(node, port, lid_of(node), 0);
    tables.set_gid_prefix(node, port, prefix_behind(image, node, port));
  }
}

/// Gives each node its index as LID, and each switch the first port of a shortest path to it.
inline void set_routes(const Image& image) {
  Tables tables(image);
  for (NodeIndex to = 1; to < image.hub(); ++to) {
    set_addresses(image, to);
    std::deque<NodeIndex> next{to};
    std::vector<bool> known(image.hub());
    known[to] = true;
    if (image.node(to).kind == RecordKind::switch_node) tables.set_route(to, lid_of(to), 0);
    while (!next.empty()) {
      const NodeIndex node = next.front();
      next.pop_front();
      const NodeRecord& record = image.node(node);
      for (unsigned port = 1; port <= record.ports; ++port) {
        const LinkIndex in = image.port(record, port).in;
        if (in == 0 || image.is_of_end(in)) continue;
        const LinkRecord& link = image.link(in);
        if (known[link.start]) continue;
        known[link.start] = true;
        tables.set_route(link.start, lid_of(to), link.start_port);
        if (image.node(link.start).kind == RecordKind::switch_node) next.push_back(link.start);
      }
    }
  }
}

/// All ports map service level i to lane i modulo `lanes`.
inline void set_lanes(const Image& image, unsigned lanes) {
  wire::SlToVlMappingTable table;
  for (unsigned sl = 0; sl < 16; ++sl) table.lanes[sl] = static_cast<std::uint8_t>(sl % lanes);
  Tables tables(image);
  for (NodeIndex node = 1; node < image.hub(); ++node) {
    const unsigned ports = image.node(node).ports;
    for (unsigned in = 0; in <= ports; ++in) {
      for (unsigned out = 0; out <= ports; ++out) tables.set_lanes(node, in, out, table);
    }
  }
}

/// Forwards the group along shortest paths between its members and the first switch.
inline void set_group(const Image& image, Lid group, const std::vector<NodeIndex>& members) {
  const std::size_t mlid = raw(group) - kFirstMulticastLid;
  const auto add = [&](NodeIndex node, unsigned port) {
    if (image.node(node).kind != RecordKind::switch_node) return;
    image.multicast_entry(image.node(node), mlid, port / 16) |=
        static_cast<std::uint16_t>(1u << port % 16);
  };
  NodeIndex root = 1;
  while (image.node(root).kind != RecordKind::switch_node) ++root;
  for (NodeIndex node : members) {
    while (node != root) {
      const unsigned port =
          image.node(node).kind == RecordKind::host
              ? kCablePort
              : image.linear_entry(image.node(node), raw(lid_of(root))).load() - 1u;
      const LinkRecord& link = image.link(image.port(image.node(node), port).out);
      add(node, port);
      add(link.end, link.end_port);
      node = link.end;
    }
  }
}

/// What must hold when no mover is at work. Empty if all does.
inline std::vector<std::string> faults_of(const Image& image) {
  std::vector<std::string> faults = audit(image);
  for (LinkIndex i = 1; i < image.extent().links; ++i) {
    if (image.link(i).gate.load() == 0) continue;
    faults.push_back(fmt::format("gate of link {}: {:#x}", i, image.link(i).gate.load()));
  }
  return faults;
}

/// The same, and all packets have arrived.
inline std::vector<std::string> faults_when_empty(const Image& image) {
  std::vector<std::string> faults = faults_of(image);
  const auto must_be_free = [&](Handle handle) {
    const Where where(image.slot(handle).where.load());
    if (where.word() == 0) return;
    faults.push_back(fmt::format("slot {} is not free: kind {} link {} lane {} number {}", handle,
                                 where.kind(), where.link(), where.lane(), where.number()));
  };
  for (Handle copy = image.first_copy_slot(); copy < image.extent().slots; ++copy) {
    must_be_free(copy);
  }
  for (std::uint32_t end = 0; end < image.extent().ends; ++end) {
    if (end != 0 && image.end(end).generation.load() == 0) continue;
    for (std::uint32_t i = 0; i < kSlotsOfAnEnd; ++i) {
      must_be_free(image.first_slot_of(end) + i);
    }
  }
  return faults;
}

/// Numbers below a bound, from a seed.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  unsigned operator()(unsigned below) { return static_cast<unsigned>(random_() % below); }

 private:
  std::mt19937 random_;
};

/// A fabric of this process: each host has one program.
struct TestFabric {
  explicit TestFabric(const Topology& topology, ImageOptions options = {}) {
    options.is_active = true;
    if (options.ends_max == ImageOptions{}.ends_max) options.ends_max = 64;
    shared = std::move(SharedFabric::create(topology, options).value());
    set_routes(image());
    mover = std::move(shared->join().value());
    for (const NodeIndex host : hosts_of(image())) add_program(host);
  }
  const Image& image() const { return shared->image(); }
  Walker<SharedPolicy>& walker() { return mover->walker(); }
  End& add_program(NodeIndex host) {
    const NodeRecord& record = image().node(host);
    const std::uint32_t end =
        shared->ends().take({record.topology_node, record.topology_port}).value();
    shared->ends().steer(end, static_cast<std::uint32_t>(1 + programs_of[host]++));
    hosts.push_back(host);
    ends.push_back(std::make_unique<End>(image(), end));
    return *ends.back();
  }
  Lid lid(std::size_t program) const { return lid_of(hosts[program]); }
  bool send(std::size_t from, std::size_t to, Mark mark, std::uint32_t bytes = 64,
            std::uint8_t service_level = 0) {
    return post_mark(*ends[from], lid(to), service_level, mark, bytes);
  }
  /// To a host of another subnet, by the LID of the router.
  bool send_routed(std::size_t from, std::size_t to, Lid router, Mark mark,
                   std::uint8_t hop_limit = 64) {
    return post_routed(*ends[from], router, gid_of(image(), hosts[from]),
                       gid_of(image(), hosts[to]), mark, {.hop_limit = hop_limit});
  }
  std::vector<Mark> receive(std::size_t program, TimeNs now = kNever - 1) {
    std::vector<Mark> marks;
    ends[program]->receive(walker(), now,
                           [&](const IncomingPacket& packet) { marks.push_back(mark_of(packet)); });
    return marks;
  }

  std::unique_ptr<SharedFabric> shared;
  std::unique_ptr<Mover> mover;
  std::vector<NodeIndex> hosts;
  std::vector<std::unique_ptr<End>> ends;
  std::map<NodeIndex, unsigned> programs_of;
};

}  // namespace verbatim::fabric
