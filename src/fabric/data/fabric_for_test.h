#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

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

inline std::vector<NodeIndex> hosts_of(const Image& image) {
  std::vector<NodeIndex> hosts;
  for (NodeIndex node = 1; node < image.hub(); ++node) {
    if (image.node(node).kind == RecordKind::host) hosts.push_back(node);
  }
  return hosts;
}

inline Lid lid_of(NodeIndex node) { return Lid(node); }

/// Gives each node its index as LID, and each switch the first port of a shortest path to it.
inline void set_routes(const Image& image) {
  Tables tables(image);
  for (NodeIndex to = 1; to < image.hub(); ++to) {
    if (image.node(to).kind == RecordKind::host) tables.set_lid(to, lid_of(to), 0);
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
  std::vector<std::string> faults;
  std::map<std::pair<LinkIndex, unsigned>, std::uint32_t> inside;
  std::uint32_t used = 1;
  while (used < image.extent().ends && image.end(used).generation.load() != 0) ++used;
  const auto look_at = [&](Handle handle) {
    const Slot& slot = image.slot(handle);
    const Where where(slot.where.load());
    if (where.kind() == Where::kInBuffer || where.kind() == Where::kInRing) {
      inside[{where.link(), where.lane()}] += slot.blocks;
    }
    if (where.kind() == Where::kClaimed) faults.push_back(fmt::format("slot {} claimed", handle));
  };
  for (Handle handle = 1; handle < image.first_slot_of(used); ++handle) look_at(handle);
  for (Handle handle = image.first_copy_slot(); handle < image.extent().slots; ++handle) {
    look_at(handle);
  }
  for (LinkIndex i = 1; i < image.extent().links; ++i) {
    const LinkRecord& link = image.link(i);
    if (link.gate.load() != 0) {
      faults.push_back(fmt::format("gate of link {}: {:#x}", i, link.gate.load()));
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t taken = link.lanes[lane].sent - link.freed[lane].load();
      if (taken == inside[{i, lane}] && taken <= image.capacity(lane)) continue;
      faults.push_back(fmt::format("link {} lane {}: {} blocks are not free, {} are in the buffer",
                                   i, lane, taken, inside[{i, lane}]));
    }
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

/// What each packet of a test says about itself.
struct Mark {
  std::uint32_t flow = 0;
  std::uint32_t number = 0;
};

inline bool post_mark(End& end, Lid dlid, std::uint8_t service_level, Mark mark,
                      std::uint32_t bytes, Qpn destination = Qpn(1u << kQpnRangeBits)) {
  static constexpr std::array<std::byte, kPacketBytesMax> kFilling{};
  const auto lane = static_cast<std::uint8_t>(end.lane_of(service_level));
  if (!end.reserve(lane, bytes)) return false;
  const std::array<ByteSpan, 2> pieces{std::as_bytes(std::span(&mark, 1)),
                                       ByteSpan(kFilling).first(bytes - sizeof mark)};
  end.post({.pieces = pieces,
            .dlid = dlid,
            .service_level = service_level,
            .lane = lane,
            .destination = destination});
  return true;
}

inline Mark mark_of(const IncomingPacket& packet) {
  Mark mark;
  std::memcpy(&mark, packet.bytes.data(), sizeof mark);
  return mark;
}

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
