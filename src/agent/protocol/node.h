#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/net/address.h"
#include "base/types.h"
#include "config/addresses.h"
#include "config/device.h"
#include "config/device_name.h"
#include "config/roce_versions.h"
#include "config/wire_protocol.h"
#include "wire/mad/rdma_ip_header.h"

/// What a node is, as its agent tells it to programs and commands.
namespace verbatim::agent {

/// Queue pair numbers are SLOT (10 bits) and a number within the program (14 bits): the slot steers
/// packets to the program. Slot 0 is the agent's own (QP0, QP1).
inline constexpr unsigned kLocalQpnBits = 14;
inline constexpr std::uint32_t kSlotsMax = 1u << (24 - kLocalQpnBits);

constexpr std::uint32_t slot_of(Qpn qpn) { return qpn.value() >> kLocalQpnBits; }
constexpr Qpn qpn_of(std::uint32_t slot, std::uint32_t local_number) {
  return Qpn(slot << kLocalQpnBits | (local_number & ((1u << kLocalQpnBits) - 1)));
}

using config::kAddressesMax;
using config::of_version;
using config::RoceVersions;
using config::versions_of;
using config::WireProtocol;
using wire::kMadBytes;

using wire::PortSpace;

/// An address with a port that an rdma_cm_id has to itself.
struct PortBinding {
  std::uint64_t handle = 0;  // The program's own name for it.
  PortSpace port_space{};
  SocketAddress address;         // Of the node, or a wildcard; port 0: any that is free.
  bool reuses_address = false;   // RDMA_OPTION_ID_REUSEADDR.
  bool own_family_only = false;  // RDMA_OPTION_ID_AFONLY: [::] is not 0.0.0.0, too.
  bool listens = false;
};

/// The descriptors by which others reach into a program: its agent reads counters from the arena;
/// peers that use the direct path map the arena and the memory file, and ring the doorbell.
struct SharedFiles {
  int arena = -1;     // A memfd; -1: none.
  int memory = -1;    // A memfd; -1: peers use the wire, as where there is no doorbell.
  int doorbell = -1;  // An eventfd.
};

inline constexpr std::size_t kGidsMax = kAddressesMax + 1;

/// One entry of the GID table, of its address's RoCE version.
struct GidEntry {
  Gid gid;
  /// Which of the node's addresses (and of a program's sockets) packets from this GID leave by.
  std::uint32_t address = 0;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// How the network stands to the node at the moment.
struct PortState {
  /// The interface exists. Once gone it does not come back for the node, for the kernel's next one
  /// of that name is another.
  bool is_present = true;
  /// The interface runs and has at least one of the node's addresses.
  bool is_active = true;
  std::uint32_t addresses = ~0u;  // Bit i: some interface has `addresses[i]`.
  MacAddress hardware_address{};  // The interface's own, whatever the node is known by.
  std::uint32_t interface_mtu_bytes = 0;

  bool has(std::uint32_t address) const { return (addresses >> address & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

struct NodeDescription {
  std::string name;
  /// EUI-64 of the MAC, in host order.
  std::uint64_t guid = 0;
  MacAddress mac{};
  /// The interface that the addresses belong to: "lo", "eth0".
  std::string interface;
  std::uint32_t interface_index = 0;  // Scope id of link-local addresses.
  /// Each with port 4791, or without one: RoCE v1. A program has one socket for each, in this
  /// order.
  std::vector<SocketAddress> addresses;
  /// As Linux lays it out: index 0 the link-local GID, 1 the first IPv4 address, then the others.
  std::vector<GidEntry> gids;
  WireProtocol protocol = WireProtocol::roce;
  std::string device{config::kKernelName};  // What programs know it by: "verbatim0", "mlx5_0".
  std::string profile{config::kDefaultProfile};
  std::string firmware;
  config::DeviceLimits limits = config::kVerbatimLimits;
  bool enforces_memlock = false;
  pid_t agent_pid = 0;
  /// This changes while the node lives. Addresses and GIDs are only added, at the end: those that
  /// no interface has are marked here, so that each finds its index again.
  PortState port;

  bool has_room() const { return addresses.size() < kAddressesMax && gids.size() < kGidsMax; }
  void add(const SocketAddress& address);
  const SocketAddress& address_of(const GidEntry& entry) const { return addresses[entry.address]; }
};

/// The largest path MTU whose packets fit the interface: RoCE v2 headers are reckoned as Linux does
/// (IPv6, UDP, BTH, the largest extension header, and ICRC).
Mtu active_mtu(std::uint32_t interface_mtu_bytes);
/// The same, and no more than the device has.
Mtu active_mtu(const NodeDescription& node);

}  // namespace verbatim::agent
