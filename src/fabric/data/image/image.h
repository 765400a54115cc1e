#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/data/image/records.h"
#include "fabric/data/image/tap.h"
#include "fabric/topology/topology.h"

/// The memory of a fabric: made once, mapped by every process that uses it.
namespace verbatim::fabric {

struct ImageOptions {
  std::uint32_t ends_max = 256;  // Programs at a time, the daemon included.
  std::uint32_t movers_max = 1024;
  std::uint32_t copy_slots = 1024;          // For branches of multicasts.
  std::uint32_t block_capacity = 2048;      // 128 KiB of each lane: the most that FCCL can say.
  std::uint32_t management_capacity = 256;  // 16 KiB: some 50 management datagrams.
  bool is_paced = false;                    // Links have the rates of the topology.
  bool has_lengths = false;                 // Packets take the time that light takes.
  bool is_active = false;  // All ports begin in Active, as no subnet manager would leave them.
};

/// Shared memory of a descriptor; unmaps it.
class Mapping {
 public:
  Mapping() = default;
  static Result<Mapping> map(int fd, std::uint64_t bytes);
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Every index is looked at before it is used: what is beyond the end is the null record, which
/// leads nowhere. So a process cannot be made to touch what is outside of the image.
class Image {
 public:
  /// EINVAL if the topology has faults; EFBIG, ENOMEM, EMFILE: what the kernel says.
  static Result<Image> create(const Topology& topology, const ImageOptions& options = {});
  /// Maps what `create` has made; `fd` stays the caller's. EINVAL in words if it is something else.
  static Result<Image> attach(int fd);

  int fd() const { return fd_.get(); }
  Header& header() const { return *reinterpret_cast<Header*>(mapping_.base()); }
  const Extent& extent() const { return extent_; }

  LinkRecord& link(LinkIndex i) const { return links_[i < extent_.links ? i : 0]; }
  LinkIndex index_of(const LinkRecord& link) const {
    return static_cast<LinkIndex>(&link - links_);
  }
  /// A bit for each link whose `due_at` is set; links 64 * `word` and up.
  std::atomic<std::uint64_t>& timed_links(std::uint32_t word) const {
    return timed_[word < timed_words() ? word : 0];
  }
  std::uint32_t timed_words() const { return extent_.links / 64 + 1; }
  Slot& slot(Handle i) const { return slots_[i < extent_.slots ? i : 0]; }
  NodeRecord& node(NodeIndex i) const { return nodes_[i < extent_.nodes ? i : 0]; }
  EndRecord& end(std::uint32_t i) const { return ends_[i < extent_.ends ? i : 0]; }
  MoverRecord& mover(std::uint32_t i) const { return movers_[i < extent_.movers ? i : 0]; }
  PortRecord& port(const NodeRecord& node, unsigned port) const {
    const std::uint64_t i = std::uint64_t{node.first_port} + port;
    return ports_[i < extent_.ports && port <= node.ports ? i : 0];
  }
  HostTables& host_tables(const NodeRecord& node) const {
    return hosts_[node.tables < extent_.hosts ? node.tables : 0];
  }

  /// Of switches. The linear table has the port + 1, so that what nobody has set is `kNoPort`.
  std::atomic<std::uint8_t>& linear_entry(const NodeRecord& node, std::size_t lid) const {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(switch_tables(node))[lid % kUnicastLids];
  }
  /// Ports 16 * `position` and up; `mlid` counts from 0xc000.
  std::atomic<std::uint16_t>& multicast_entry(const NodeRecord& node, std::size_t mlid,
                                              unsigned position) const;
  /// A nibble for each service level.
  std::atomic<std::uint64_t>& lanes_by_sl(const NodeRecord& node, unsigned in, unsigned out) const;
  unsigned multicast_positions() const { return extent_.switch_ports / 16 + 1; }

  NodeIndex first_station() const { return 1; }
  NodeIndex hub() const { return extent_.nodes - extent_.ends - 1; }
  NodeIndex node_of_end(std::uint32_t end) const { return hub() + 1 + end; }
  /// The node that receives what comes to a port: of a host one for each port, of others one.
  NodeIndex station_of(PortPlace place) const;
  /// The host's node whose port has this GUID; 0: there is none.
  NodeIndex station_by_guid(std::uint64_t guid) const;
  /// The link that leaves `topology.links[cable]` at its end `a`, and the other one.
  LinkIndex link_of_cable(std::uint32_t cable, bool from_b) const { return 1 + 2 * cable + from_b; }
  std::uint32_t cables() const { return (first_hub_link() - 1) / 2; }
  LinkIndex first_hub_link() const { return first_end_link() - 2 * stations(); }
  std::uint32_t stations() const { return hub() - 1; }

  LinkIndex first_end_link() const { return first_end_link_; }
  bool is_of_end(LinkIndex link) const { return link >= first_end_link_; }
  std::uint32_t end_of(LinkIndex link) const { return (link - first_end_link_) / 2; }
  bool leads_to_end(LinkIndex link) const {
    return is_of_end(link) && ((link - first_end_link_) & 1) != 0;
  }
  bool comes_from_end(LinkIndex link) const {
    return is_of_end(link) && ((link - first_end_link_) & 1) == 0;
  }
  LinkIndex from_end(std::uint32_t end) const { return first_end_link_ + 2 * end; }
  LinkIndex to_end(std::uint32_t end) const { return first_end_link_ + 2 * end + 1; }
  /// The end is the daemon's, for a trunk in the place of a cable.
  bool is_trunk(std::uint32_t i) const {
    const EndRecord& record = end(i);
    const RecordKind kind = node(record.host).kind;
    return kind == RecordKind::switch_node ||
           (kind == RecordKind::host && record.host_port == kCablePort);
  }
  /// Of a link from or to an end.
  Ring& ring(LinkIndex link) const {
    const std::uint32_t i = link - first_end_link_;
    return rings_[i < 2 * extent_.ends ? i : 0];
  }
  Tap& tap() const { return *tap_; }
  Handle first_slot_of(std::uint32_t end) const { return 1 + end * kSlotsOfAnEnd; }
  Handle first_copy_slot() const { return first_slot_of(extent_.ends); }
  /// The end to which the slot belongs; `extent().ends`: it is for copies.
  std::uint32_t owner_of(Handle slot) const {
    const std::uint32_t end = (slot - 1) / kSlotsOfAnEnd;
    return end < extent_.ends ? end : extent_.ends;
  }
  std::uint32_t capacity(unsigned lane) const {
    return lane == kManagementLane ? management_capacity_ : block_capacity_;
  }

 private:
  Image() = default;
  static Result<Image> map(UniqueFd fd, const Header& header);
  void fill(const Topology& topology, const ImageOptions& options);
  void sort_guids() const;
  std::byte* switch_tables(const NodeRecord& node) const {
    return switches_ + (node.tables < extent_.switches ? node.tables : 0) * switch_stride_;
  }

  UniqueFd fd_;
  Mapping mapping_;
  // What the header said when this was mapped: others may write there.
  Extent extent_;
  std::uint32_t block_capacity_ = 0;
  std::uint32_t management_capacity_ = 0;
  LinkIndex first_end_link_ = 0;
  std::uint64_t switch_stride_ = 0;
  std::uint64_t switch_lanes_ = 0;  // Where its SL to VL tables begin.
  MoverRecord* movers_ = nullptr;
  NodeRecord* nodes_ = nullptr;
  NodeIndex* first_stations_ = nullptr;  // By node of the topology.
  NodeIndex* by_guid_ = nullptr;         // All hosts' nodes.
  PortRecord* ports_ = nullptr;
  std::byte* switches_ = nullptr;
  HostTables* hosts_ = nullptr;
  LinkRecord* links_ = nullptr;
  std::atomic<std::uint64_t>* timed_ = nullptr;
  EndRecord* ends_ = nullptr;
  Ring* rings_ = nullptr;
  Slot* slots_ = nullptr;
  Tap* tap_ = nullptr;
};

}  // namespace verbatim::fabric
