#include "fabric/data/image/image.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/sparse_file.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kImageBytesMax = 1ULL << 40;
constexpr std::uint32_t kCapacityMax = 2048;  // FCCL is at most so far ahead (IBA 7.9.4).

constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// Of one switch: linear table, multicast table, SL to VL table.
struct SwitchLayout {
  std::uint64_t multicast;
  std::uint64_t lanes;
  std::uint64_t stride;
};
constexpr SwitchLayout layout_of_switch(std::uint32_t ports) {
  const std::uint64_t positions = ports / 16 + 1;
  const std::uint64_t multicast = kUnicastLids;
  const std::uint64_t lanes = multicast + whole_pages(kMulticastLids * positions * 2);
  return {.multicast = multicast,
          .lanes = lanes,
          .stride = lanes + whole_pages(std::uint64_t{ports + 1} * (ports + 1) * 8)};
}

/// A bit for each link.
constexpr std::uint32_t timed_words(const Extent& extent) { return extent.links / 64 + 1; }

/// Where each part begins, in the order of the image.
struct Offsets {
  std::uint64_t movers, nodes, stations, by_guid, ports, switches, hosts, links, timed, ends, rings,
      slots, tap, bytes;
};
Offsets offsets_of(const Extent& extent) {
  Offsets at{};
  std::uint64_t next = whole_pages(sizeof(Header));
  const auto part = [&next](std::uint64_t count, std::uint64_t size) {
    return std::exchange(next, next + whole_pages(count * size));
  };
  at.movers = part(extent.movers, sizeof(MoverRecord));
  at.nodes = part(extent.nodes, sizeof(NodeRecord));
  at.stations = part(extent.topology_nodes, sizeof(NodeIndex));
  at.by_guid = part(extent.hosts, sizeof(NodeIndex));
  at.ports = part(extent.ports, sizeof(PortRecord));
  at.switches = part(extent.switches, layout_of_switch(extent.switch_ports).stride);
  at.hosts = part(extent.hosts, sizeof(HostTables));
  at.links = part(extent.links, sizeof(LinkRecord));
  at.timed = part(timed_words(extent), sizeof(std::uint64_t));
  at.ends = part(extent.ends, sizeof(EndRecord));
  at.rings = part(2ULL * extent.ends, sizeof(Ring));
  at.slots = part(extent.slots, sizeof(Slot));
  at.tap = part(1, sizeof(Tap));
  at.bytes = next;
  return at;
}

Extent extent_for(const Topology& topology, const ImageOptions& options) {
  // The null record is the first of each.
  Extent extent{.movers = options.movers_max + 1,
                .topology_nodes = static_cast<std::uint32_t>(topology.nodes.size()),
                .ports = 1,
                .switches = 1,
                .hosts = 1,
                .ends = options.ends_max};
  std::uint32_t stations = 0;
  for (const Node& node : topology.nodes) {
    if (node.kind != NodeKind::adapter) {
      ++stations;
      ++extent.switches;
      extent.ports += node.ports + 1u;
      extent.switch_ports = std::max<std::uint32_t>(extent.switch_ports, node.ports);
    } else {
      stations += node.ports;
      extent.hosts += node.ports;
      extent.ports += node.ports * (kHostPorts + 1u);
    }
  }
  extent.nodes = 1 + stations + 1 + extent.ends;
  extent.links =
      1 + 2 * static_cast<std::uint32_t>(topology.links.size()) + 2 * stations + 2 * extent.ends;
  extent.slots = 1 + extent.ends * kSlotsOfAnEnd + options.copy_slots;
  return extent;
}

/// Every part has a null record, and what is derived from the numbers is within them.
bool is_sound(const Header& header) {
  const Extent& extent = header.extent;
  if (header.block_capacity > kCapacityMax || header.management_capacity > kCapacityMax) {
    return false;
  }
  constexpr std::uint32_t kCountMax = 1u << 23;
  for (const std::uint32_t count : {extent.movers, extent.nodes, extent.ports, extent.switches,
                                    extent.hosts, extent.links, extent.ends}) {
    if (count == 0 || count > kCountMax) return false;
  }
  return extent.movers <= 0xffff && extent.topology_nodes <= kNodesMax &&
         extent.switch_ports <= kPortsMax && extent.slots <= 1u << 30 &&
         extent.nodes >= extent.ends + 2 &&
         extent.links >= 1 + 2 * (extent.nodes - extent.ends - 2) + 2 * extent.ends &&
         extent.slots >= 1 + std::uint64_t{extent.ends} * kSlotsOfAnEnd;
}

}  // namespace

std::atomic<std::uint16_t>& Image::multicast_entry(const NodeRecord& node, std::size_t mlid,
                                                   unsigned position) const {
  const unsigned positions = multicast_positions();
  std::byte* const table = switch_tables(node) + layout_of_switch(extent_.switch_ports).multicast;
  return reinterpret_cast<std::atomic<std::uint16_t>*>(
      table)[mlid % kMulticastLids * positions + position % positions];
}

std::atomic<std::uint64_t>& Image::lanes_by_sl(const NodeRecord& node, unsigned in,
                                               unsigned out) const {
  if (node.kind == RecordKind::host) {
    HostTables& tables = host_tables(node);
    return out == kCablePort ? tables.lanes_to_cable : tables.lanes_to_others;
  }
  const unsigned ports = extent_.switch_ports + 1;
  std::byte* const table = switch_tables(node) + switch_lanes_;
  if (in >= ports || out >= ports) in = out = 0;  // Divisions would take as long as a hop.
  return reinterpret_cast<std::atomic<std::uint64_t>*>(table)[in * ports + out];
}

NodeIndex Image::station_of(PortPlace place) const {
  if (place.node >= extent_.topology_nodes) return 0;
  const NodeIndex first = first_stations_[place.node];
  const NodeIndex station =
      node(first).kind == RecordKind::host && place.port != 0 ? first + place.port - 1 : first;
  return station < hub() && node(station).topology_node == place.node ? station : 0;
}

NodeIndex Image::station_by_guid(std::uint64_t guid) const {
  const std::span<const NodeIndex> stations(by_guid_ + 1, extent_.hosts - 1);
  const auto found =
      std::ranges::lower_bound(stations, guid, {}, [this](NodeIndex i) { return node(i).guid; });
  return found != stations.end() && node(*found).guid == guid ? *found : 0;
}

Result<Mapping> Mapping::map(int fd, std::uint64_t bytes) {
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return refuse_errno(fmt::format("mapping {} bytes of a fabric", bytes));
  Mapping mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.bytes_ = bytes;
  return mapping;
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Result<Image> Image::map(UniqueFd fd, const Header& header) {
  const Offsets at = offsets_of(header.extent);
  Result<Mapping> mapping = Mapping::map(fd.get(), at.bytes);
  if (!mapping) return std::unexpected(std::move(mapping.error()));
  std::byte* const base = mapping->base();
  Image image;
  image.fd_ = std::move(fd);
  image.mapping_ = std::move(*mapping);
  image.extent_ = header.extent;
  image.block_capacity_ = header.block_capacity;
  image.management_capacity_ = header.management_capacity;
  image.first_end_link_ = header.extent.links - 2 * header.extent.ends;
  image.switch_stride_ = layout_of_switch(header.extent.switch_ports).stride;
  image.switch_lanes_ = layout_of_switch(header.extent.switch_ports).lanes;
  image.movers_ = reinterpret_cast<MoverRecord*>(base + at.movers);
  image.nodes_ = reinterpret_cast<NodeRecord*>(base + at.nodes);
  image.first_stations_ = reinterpret_cast<NodeIndex*>(base + at.stations);
  image.by_guid_ = reinterpret_cast<NodeIndex*>(base + at.by_guid);
  image.ports_ = reinterpret_cast<PortRecord*>(base + at.ports);
  image.switches_ = base + at.switches;
  image.hosts_ = reinterpret_cast<HostTables*>(base + at.hosts);
  image.links_ = reinterpret_cast<LinkRecord*>(base + at.links);
  image.timed_ = reinterpret_cast<std::atomic<std::uint64_t>*>(base + at.timed);
  image.ends_ = reinterpret_cast<EndRecord*>(base + at.ends);
  image.rings_ = reinterpret_cast<Ring*>(base + at.rings);
  image.slots_ = reinterpret_cast<Slot*>(base + at.slots);
  image.tap_ = reinterpret_cast<Tap*>(base + at.tap);
  return image;
}

Result<Image> Image::create(const Topology& topology, const ImageOptions& options) {
  if (const auto faults = faults_of(topology); !faults.empty()) {
    return refuse(EINVAL, text_of(faults.front()));
  }
  Header header{};
  header.magic = kImageMagic;
  header.version = kImageVersion;
  header.block_capacity = options.block_capacity;
  header.management_capacity = options.management_capacity;
  header.extent = extent_for(topology, options);
  header.bytes = offsets_of(header.extent).bytes;
  if (!is_sound(header) || header.bytes > kImageBytesMax) {
    return refuse(EINVAL,
                  fmt::format("a fabric of {} nodes, {} links and {} programs is too large",
                              topology.nodes.size(), topology.links.size(), options.ends_max));
  }
  Result<UniqueFd> fd = create_sparse_file("verbatim-fabric", header.bytes);
  if (!fd) return std::unexpected(std::move(fd.error()));
  Result<Image> image = map(std::move(*fd), header);
  if (!image) return image;
  std::memcpy(static_cast<void*>(&image->header()), static_cast<const void*>(&header),
              sizeof header);
  image->header().earliest = kNever;
  image->header().keeper_due = 0;  // It looks before it sleeps for the first time.
  image->fill(topology, options);
  return image;
}

Result<Image> Image::attach(int fd) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return refuse_errno("the memory of a fabric");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return refuse(EINVAL, "no memory of a fabric: it could be cut off while it is mapped");
  }
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return refuse_errno("the memory of a fabric");
  // Copied once: others may write there while this looks.
  Header header{};
  if (pread(fd, static_cast<void*>(&header), sizeof header, 0) != sizeof header ||
      header.magic != kImageMagic) {
    return refuse(EINVAL, "no memory of a fabric");
  }
  if (header.version != kImageVersion) {
    return refuse(EINVAL, fmt::format("the memory of a fabric has layout {}: this program knows {}",
                                      header.version, kImageVersion));
  }
  if (!is_sound(header) ||
      offsets_of(header.extent).bytes != static_cast<std::uint64_t>(status.st_size)) {
    return refuse(EINVAL, "the memory of a fabric contradicts itself");
  }
  return map(std::move(own), header);
}

}  // namespace verbatim::fabric
