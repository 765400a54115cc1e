#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/os/liveness.h"
#include "base/time.h"
#include "fabric/data/image/where.h"
#include "fabric/topology/bit_errors.h"
#include "fabric/topology/link_integrity.h"

/// What lies in the memory that all processes of a fabric share. Everything is reached by index,
/// and a zeroed page is a valid beginning: untouched parts cost nothing.
namespace verbatim::fabric {

inline constexpr std::size_t kLanes = 16;  // 15 of data, and VL15 of subnet management.
inline constexpr unsigned kManagementLane = 15;
inline constexpr std::uint32_t kLaneMask = (1u << kLanes) - 1;
inline constexpr unsigned kNoLane = 15;  // What SL to VL tables say of packets to be dropped.
inline constexpr std::uint32_t kBlockBytes = 64;      // Unit of credits (IBA 7.9).
inline constexpr std::size_t kPacketBytesMax = 4224;  // LRH to ICRC around 4,096 bytes of payload.
/// Packets of more bytes begin in their slot where their payload begins a cache line, if they have
/// an LRH and a BTH before it, as most of them: copies are quicker.
inline constexpr std::size_t kSmallPacketBytes = 1024;
inline constexpr std::size_t kLargePacketAt = 64 - (8 + 12);
inline constexpr std::uint32_t kSlotsOfAnEnd = 512;
inline constexpr std::uint32_t kRingEntries = 4096;
inline constexpr std::size_t kArbitrationEntries = 64;
inline constexpr std::size_t kUnicastLids = 0xc000;
inline constexpr std::uint16_t kFirstMulticastLid = 0xc000;
inline constexpr std::size_t kMulticastLids = 0x3fff;
inline constexpr std::uint16_t kPermissiveLid = 0xffff;
inline constexpr std::uint8_t kNoPort = 255;
inline constexpr std::size_t kPKeys = 128;

/// Ports of a host's node: 0 leads to the fabric's daemon, 1 is the cable, the others lead to
/// programs.
inline constexpr unsigned kCablePort = 1;
inline constexpr unsigned kFirstEndPort = 2;
inline constexpr unsigned kHostProgramsMax = 64;  // A mask of them has so many bits.
inline constexpr unsigned kHostPorts = kFirstEndPort + kHostProgramsMax - 1;  // The highest one.
constexpr std::uint64_t mask_of_program(unsigned port) { return 1ULL << (port - kFirstEndPort); }
/// Queue pair numbers are steered by their upper bits.
inline constexpr unsigned kQpnRangeBits = 14;
inline constexpr std::size_t kQpnRanges = 1u << (24 - kQpnRangeBits);

/// A packet, from the time when a program posts it until it is placed. It stays where it is; its
/// handle moves. Who owns the gate of the link whose queue it is in has all but `where` to itself.
struct alignas(128) Slot {
  /// Where the packet is. One store of it is the commit of each move (where.h).
  std::atomic<std::uint64_t> where;
  std::uint32_t at_router;   // `Where::at_router`, if its headers are a router's; else 0.
  LinkIndex from;            // In whose buffer it takes room, at `lane`; 0: in none.
  Handle next;               // In a chain or a queue.
  std::uint32_t sent_after;  // FCTBS of a program's link when this has crossed.
  std::uint32_t destination_qp;
  NodeIndex at_node;  // Of and to the daemon: the node that has received it, or that sends it,
  std::uint16_t bytes;
  std::uint16_t blocks;
  std::uint16_t dlid;
  std::uint8_t at_port;  // and the port that it has come through.
  std::uint8_t service_level;
  std::uint8_t lane;
  std::uint8_t out_lane;  // Of the link that it waits for.
  std::uint16_t p_key;
  TimeNs queued_at;   // 0: when the queue began.
  TimeNs arrives_at;  // Not to be taken earlier: the length of the cables. 0: at once.
  alignas(64) std::array<std::byte, kPacketBytesMax + kLargePacketAt> room;

  /// LRH to ICRC; of a packet of so many bytes, or of this one.
  MutableByteSpan packet(std::size_t packet_bytes) {
    const std::size_t at = packet_bytes > kSmallPacketBytes ? kLargePacketAt : 0;
    return MutableByteSpan(room).subspan(at, std::min(packet_bytes, kPacketBytesMax));
  }
  MutableByteSpan packet() { return packet(bytes); }
};

/// What few cables have. One load tells that a cable has none of it.
struct CableTraits {
  std::uint32_t delay_ns = 0;  // Its length.
  std::uint16_t has_bit_errors = 0;
  std::uint16_t is_watched = 0;  // What crosses goes to the tap, too (tap.h).
  bool is_plain() const { return std::bit_cast<std::uint64_t>(*this) == 0; }
};

/// A direction of a cable, or of a program's link to its host. Its parts are written by different
/// threads and lie on cache lines of their own.
struct alignas(64) LinkRecord {
  /// Owner, newest handle of the inbox, news (gate.h).
  std::atomic<std::uint64_t> gate;

  // Set with the link.
  alignas(64) NodeIndex start;
  NodeIndex end;
  std::uint8_t start_port;
  std::uint8_t end_port;
  std::atomic<std::uint8_t> passes;        // A `Passes`.
  std::atomic<std::uint32_t> ps_per_byte;  // 0: unlimited.
  std::atomic<CableTraits> cable;
  std::atomic<std::uint32_t> hoq_life_us;     // HOQLife of the port; 0: unlimited.
  std::atomic<std::uint16_t> bytes_max;       // By NeighborMTU; 0: all.
  std::atomic<std::uint16_t> lanes_in_force;  // A bit for each data lane; 0: all.
  // Guarded by the gate, as what follows. Here is room for it.
  BitErrors bit_errors;
  std::uint32_t integrity_errors;  // LocalLinkIntegrityErrors of the port at its end,
  LinkIntegrity integrity;         // which counts by this,
  std::atomic<std::uint8_t> local_physical_errors;  // and by its PortInfo.

  // Output side. Guarded by the gate.
  alignas(64) std::uint32_t waiting;  // A bit for each lane that has a queue,
  std::uint32_t stalled;              // and for each that was left with one.
  std::uint8_t has_backlog;           // Packets wait for the link's clock and for nothing else.
  std::uint8_t high_entry;  // Arbitration: the entries in force, what is left of their weights,
  std::uint8_t low_entry;
  std::uint32_t high_weight;
  std::uint32_t low_weight;
  std::uint32_t high_bytes;  // and of the limit of high priority.
  TimeNs free_at;            // The link's clock.
  TimeNs blocked_at;         // For want of credits; 0: it is not.
  /// When it is to be served because of time; 0: never. All read it.
  std::atomic<TimeNs> due_at;
  /// What the port at its end counts of bit errors.
  struct Damage {
    std::uint64_t symbol_errors;
    std::uint64_t packets;  // PortRcvErrors. Programs add to it, too.
  };
  Damage damage;
  struct Lane {
    std::uint32_t sent;        // FCTBS: blocks that have left, ever.
    std::uint32_t freed_seen;  // `freed` when it was read last: it only grows.
    Handle head;
    Handle tail;
    std::uint64_t packets;  // That have left the port, ever,
    std::uint64_t words;    // and theirs of 4 bytes, LRH to ICRC.
  };
  static_assert(sizeof(Lane) == 32, "A lane shares no cache line with half of another.");
  alignas(64) std::array<Lane, kLanes> lanes;
  // Of stalled lanes, else 0:
  std::array<TimeNs, kLanes> queue_since;  // Since when the lane has a queue.
  std::array<TimeNs, kLanes> head_since;   // Since when its first packet is the first, or 0.
  std::array<TimeNs, kLanes> short_since;  // Since when it lacks credits, or 0.
  struct Counters {
    std::array<std::uint64_t, 16> level_words;  // PortXmitDataSL: by service level.
    std::array<TimeNs, kLanes> lane_wait_ns;    // PortVLXmitWait.
    std::uint64_t wait_ns;                      // PortXmitWait.
    std::uint64_t multicast_packets;
    std::uint64_t inactive_discards;  // PortXmitDiscards of the port where it starts.
    std::uint64_t mtu_discards;
    std::uint64_t hoq_discards;
    std::uint64_t lifetime_discards;   // Of routers: the hop limit is used up.
    std::uint64_t management_dropped;  // VL15Dropped of the port where it ends.
    std::uint64_t dlid_errors;  // PortRcvSwitchRelayErrors of that port; of routers: GIDs, too.
    std::uint64_t lane_errors;
    std::uint64_t looping_errors;
    std::uint64_t multicast_unwanted;  // No port of that node is in the group.
    std::uint64_t p_key_errors;        // PortXmitConstraintErrors of the port where it starts,
    std::uint64_t p_key_errors_in;     // PortRcvConstraintErrors of the one where it ends.
    std::uint64_t copy_errors;         // A branch of a multicast for which there was no slot.
  };
  Counters counters;

  /// Blocks that have left the buffer at its end, ever: FCCL less the buffer's size. Added to by
  /// the owners of all links that leave that node.
  alignas(64) std::array<std::atomic<std::uint32_t>, kLanes> freed;
  /// Its mover wants to be told of credits.
  alignas(64) std::atomic<std::uint32_t> waits;
};

/// As `LinkRecord::ps_per_byte` has it; a rate of 0 is unlimited.
constexpr std::uint32_t ps_per_byte(std::uint64_t bits_per_second) {
  constexpr std::uint64_t kPsOfASecond = 1'000'000'000'000;
  return bits_per_second == 0 ? 0 : static_cast<std::uint32_t>(8 * kPsOfASecond / bits_per_second);
}

/// What a link lets pass, by the states of its ports.
enum class Passes : std::uint8_t { nothing, management, all };

/// Handles on a program's link: from the program if it starts there, else to it.
struct alignas(64) Ring {
  // Written by who puts handles in. The tail, and above it the last handle: who finds that one
  // alone waits for no other cache line.
  std::atomic<std::uint64_t> last;
  std::uint32_t head_seen;  // `head` when it was read last: it only grows.
  // To a program that took nothing for the life of a packet: what comes is discarded,
  std::uint32_t is_passed_over;
  std::uint32_t passed_over_at;  // as long as `head` is this.
  /// Written by who takes handles out.
  alignas(64) std::atomic<std::uint32_t> head;
  alignas(64) std::array<std::atomic<Handle>, kRingEntries> handles;

  static std::uint32_t tail_of(std::uint64_t last) { return static_cast<std::uint32_t>(last); }
  static Handle handle_of(std::uint64_t last) { return static_cast<Handle>(last >> 32); }
  std::uint32_t tail(std::memory_order order = std::memory_order_seq_cst) const {
    return tail_of(last.load(order));
  }
  /// What was put in before it, and `newest`, the last of that, may be taken out.
  void set_tail(std::uint32_t tail, Handle newest) {
    last.store(std::uint64_t{newest} << 32 | tail, std::memory_order_release);
  }

  /// Returns false if both are no ends of a ring: somebody has written there.
  static bool are_ends(std::uint32_t head, std::uint32_t tail) {
    return tail - head <= kRingEntries;
  }
};

/// From `hub` on: packets find their way otherwise than by a LID of the subnet.
enum class RecordKind : std::uint8_t { none, switch_node, host, end, hub, router };

struct alignas(64) NodeRecord {
  RecordKind kind;
  std::uint8_t ports;              // The highest one.
  std::uint8_t topology_port;      // Of a host: which port of its adapter it is.
  std::atomic<std::uint8_t> lmc;   // Of a host.
  std::atomic<std::uint16_t> lid;  // Of a host.
  std::uint32_t first_port;        // In the table of ports.
  std::uint32_t tables;            // In the tables of its kind.
  std::uint32_t topology_node;
  std::atomic<std::uint32_t> lifetime_us;  // Of packets in a switch; 0: unlimited.
  std::atomic<std::uint64_t> ends;         // Of a host: programs that it has, by their ports.
  std::atomic<std::uint8_t> enforces;      // Of a switch: a port enforces partitions.
  std::uint64_t guid;                      // Of a host: its port's.
};

/// Which packets a switch's port checks for their P_Key.
inline constexpr std::uint8_t kInbound = 1;
inline constexpr std::uint8_t kOutbound = 2;

/// A port, as its node's tables have it.
struct alignas(64) PortRecord {
  LinkIndex out;
  LinkIndex in;
  std::atomic<std::uint8_t> state;  // wire::PortState by its number.
  std::atomic<std::uint8_t> has_cable_up;
  std::atomic<std::uint8_t> high_limit;
  std::atomic<std::uint8_t> enforces;  // Partitions: kInbound, kOutbound.
  /// Of cables of hosts and routers: the prefix of their subnet, and of routers the port's LID.
  std::atomic<std::uint64_t> gid_prefix;
  std::atomic<std::uint16_t> lid;
  std::atomic<std::uint8_t> lmc;
  /// Lane in the low byte, weight in the high one; high priority first.
  std::array<std::array<std::atomic<std::uint16_t>, kArbitrationEntries>, 2> arbitration;
  std::array<std::atomic<std::uint16_t>, kPKeys> p_keys;
};

/// Of hosts.
struct HostTables {
  std::array<std::atomic<std::uint8_t>, kQpnRanges> ports_by_qpn;  // 0: nobody's.
  /// Of what leaves by the cable, and of all else. A host has no table for each pair of ports.
  std::atomic<std::uint64_t> lanes_to_cable;
  std::atomic<std::uint64_t> lanes_to_others;
  std::array<std::atomic<std::uint64_t>, kMulticastLids> multicast;  // Programs by their ports.
};

/// A program's end of its link.
struct alignas(64) EndRecord {
  enum State : std::uint32_t { kFree, kTaken, kDraining };
  std::atomic<std::uint32_t> state;
  NodeIndex host;
  std::uint8_t host_port;
  std::uint32_t groups_end;  // Above the multicast LIDs of the program, counted from 0xc000.
  /// Counts up with each program that takes the end.
  std::atomic<std::uint32_t> generation;
  alignas(64) std::atomic<std::uint32_t> sleeps;  // Ring its doorbell.
  std::atomic<std::uint32_t> has_credit_news;     // Credits or slots have come that it waits for.
  std::atomic<std::uint32_t> waits_for_slots;
};

/// A thread that moves packets. Its index is the name of the owner in gates.
struct alignas(64) MoverRecord {
  enum State : std::uint32_t { kFree, kClaimed, kLives };
  /// A `State`. `kClaimed`: 4 * the end of the program that claims it is added.
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> generation;  // How many threads have had it.
  std::uint32_t process;                  // For people who look.
  alignas(Liveness) std::array<std::byte, sizeof(Liveness)> liveness;
};

inline constexpr std::uint64_t kImageMagic = 0x3142'4146'4d49'5256;  // "VRIMFAB1".
inline constexpr std::uint32_t kImageVersion = 9;

/// How many there are of each part. The offsets follow from it.
struct Extent {
  std::uint32_t movers = 0;
  std::uint32_t nodes = 0;  // The null one, stations, the hub, a node for each end.
  std::uint32_t topology_nodes = 0;
  std::uint32_t ports = 0;
  std::uint32_t switches = 0;  // Routers included: they map service levels to lanes as switches.
  std::uint32_t switch_ports = 0;  // The highest one of any of these.
  std::uint32_t hosts = 0;
  std::uint32_t links = 0;  // The null one, cables, links to the hub, links of ends.
  std::uint32_t ends = 0;
  std::uint32_t slots = 0;  // The null one, those of ends, those for copies.
  bool operator==(const Extent&) const = default;
};

struct alignas(64) Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t block_capacity;       // Credits of an empty buffer, for each data lane,
  std::uint32_t management_capacity;  // and for VL15.
  Extent extent;
  std::uint64_t bytes;
  alignas(64) std::atomic<std::uint32_t> repairer;  // A mover's index.
  std::atomic<std::uint32_t> keeper_news;           // Gates have news and no owner.
  std::atomic<std::uint32_t> next_copy;             // Where to look for a free slot first.
  alignas(64) std::atomic<TimeNs> earliest;  // When to look for timed links that are due; kNever.
  /// When the keeper looks for timed links next. Programs serve them before, as long as one runs.
  std::atomic<TimeNs> keeper_due;
};

}  // namespace verbatim::fabric
