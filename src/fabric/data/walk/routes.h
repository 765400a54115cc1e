#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "fabric/data/image/image.h"
#include "wire/ib/partition_enforcement.h"
#include "wire/subnet/port_info.h"

/// By which port a packet leaves a node, from the node's tables. Reads only.
namespace verbatim::fabric {

/// Ports 0 to 255.
class PortMask {
 public:
  void add(unsigned position, std::uint16_t mask) {
    words_[position / 4 % 4] |= std::uint64_t{mask} << (position % 4 * 16);
  }
  void add_programs(std::uint64_t mask) {
    words_[0] |= mask << kFirstEndPort;
    words_[1] |= mask >> (64 - kFirstEndPort);
  }
  void remove(unsigned port) { words_[port / 64 % 4] &= ~(1ULL << (port % 64)); }
  bool is_empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  /// The lowest port, which is then no longer in. Requires one.
  unsigned take() {
    unsigned word = 0;
    while (words_[word] == 0) ++word;
    const auto port = static_cast<unsigned>(std::countr_zero(words_[word]));
    words_[word] &= words_[word] - 1;
    return word * 64 + port;
  }

 private:
  std::uint64_t words_[4] = {};
};

/// Why a node has no port for a packet (IBA 18.2.4.3, 16.1.3.5).
enum class RouteFault : std::uint8_t {
  none,
  dlid,
  looping,
  lane,
  mtu,
  p_key_in,
  p_key_out,
  hop_limit,  // Of routers.
  inactive,   // Of hosts.
};

struct Exit {
  LinkIndex link = 0;
  std::uint8_t lane = 0;
  RouteFault fault = RouteFault::none;
};

class Routes {
 public:
  explicit Routes(const Image& image) : image_(image) {}

  static bool is_multicast(std::uint16_t dlid) {
    return dlid >= kFirstMulticastLid && dlid != kPermissiveLid;
  }

  /// What the tables are asked of a packet, besides its size: where it goes on follows from it.
  static std::uint64_t headers_of(const Slot& slot) {
    return slot.dlid | std::uint64_t{slot.p_key} << 16 |
           std::uint64_t{slot.destination_qp & 0xffffff} << 32 |
           std::uint64_t{slot.service_level & 15u} << 56 | std::uint64_t{slot.lane & 15u} << 60;
  }

  /// The link by which the packet leaves `node`, into which it came through `in`.
  Exit exit_of(const NodeRecord& node, unsigned in, const Slot& slot) const {
    if (node.kind == RecordKind::hub) return exit_of_hub(slot);
    unsigned out = 0;
    if (node.kind == RecordKind::switch_node) {
      out = slot.dlid == kPermissiveLid
                ? 0
                : static_cast<std::uint8_t>(
                      image_.linear_entry(node, slot.dlid).load(std::memory_order_relaxed) - 1);
    } else if (node.kind == RecordKind::host) {
      out = port_of_host(node, in, slot);
      if (is_of_program(node, in) && out != kCablePort && !is_active(node)) {
        return {.link = image_.port(node, kCablePort).out, .fault = RouteFault::inactive};
      }
    } else {
      return {.fault = RouteFault::dlid};
    }
    return through(node, in, out, slot);
  }

  /// A host's program may send to itself.
  static bool is_of_program(const NodeRecord& node, unsigned port) {
    return node.kind == RecordKind::host && port >= kFirstEndPort;
  }

  /// The ports of a multicast's branches, without the cable that it came through.
  PortMask branches_of(const NodeRecord& node, unsigned in, std::uint16_t dlid) const {
    PortMask ports;
    const std::size_t mlid = dlid - kFirstMulticastLid;
    if (node.kind == RecordKind::switch_node) {
      const unsigned positions = image_.multicast_positions();
      for (unsigned i = 0; i < positions; ++i) {
        ports.add(i, image_.multicast_entry(node, mlid, i).load(std::memory_order_relaxed));
      }
    } else if (node.kind == RecordKind::host) {
      if (in != kCablePort) ports.add(0, 1u << kCablePort);
      if (in != kCablePort && !is_active(node)) return ports;  // The cable's link discards it.
      ports.add_programs(image_.host_tables(node).multicast[mlid % kMulticastLids].load(
          std::memory_order_relaxed));
    }
    if (!is_of_program(node, in)) ports.remove(in);
    return ports;
  }

  /// By `out`, if that port and its lane take the packet.
  Exit through(const NodeRecord& node, unsigned in, unsigned out, const Slot& slot) const {
    if (out > node.ports) return {.fault = RouteFault::dlid};
    if (out == in && !is_of_program(node, in)) return {.fault = RouteFault::looping};
    const LinkIndex link = image_.port(node, out).out;
    if (link == 0) return {.fault = RouteFault::dlid};
    Exit exit{.link = link};
    if (slot.lane == kManagementLane) {
      exit.lane = kManagementLane;
      return exit;
    }
    const std::uint64_t lanes = image_.lanes_by_sl(node, in, out).load(std::memory_order_relaxed);
    exit.lane = lanes >> (slot.service_level % 16 * 4) & 15;
    const LinkRecord& record = image_.link(link);
    const std::uint16_t in_force = record.lanes_in_force.load(std::memory_order_relaxed);
    if (exit.lane == kNoLane || (in_force != 0 && (in_force >> exit.lane & 1) == 0)) {
      exit.fault = RouteFault::lane;
    }
    const std::uint16_t bytes_max = record.bytes_max.load(std::memory_order_relaxed);
    if (bytes_max != 0 && slot.bytes > bytes_max) exit.fault = RouteFault::mtu;
    if (node.enforces.load(std::memory_order_relaxed) != 0) {
      const RouteFault fault = partition_fault(node, in, out, slot.p_key);
      if (fault != RouteFault::none) exit.fault = fault;
    }
    return exit;
  }

 private:
  /// A host's port turns packets of its own programs round as it sends them: only while it is
  /// active.
  bool is_active(const NodeRecord& host) const {
    return image_.port(host, kCablePort).state.load(std::memory_order_relaxed) ==
           raw(wire::PortState::active);
  }
  RouteFault partition_fault(const NodeRecord& node, unsigned in, unsigned out,
                             std::uint16_t p_key) const {
    if (refuses(node, in, kInbound, p_key, wire::may_enter)) return RouteFault::p_key_in;
    if (refuses(node, out, kOutbound, p_key, wire::may_leave)) return RouteFault::p_key_out;
    return RouteFault::none;
  }
  bool refuses(const NodeRecord& node, unsigned port, std::uint8_t direction, std::uint16_t p_key,
               bool (*passes)(PKey, PKey)) const {
    const PortRecord& record = image_.port(node, port);
    if (port == 0 || (record.enforces.load(std::memory_order_relaxed) & direction) == 0) {
      return false;
    }
    return std::ranges::none_of(record.p_keys, [&](const std::atomic<std::uint16_t>& entry) {
      return passes(PKey{entry.load(std::memory_order_relaxed)}, PKey{p_key});
    });
  }
  Exit exit_of_hub(const Slot& slot) const {
    // From the daemon to the node that it sends as; from nodes to the daemon.
    if (image_.comes_from_end(slot.from)) {
      return {.link = image_.port(image_.node(slot.at_node), 0).in, .lane = slot.lane};
    }
    return {.link = image_.to_end(0), .lane = slot.lane};
  }
  unsigned port_of_host(const NodeRecord& node, unsigned in, const Slot& slot) const {
    const std::uint16_t lid = node.lid.load(std::memory_order_relaxed);
    const unsigned path_bits = (1u << (node.lmc.load(std::memory_order_relaxed) & 7)) - 1;
    const bool is_own = lid != 0 && (slot.dlid & ~path_bits) == lid;
    if (slot.dlid == kPermissiveLid) return in == 0 ? kCablePort : 0;
    if (!is_own) return in == kCablePort ? kNoPort : kCablePort;
    if (slot.destination_qp <= 1) return 0;
    const std::uint8_t port =
        image_.host_tables(node)
            .ports_by_qpn[slot.destination_qp >> kQpnRangeBits & (kQpnRanges - 1)]
            .load(std::memory_order_relaxed);
    return port == 0 ? kNoPort : port;
  }

  const Image& image_;
};

}  // namespace verbatim::fabric
