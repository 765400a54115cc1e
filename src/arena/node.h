#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include <sys/types.h>

#include "arena/infiniband_port.h"
#include "base/error.h"
#include "base/inplace_text.h"
#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/types.h"
#include "config/addresses.h"
#include "config/device.h"
#include "config/device_name.h"
#include "config/roce_versions.h"
#include "config/wire_protocol.h"

/// What a node is: one value, as its agent tells it to programs and commands and keeps it for the
/// next agent, and as a program's adapter has it.
namespace verbatim::arena {

using config::kAddressesMax;
inline constexpr std::size_t kNodeGidsMax = kAddressesMax + 1;

/// One entry of the GID table, of its address's RoCE version. Packets from this GID leave by the
/// address.
struct GidEntry {
  Gid gid;
  SocketAddress address;  // `port` is 4791, or 0 (RoceVersion).
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

/// How the network stands to the node at the moment.
struct NetworkState {
  /// The interface exists. Once gone it does not come back for the node, for the kernel's next one
  /// of that name is another.
  bool is_present = true;
  /// The interface runs and has at least one of the node's addresses. Of a host of a fabric: a port
  /// is active.
  bool is_active = true;
  std::uint32_t addresses = ~0u;  // Bit i: some interface has `addresses[i]`.
  MacAddress hardware_address{};  // The interface's own, whatever the node is known by.
  std::uint32_t interface_mtu_bytes = 0;
  /// Of a host of a fabric, port 1 first: as their subnet managers have set them.
  InplaceVector<InfinibandPort, kInfinibandPortsMax> infiniband{};

  bool has(std::size_t address) const { return (addresses >> address & 1) != 0; }
  friend bool operator==(const NetworkState&, const NetworkState&) = default;
};

struct Node {
  InplaceText<63> name{};
  /// EUI-64 of the MAC, in host order.
  std::uint64_t guid = 0;
  MacAddress mac{};
  /// The interface that the addresses belong to: "lo", "eth0".
  InplaceText<15> interface{};
  std::uint32_t interface_index = 0;  // Scope id of link-local addresses.
  /// Each with port 4791, or without one: RoCE v1. A program has one socket for each, in this
  /// order.
  InplaceVector<SocketAddress, kAddressesMax> addresses{};
  /// As Linux lays it out: index 0 the link-local GID, 1 the first IPv4 address, then the others.
  InplaceVector<GidEntry, kNodeGidsMax> gids{};
  config::WireProtocol protocol = config::WireProtocol::roce;
  /// What programs know it by: "verbatim0", "mlx5_0".
  InplaceText<config::kDeviceNameMax> device = config::kKernelName;
  InplaceText<31> profile = config::kDefaultProfile;
  InplaceText<config::kFirmwareMax> firmware{};
  config::DeviceLimits limits = config::kVerbatimLimits;
  bool enforces_memlock = false;
  /// Protocol `infiniband`: which host of which fabric it is, and which run of the fabric. Its one
  /// address is what programs name it by; nothing is bound to it.
  InplaceText<63> fabric{};
  InplaceText<64> host{};
  std::uint64_t fabric_id = 0;
  /// The function of a card that is the node's interface, as `SOCKET/vf2`; empty: the kernel's.
  /// Then nothing is bound to the addresses.
  InplaceText<127> function{};
  pid_t agent_pid = 0;
  /// This changes while the node lives. Addresses and GIDs are only added, at the end: those that
  /// no interface has are marked here, so that each finds its index again.
  NetworkState network{};

  /// RC queue pairs alone, which only streams connect.
  bool is_iwarp() const { return protocol == config::WireProtocol::iwarp; }
  bool is_infiniband() const { return protocol == config::WireProtocol::infiniband; }
  /// Sockets that each program has: one for each address, and none on a fabric or a function.
  std::size_t socket_count() const { return has_sockets() ? addresses.size() : 0; }
  bool has_sockets() const { return !is_infiniband() && !has_function(); }
  bool has_function() const { return !function.empty(); }
  /// That the communication manager uses.
  RoceVersion connection_version() const { return roce_version(addresses.front()); }
  bool has_room() const { return !addresses.full() && !gids.full(); }
  void add(const SocketAddress& address);
  /// Which of the addresses, with the port; their number if none is it.
  std::size_t index_of(const SocketAddress& address) const;
  /// Some interface has the entry's address now.
  bool is_valid(const GidEntry& entry) const { return network.has(index_of(entry.address)); }
};
static_assert(std::is_trivially_copyable_v<Node> && std::is_standard_layout_v<Node>);

/// A node that another process sent. EPROTO if counts are out of range or an address is none.
Result<Node> checked(const Node& node);

/// The largest path MTU whose packets fit the interface: RoCE v2 headers are reckoned as Linux does
/// (IPv6, UDP, BTH, the largest extension header, and ICRC).
Mtu active_mtu(std::uint32_t interface_mtu_bytes);
/// As the port's fabric has it.
Mtu active_mtu(const InfinibandPort& port);
/// Of the node's first port, and no more than the device has.
Mtu active_mtu(const Node& node);

}  // namespace verbatim::arena
