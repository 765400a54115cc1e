#include "agent/netlink/node_facts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <rdma/ib_user_verbs.h>

#include "agent/management/rdma_cm_ports.h"
#include "agent/protocol/arena_header.h"
#include "agent/protocol/device_files.h"
#include "agent/protocol/device_numbers.h"
#include "arena/queue_pair_record.h"

namespace verbatim::agent::netlink {
namespace {

using arena::QueuePairRecord;
using region::RegionEntry;

constexpr std::uint8_t kNodeTypeCa = 1;
constexpr std::uint8_t kNodeTypeRnic = 4;

/// As `ibv_query_device` tells them (dropin/ibverbs/control/query.cpp); a test compares.
std::uint64_t device_capabilities(const Node& node) {
  constexpr std::uint64_t kOfAll =
      IB_UVERBS_DEVICE_CURR_QP_STATE_MOD | IB_UVERBS_DEVICE_SYS_IMAGE_GUID |
      IB_UVERBS_DEVICE_SRQ_RESIZE | IB_UVERBS_DEVICE_MEM_WINDOW |
      IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B | IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS;
  if (node.is_iwarp()) return kOfAll;
  constexpr std::uint64_t kOfPackets =
      kOfAll | IB_UVERBS_DEVICE_RC_RNR_NAK_GEN | IB_UVERBS_DEVICE_XRC;
  if (node.is_infiniband()) return kOfPackets | IB_UVERBS_DEVICE_AUTO_PATH_MIG;
  return kOfPackets | IB_UVERBS_DEVICE_RAW_MULTI | IB_UVERBS_DEVICE_RAW_IP_CSUM |
         IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING;
}

/// By the names of rdma_rxe's hw_counters, where it has them.
std::vector<CounterFact> counters(const PortTotals& totals) {
  return {{"sent_pkts", totals.packets_sent},
          {"rcvd_pkts", totals.packets_received},
          {"sent_bytes", totals.bytes_sent},
          {"rcvd_bytes", totals.bytes_received},
          {"rcvd_err", totals.receive_errors}};
}

PortFact ethernet_port(const Node& node) {
  constexpr std::uint8_t kDown = 1, kActive = 4, kDisabled = 3, kLinkUp = 5;
  const bool is_active = node.network.is_active;
  return {.number = 1,
          .capabilities = kEthernetPortCapabilities,
          .state = is_active ? kActive : kDown,
          .physical_state = is_active ? kLinkUp : kDisabled,
          .interface_index = node.interface_index,
          .interface = std::string(node.interface)};
}

PortFact infiniband_port(const arena::InfinibandPort& port, std::uint32_t number) {
  return {.number = number,
          .capabilities = port.capabilities,
          .state = port.state,
          .physical_state = port.physical_state,
          .subnet_prefix = port.gid_prefix,
          .lid = raw(port.lid),
          .sm_lid = raw(port.sm_lid),
          .lmc = port.lmc};
}

void add_queue_pairs(const Node& node, const ProgramEntry& program,
                     const arena::ArenaHeader& header, std::vector<QueuePairFact>& out) {
  // The record has no port: a device with several does not say which.
  const std::uint32_t port = node.network.infiniband.size() > 1 ? 0 : 1;
  for_each_object<QueuePairRecord>(
      program.arena_fd, header.queue_pairs.value, arena::kProgramQueuePairsMax,
      [&](const QueuePairRecord& record, std::size_t) {
        const std::uint32_t qpn = record.qpn.load(std::memory_order_relaxed);
        if (qpn == 0) return;
        const std::uint8_t state = record.state.load(std::memory_order_relaxed);
        const bool has_port = arena::QpState{state} != arena::QpState::reset;
        out.push_back({.id = qpn,
                       .port = has_port ? port : 0,
                       .pid = static_cast<std::uint32_t>(program.pid),
                       .destination = record.dest_qpn.load(std::memory_order_relaxed),
                       .type = record.type.load(std::memory_order_relaxed),
                       .state = state});
      });
}

void add_regions(const ProgramEntry& program, const arena::ArenaHeader& header,
                 std::vector<RegionFact>& out) {
  const std::uint32_t used = header.region_header.used.load(std::memory_order_relaxed);
  for_each_object<RegionEntry>(
      program.arena_fd, header.regions.value, std::min(used, arena::kRegionsMax),
      [&](const RegionEntry& entry, std::size_t index) {
        const std::uint32_t key = entry.key.load(std::memory_order_relaxed);
        if (key == 0 || entry.kind != region::EntryKind::region) return;
        out.push_back({.id = program.slot * arena::kRegionsMax + static_cast<std::uint32_t>(index),
                       .pid = static_cast<std::uint32_t>(program.pid),
                       .key = key,
                       .length = entry.region.length,
                       .domain = raw(entry.region.pd)});
      });
}

void add_identifiers(const ProgramEntry& program, std::vector<IdentifierFact>& out) {
  for (const PortBinding& binding : program.bindings) {
    out.push_back({.id = static_cast<std::uint32_t>(out.size()),
                   .port = is_wildcard(binding.address) ? 0u : 1u,
                   .pid = static_cast<std::uint32_t>(program.pid),
                   .port_space = raw(binding.port_space),
                   .listens = binding.listens,
                   .source = binding.address});
  }
}

}  // namespace

DeviceFact device_fact(const Node& node, const PortTotals& totals) {
  DeviceFact device{.index = kDeviceIndex,
                    .name = std::string(node.device),
                    .firmware = std::string(node.firmware),
                    .protocol = node.is_infiniband() ? "ib"
                                : node.is_iwarp()    ? "iw"
                                                     : "roce",
                    .capabilities = device_capabilities(node),
                    .guid = node.guid,
                    .node_type = node.is_iwarp() ? kNodeTypeRnic : kNodeTypeCa,
                    .is_infiniband = node.is_infiniband(),
                    .ports = {},
                    .character_device = std::string(kCharacterDeviceName),
                    .character_device_abi = kCharacterDeviceAbi,
                    .character_device_number = kCharacterDeviceMajor << 8 | kCharacterDeviceMinor};
  if (!node.is_infiniband()) device.ports.push_back(ethernet_port(node));
  for (const arena::InfinibandPort& port : node.network.infiniband) {
    const auto number = static_cast<std::uint32_t>(device.ports.size() + 1);
    device.ports.push_back(infiniband_port(port, number));
  }
  // Programs count all their packets as the first port's.
  if (!device.ports.empty()) device.ports.front().counters = counters(totals);
  return device;
}

ResourceFacts resource_facts(const Node& node, std::span<const ProgramEntry> programs) {
  ResourceFacts facts;
  for (const ProgramEntry& program : programs) {
    add_identifiers(program, facts.identifiers);
    const auto header = read_arena_header(program.arena_fd);
    if (header == nullptr) continue;
    facts.contexts.push_back({.id = program.slot, .pid = static_cast<std::uint32_t>(program.pid)});
    add_queue_pairs(node, program, *header, facts.queue_pairs);
    add_regions(program, *header, facts.regions);
  }
  return facts;
}

}  // namespace verbatim::agent::netlink
