#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/net/address.h"

/// What the kernel's RDMA netlink would tell of a device, as plain values.
namespace verbatim::agent::netlink {

struct CounterFact {
  std::string name;
  std::uint64_t value = 0;
};

struct PortFact {
  std::uint32_t number = 0;
  std::uint64_t capabilities = 0;
  std::uint8_t state = 0;  // As `enum ibv_port_state`.
  std::uint8_t physical_state = 0;
  // InfiniBand.
  std::uint64_t subnet_prefix = 0;
  std::uint32_t lid = 0;
  std::uint32_t sm_lid = 0;
  std::uint8_t lmc = 0;
  // RoCE and iWARP.
  std::uint32_t interface_index = 0;
  std::string interface{};
  std::vector<CounterFact> counters{};
};

struct DeviceFact {
  std::uint32_t index = 0;
  std::string name;
  std::string firmware;  // Empty: none.
  std::string protocol;  // "ib", "roce" or "iw".
  std::uint64_t capabilities = 0;
  std::uint64_t guid = 0;
  std::uint8_t node_type = 0;
  bool is_infiniband = false;
  std::vector<PortFact> ports;  // Number 1 first.
  std::string character_device;
  std::uint32_t character_device_abi = 0;
  std::uint64_t character_device_number = 0;
};

// Resources. `id`: unique among those of its kind on the device. `port` 0: of no port. `pid`: who
// has it; 0: in another process namespace.

struct ContextFact {
  std::uint32_t id = 0;
  std::uint32_t port = 0;
  std::uint32_t pid = 0;
};

struct RegionFact {
  std::uint32_t id = 0;
  std::uint32_t port = 0;
  std::uint32_t pid = 0;
  std::uint32_t key = 0;
  std::uint64_t length = 0;
  std::uint32_t domain = 0;
};

struct QueuePairFact {
  std::uint32_t id = 0;  // Its number.
  std::uint32_t port = 0;
  std::uint32_t pid = 0;
  std::uint32_t destination = 0;  // Queue pair number.
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 0;
  std::uint32_t domain = 0;
  std::uint8_t type = 0;   // As `enum ibv_qp_type`.
  std::uint8_t state = 0;  // As `enum ibv_qp_state`.
};

/// Of rdma_cm.
struct IdentifierFact {
  std::uint32_t id = 0;
  std::uint32_t port = 0;
  std::uint32_t pid = 0;
  std::uint32_t port_space = 0;  // As `enum rdma_port_space`.
  bool listens = false;
  SocketAddress source;
};

struct ResourceFacts {
  std::vector<QueuePairFact> queue_pairs;
  std::vector<IdentifierFact> identifiers;
  std::vector<RegionFact> regions;
  std::vector<ContextFact> contexts;
};

/// What an answer is made from. The resources are collected only where a request asks for them.
struct RdmaFacts {
  DeviceFact device;
  std::function<ResourceFacts()> resources;
};

}  // namespace verbatim::agent::netlink
