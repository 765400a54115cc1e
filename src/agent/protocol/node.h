#pragma once

#include <cstdint>

#include "arena/node.h"
#include "base/net/address.h"
#include "base/types.h"
#include "config/addresses.h"
#include "config/roce_versions.h"
#include "config/wire_protocol.h"
#include "wire/mad/rdma_ip_header.h"

/// What agents and programs both know of a node (arena/node.h), its slots and its ports.
namespace verbatim::agent {

/// Queue pair numbers consist of a SLOT (10 bits) and a number within the program (14 bits):
/// packets are steered to the program by slot. Slot 0 belongs to the agent (QP0, QP1).
inline constexpr unsigned kLocalQpnBits = 14;
inline constexpr std::uint32_t kSlotsMax = 1u << (24 - kLocalQpnBits);

constexpr std::uint32_t slot_of(Qpn qpn) { return qpn.value() >> kLocalQpnBits; }
constexpr Qpn qpn_of(std::uint32_t slot, std::uint32_t local_number) {
  return Qpn(slot << kLocalQpnBits | (local_number & ((1u << kLocalQpnBits) - 1)));
}

using arena::active_mtu;
using arena::GidEntry;
using arena::NetworkState;
using arena::Node;
using config::kAddressesMax;
using config::of_version;
using config::RoceVersions;
using config::versions_of;
using config::WireProtocol;
using wire::kMadBytes;

using wire::PortSpace;
using wire::ServiceId;
using wire::ServiceRange;

/// What an rdma_cm_id has bound: an address, and a port or services.
struct PortBinding {
  std::uint64_t handle = 0;      // Chosen by the program.
  PortSpace port_space{};        // The id's.
  ServiceRange services;         // AF_IB: those that are no port; the address has no port then.
  SocketAddress address;         // Of the node, or a wildcard; port 0: any free one.
  bool reuses_address = false;   // RDMA_OPTION_ID_REUSEADDR.
  bool own_family_only = false;  // RDMA_OPTION_ID_AFONLY: [::] does not include 0.0.0.0.
  bool listens = false;

  /// Those of its port, unless it has others.
  ServiceRange all_services() const {
    if (!services.empty()) return services;
    return ServiceRange::of(wire::service_id_of(port_space, address.port()));
  }
};

/// The descriptors by which others access a program: its agent reads counters in the arena; peers
/// on the direct path map the arena and the memory file, and write the doorbell.
struct SharedFiles {
  int arena = -1;     // A memfd; -1: none.
  int memory = -1;    // A memfd; -1: peers use the wire, as without a doorbell.
  int doorbell = -1;  // An eventfd that wakes the program's background thread.
};

}  // namespace verbatim::agent
