#include "agent/netlink/encode.h"

#include <array>
#include <cstring>

#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

namespace verbatim::agent::netlink {
namespace {

// Values of `enum ibv_qp_type`, and of rdma_cm's states (which have no header).
constexpr std::uint8_t kRc = 2;
constexpr std::uint8_t kUc = 3;
constexpr std::uint8_t kXrcInitiator = 9;
constexpr std::uint8_t kXrcTarget = 10;
constexpr std::uint8_t kAddressBound = 7;
constexpr std::uint8_t kListening = 8;
constexpr std::uint8_t kMigrated = 0;

void put_port_and_pid(MessageWriter& out, std::uint32_t port, std::uint32_t pid) {
  if (port != 0) out.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, port);
  out.put_number(RDMA_NLDEV_ATTR_RES_PID, pid);
}

void put_address(MessageWriter& out, std::uint16_t type, const SocketAddress& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address.data(), address.size());
  out.put(type, std::as_bytes(std::span(&storage, 1)));
}

/// A table with an entry for each counter, which `put_rest` completes.
template <typename PutRest>
void put_counter_table(MessageWriter& out, const PortFact& port, PutRest put_rest) {
  const std::size_t table = out.begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  for (std::uint32_t i = 0; i < port.counters.size(); ++i) {
    const std::size_t entry = out.begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
    out.put_text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, port.counters[i].name);
    put_rest(i);
    out.end_nest(entry);
  }
  out.end_nest(table);
}

void put_port_handle(MessageWriter& out, const PortFact& port) {
  out.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, port.number);
}

}  // namespace

void put_handle(MessageWriter& out, const DeviceFact& device) {
  out.put_number(RDMA_NLDEV_ATTR_DEV_INDEX, device.index);
  out.put_text(RDMA_NLDEV_ATTR_DEV_NAME, device.name);
}

void put_device(MessageWriter& out, const DeviceFact& device) {
  put_handle(out, device);
  out.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, static_cast<std::uint32_t>(device.ports.size()));
  out.put_number(RDMA_NLDEV_ATTR_CAP_FLAGS, device.capabilities);
  if (!device.firmware.empty()) out.put_text(RDMA_NLDEV_ATTR_FW_VERSION, device.firmware);
  out.put_number(RDMA_NLDEV_ATTR_NODE_GUID, device.guid);
  out.put_number(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device.guid);
  out.put_number(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, device.node_type);
  out.put_number(RDMA_NLDEV_ATTR_DEV_DIM, std::uint8_t{0});
  out.put_text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, device.protocol);
}

void put_port(MessageWriter& out, const DeviceFact& device, const PortFact& port) {
  put_handle(out, device);
  put_port_handle(out, port);
  out.put_number(RDMA_NLDEV_ATTR_CAP_FLAGS, port.capabilities);
  if (device.is_infiniband) {
    out.put_number(RDMA_NLDEV_ATTR_SUBNET_PREFIX, port.subnet_prefix);
    out.put_number(RDMA_NLDEV_ATTR_LID, port.lid);
    out.put_number(RDMA_NLDEV_ATTR_SM_LID, port.sm_lid);
    out.put_number(RDMA_NLDEV_ATTR_LMC, port.lmc);
  }
  out.put_number(RDMA_NLDEV_ATTR_PORT_STATE, port.state);
  out.put_number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port.physical_state);
  if (device.is_infiniband) return;
  out.put_number(RDMA_NLDEV_ATTR_NDEV_INDEX, port.interface_index);
  out.put_text(RDMA_NLDEV_ATTR_NDEV_NAME, port.interface);
}

void put_counters(MessageWriter& out, const PortFact& port) {
  put_port_handle(out, port);
  put_counter_table(out, port, [&](std::uint32_t i) {
    out.put_number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, port.counters[i].value);
  });
}

void put_counter_names(MessageWriter& out, const PortFact& port) {
  put_port_handle(out, port);
  put_counter_table(
      out, port, [&](std::uint32_t i) { out.put_number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, i); });
}

void put_summary(MessageWriter& out, const ResourceFacts& resources) {
  const std::size_t table = out.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY);
  const auto put_kind = [&](const char* name, std::size_t count) {
    const std::size_t entry = out.begin_nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
    out.put_text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
    out.put_number(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, std::uint64_t{count});
    out.end_nest(entry);
  };
  put_kind("qp", resources.queue_pairs.size());
  put_kind("cm_id", resources.identifiers.size());
  put_kind("mr", resources.regions.size());
  put_kind("ctx", resources.contexts.size());
  out.end_nest(table);
}

void put(MessageWriter& out, const QueuePairFact& queue_pair, bool /*shows_keys*/) {
  const std::uint8_t type = queue_pair.type;
  out.put_number(RDMA_NLDEV_ATTR_RES_LQPN, queue_pair.id);
  if (type == kRc || type == kUc) {
    out.put_number(RDMA_NLDEV_ATTR_RES_RQPN, queue_pair.destination);
    out.put_number(RDMA_NLDEV_ATTR_RES_RQ_PSN, queue_pair.receive_psn);
  }
  out.put_number(RDMA_NLDEV_ATTR_RES_SQ_PSN, queue_pair.send_psn);
  if (type == kRc || type == kUc || type == kXrcInitiator || type == kXrcTarget) {
    out.put_number(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, kMigrated);
  }
  out.put_number(RDMA_NLDEV_ATTR_RES_TYPE, type);
  out.put_number(RDMA_NLDEV_ATTR_RES_STATE, queue_pair.state);
  put_port_and_pid(out, queue_pair.port, queue_pair.pid);
}

void put(MessageWriter& out, const IdentifierFact& identifier, bool /*shows_keys*/) {
  out.put_number(RDMA_NLDEV_ATTR_RES_PS, identifier.port_space);
  out.put_number(RDMA_NLDEV_ATTR_RES_STATE, identifier.listens ? kListening : kAddressBound);
  put_address(out, RDMA_NLDEV_ATTR_RES_SRC_ADDR, identifier.source);
  out.put_number(RDMA_NLDEV_ATTR_RES_CM_IDN, identifier.id);
  put_port_and_pid(out, identifier.port, identifier.pid);
}

void put(MessageWriter& out, const RegionFact& region, bool shows_keys) {
  if (shows_keys) {
    out.put_number(RDMA_NLDEV_ATTR_RES_RKEY, region.key);
    out.put_number(RDMA_NLDEV_ATTR_RES_LKEY, region.key);
  }
  out.put_number(RDMA_NLDEV_ATTR_RES_MRLEN, region.length);
  out.put_number(RDMA_NLDEV_ATTR_RES_MRN, region.id);
  out.put_number(RDMA_NLDEV_ATTR_RES_PDN, region.domain);
  put_port_and_pid(out, region.port, region.pid);
}

void put(MessageWriter& out, const ContextFact& context, bool /*shows_keys*/) {
  out.put_number(RDMA_NLDEV_ATTR_RES_CTXN, context.id);
  put_port_and_pid(out, context.port, context.pid);
}

}  // namespace verbatim::agent::netlink
