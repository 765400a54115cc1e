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

/// Description of a node, as its agent sends it to programs and commands.
namespace verbatim::agent {

/// Queue pair numbers consist of a SLOT (10 bits) and a number within the program (14 bits):
/// packets are steered to the program by slot. Slot 0 belongs to the agent (QP0, QP1).
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

/// An address and port that an rdma_cm_id has bound.
struct PortBinding {
  std::uint64_t handle = 0;  // Chosen by the program.
  PortSpace port_space{};
  SocketAddress address;         // Of the node, or a wildcard; port 0: any free one.
  bool reuses_address = false;   // RDMA_OPTION_ID_REUSEADDR.
  bool own_family_only = false;  // RDMA_OPTION_ID_AFONLY: [::] does not include 0.0.0.0.
  bool listens = false;
};

/// The descriptors by which others access a program: its agent reads counters in the arena; peers
/// on the direct path map the arena and the memory file, and write the doorbell.
struct SharedFiles {
  int arena = -1;     // A memfd; -1: none.
  int memory = -1;    // A memfd; -1: peers use the wire, as without a doorbell.
  int doorbell = -1;  // An eventfd that wakes the program's background thread.
};

inline constexpr std::size_t kGidsMax = kAddressesMax + 1;

/// An entry of the GID table, with its address's RoCE version.
struct GidEntry {
  Gid gid;
  /// Index of the node's address (and of a program's socket) from which packets with this GID are
  /// sent.
  std::uint32_t address = 0;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// State of the node's port: its interface and addresses.
struct PortState {
  /// The interface exists. Once removed it is gone for the node, because a new interface of that
  /// name is another one.
  bool is_present = true;
  /// The interface is up and has at least one of the node's addresses.
  bool is_active = true;
  std::uint32_t addresses = ~0u;  // Bit i: some interface has `addresses[i]`.
  MacAddress hardware_address{};  // The interface's MAC, whatever the node's is.
  std::uint32_t interface_mtu_bytes = 0;

  bool has(std::uint32_t address) const { return (addresses >> address & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

struct NodeDescription {
  std::string name;
  /// EUI-64 of the MAC, in host order.
  std::uint64_t guid = 0;
  MacAddress mac{};
  /// The interface with the addresses: "lo", "eth0".
  std::string interface;
  std::uint32_t interface_index = 0;  // Scope id of link-local addresses.
  /// Each with port 4791, or with none for RoCE v1. A program has one socket for each, in this
  /// order.
  std::vector<SocketAddress> addresses;
  /// As in Linux: index 0 is the link-local GID, 1 the first IPv4 address, then the others.
  std::vector<GidEntry> gids;
  WireProtocol protocol = WireProtocol::roce;
  std::string device{config::kKernelName};  // Its name for programs: "verbatim0", "mlx5_0".
  std::string profile{config::kDefaultProfile};
  std::string firmware;
  config::DeviceLimits limits = config::kVerbatimLimits;
  bool enforces_memlock = false;
  pid_t agent_pid = 0;
  /// Changes while the node runs. Addresses and GIDs are only added, at the end; those that no
  /// interface has are marked here, so that each keeps its index.
  PortState port;

  bool has_room() const { return addresses.size() < kAddressesMax && gids.size() < kGidsMax; }
  void add(const SocketAddress& address);
  const SocketAddress& address_of(const GidEntry& entry) const { return addresses[entry.address]; }
};

/// Returns the largest path MTU whose packets fit the interface's MTU. RoCE v2 headers are counted
/// as in Linux (IPv6, UDP, BTH, the largest extension header, and ICRC).
Mtu active_mtu(std::uint32_t interface_mtu_bytes);
/// The same, limited to the device's MTU.
Mtu active_mtu(const NodeDescription& node);

}  // namespace verbatim::agent
