// The ports that DPDK's programs see: the uplink and the representors.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "offload/driver/device.h"
#include "offload/driver/queues.h"
#include "offload/driver/spread.h"

namespace verbatim::offload::driver {
namespace {

constexpr std::uint16_t kDepthMax = 512;  // Buffers in a ring to receive.
constexpr std::uint16_t kMtuMax = 9000;
constexpr std::uint32_t kPacketMax = kMtuMax + 14 + 2 * 4;

int ok(rte_eth_dev*) { return 0; }

vnic_command command_of(const Port& port, std::uint32_t operation) {
  vnic_command command{};
  command.operation = operation;
  command.rule.port = port.index;
  return command;
}

/// Has the card execute it. Returns 0 or a negative errno value. A card that has ended is told by
/// `Recovery` what must be told again, and its user starts its ports again.
int tell(const Port& port, const vnic_command& command) {
  const auto told = port.device->card()->execute(command);
  return told || told.error().code == ECONNRESET ? 0 : -told.error().code;
}

template <typename Do>
void each_queue(void** queues, std::uint16_t count, Do act) {
  for (std::uint16_t i = 0; i < count; ++i) {
    if (queues[i] != nullptr) act(*static_cast<Queue*>(queues[i]));
  }
}

int start(rte_eth_dev* ethdev) {
  const Port& port = port_of(ethdev);
  const auto card = port.device->card();
  if (auto registered = card->register_memory(); !registered && !card->has_ended()) {
    RTE_LOG(ERR, PMD, "%s: %s\n", ethdev->data->name, registered.error().text.c_str());
    return -registered.error().code;
  }
  each_queue(ethdev->data->rx_queues, ethdev->data->nb_rx_queues,
             [](Queue& queue) { receive_burst(&queue, nullptr, 0); });
  card->port(port.index).receive_queues = ethdev->data->nb_rx_queues;
  card->port(port.index).send_queues = ethdev->data->nb_tx_queues;
  give_spread(port, card->port(port.index));
  return tell(port, command_of(port, VNIC_START));
}

/// The rules stay: Open vSwitch stops a port to give it other queues, and keeps their handles.
int stop(rte_eth_dev* ethdev) {
  const Port& port = port_of(ethdev);
  const int stopped = tell(port, command_of(port, VNIC_STOP));
  // A card that has ended touches no buffer either.
  each_queue(ethdev->data->rx_queues, ethdev->data->nb_rx_queues, drain);
  each_queue(ethdev->data->tx_queues, ethdev->data->nb_tx_queues, drain);
  return stopped;
}

int info(rte_eth_dev* ethdev, rte_eth_dev_info* info) {
  const Port& port = port_of(ethdev);
  info->max_mac_addrs = 1;
  info->max_rx_pktlen = kPacketMax;
  info->max_rx_queues = info->max_tx_queues = VNIC_QUEUES_MAX;
  info->min_mtu = RTE_ETHER_MIN_MTU;
  info->max_mtu = kMtuMax;
  info->speed_capa = RTE_ETH_LINK_SPEED_100G;
  info->rx_offload_capa =
      RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
  tell_spread(*info);
  info->dev_capa |= RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP;
  info->switch_info.name = port.device->vdev->device.name;
  info->switch_info.domain_id = port.device->domain;
  info->switch_info.port_id = port.index;
  return 0;
}

/// `rings`: of which direction.
Queue* new_queue(rte_eth_dev* ethdev, vnic_ring (vnic_port::*rings)[VNIC_QUEUES_MAX],
                 std::uint16_t index) {
  auto* const queue = new Queue;
  queue->port = &port_of(ethdev);
  queue->card = queue->port->device->card();
  queue->ring = &(queue->card->port(queue->port->index).*rings)[index];
  queue->tail = acquire(queue->ring->done);
  release(queue->ring->posted, queue->tail);
  return queue;
}

int set_up_receive(rte_eth_dev* ethdev, std::uint16_t index, std::uint16_t descriptors, unsigned,
                   const rte_eth_rxconf*, rte_mempool* pool) {
  Queue* const queue = new_queue(ethdev, &vnic_port::receive, index);
  queue->pool = pool;
  queue->depth = std::min(descriptors, kDepthMax);
  ethdev->data->rx_queues[index] = queue;
  return 0;
}

int set_up_send(rte_eth_dev* ethdev, std::uint16_t index, std::uint16_t, unsigned,
                const rte_eth_txconf*) {
  ethdev->data->tx_queues[index] = new_queue(ethdev, &vnic_port::send, index);
  return 0;
}

void release_receive(rte_eth_dev* ethdev, std::uint16_t index) {
  delete static_cast<Queue*>(std::exchange(ethdev->data->rx_queues[index], nullptr));
}
void release_send(rte_eth_dev* ethdev, std::uint16_t index) {
  delete static_cast<Queue*>(std::exchange(ethdev->data->tx_queues[index], nullptr));
}

/// The queues end with the port: they hold its card.
int close(rte_eth_dev* ethdev) {
  for (std::uint16_t i = 0; i < ethdev->data->nb_rx_queues; ++i) release_receive(ethdev, i);
  for (std::uint16_t i = 0; i < ethdev->data->nb_tx_queues; ++i) release_send(ethdev, i);
  ethdev->data->mac_addrs = nullptr;  // Not from rte_malloc.
  port_of(ethdev).ethdev = nullptr;
  return 0;
}

int update_link(rte_eth_dev* ethdev, int) {
  const Port& port = port_of(ethdev);
  rte_eth_link link{};
  link.link_speed = RTE_ETH_SPEED_NUM_100G;
  link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
  link.link_autoneg = RTE_ETH_LINK_AUTONEG;
  link.link_status = relaxed(port.device->card()->port(port.index).link_is_up) != 0;
  return rte_eth_linkstatus_set(ethdev, &link);
}

int statistics(rte_eth_dev* ethdev, rte_eth_stats* stats) {
  const Port& port = port_of(ethdev);
  const vnic_port_counters counters = port.device->counters(port);
  stats->ipackets = counters.missed_packets;
  stats->ibytes = counters.missed_bytes;
  stats->opackets = counters.sent_packets;
  stats->obytes = counters.sent_bytes;
  stats->imissed = counters.no_buffer_dropped;
  stats->oerrors = counters.egress_dropped;
  std::size_t at = 0;
  each_queue(ethdev->data->rx_queues,
             std::min<std::uint16_t>(ethdev->data->nb_rx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS),
             [&](const Queue& queue) {
               stats->q_ipackets[at] = queue.packets;
               stats->q_ibytes[at++] = queue.bytes;
             });
  return 0;
}

/// Names that Open vSwitch shows: they end in _errors or _dropped, or contain _management_.
struct ExtraStatistic {
  const char* name;
  std::uint64_t (*read)(const Port& port);
};
std::uint64_t read(const Port& port, __u64 vnic_port_counters::* value) {
  return port.device->counters(port).*value;
}
constexpr ExtraStatistic kExtra[] = {
    {"offload_management_packets",
     [](const Port& port) { return read(port, &vnic_port_counters::offloaded_packets); }},
    {"offload_management_bytes",
     [](const Port& port) { return read(port, &vnic_port_counters::offloaded_bytes); }},
    {"rx_no_buffer_dropped",
     [](const Port& port) { return read(port, &vnic_port_counters::no_buffer_dropped); }},
    {"tx_function_dropped",
     [](const Port& port) { return read(port, &vnic_port_counters::egress_dropped); }},
    {"card_commands_refused_errors",
     [](const Port& port) { return port.device->card()->commands_refused(); }},
};

int extra_names(rte_eth_dev*, rte_eth_xstat_name* names, unsigned room) {
  if (names == nullptr) return std::size(kExtra);
  for (std::size_t i = 0; i < std::min<std::size_t>(room, std::size(kExtra)); ++i) {
    std::strncpy(names[i].name, kExtra[i].name, sizeof names[i].name - 1);
  }
  return std::size(kExtra);
}

int extra_statistics(rte_eth_dev* ethdev, rte_eth_xstat* values, unsigned room) {
  if (values == nullptr || room < std::size(kExtra)) return std::size(kExtra);
  for (std::size_t i = 0; i < std::size(kExtra); ++i) {
    values[i] = {.id = i, .value = kExtra[i].read(port_of(ethdev))};
  }
  return std::size(kExtra);
}

int set_mtu(rte_eth_dev*, std::uint16_t) { return 0; }
/// Of the function's interface (`dpdk-vf-mac`). DPDK also calls it at each start of a port.
int set_mac(rte_eth_dev* ethdev, rte_ether_addr* mac) {
  Port& port = port_of(ethdev);
  if (rte_is_same_ether_addr(mac, &port.mac_of_card) != 0) return 0;
  vnic_command command = command_of(port, VNIC_SET_MAC);
  std::memcpy(command.rule.actions[0].bytes, mac->addr_bytes, sizeof mac->addr_bytes);
  const int set = tell(port, command);
  const std::lock_guard lock(port.device->rules_lock);
  if (set == 0) {
    port.mac_of_card = *mac;
    port.has_own_mac = true;
  }
  return set;
}

int set_link(rte_eth_dev* ethdev, bool is_up) {
  Port& port = port_of(ethdev);
  vnic_command command = command_of(port, VNIC_SET_LINK);
  command.rule.actions[0].value = is_up ? 1 : 0;
  const int set = tell(port, command);
  const std::lock_guard lock(port.device->rules_lock);
  if (set == 0) port.is_down = !is_up;
  return set;
}
int set_link_up(rte_eth_dev* ethdev) { return set_link(ethdev, true); }
int set_link_down(rte_eth_dev* ethdev) { return set_link(ethdev, false); }

/// A name of functions in devargs. `vf`: of the first; kHostFunction is mlx5's number of the host's
/// physical one.
struct Representors {
  rte_eth_representor_type type;
  int controller;
  int vf;
  bool is_host_function;
};
constexpr int kHostFunction = 0xffff;
constexpr Representors kRepresentors[] = {
    {RTE_ETH_REPRESENTOR_VF, 0, 0, false},             // vf1, pf0vf1
    {RTE_ETH_REPRESENTOR_VF, 1, 0, false},             // c1pf0vf1: seen from a DPU
    {RTE_ETH_REPRESENTOR_PF, 1, 0, true},              // c1pf0
    {RTE_ETH_REPRESENTOR_VF, 0, kHostFunction, true},  // pf0vf65535
};

int representors(rte_eth_dev* ethdev, rte_eth_representor_info* info) {
  const Device& device = *port_of(ethdev).device;
  const std::uint32_t hosts = device.card()->is_dpu() ? 1 : 0;
  const auto functions = static_cast<std::uint32_t>(device.ports.size() - 1) - hosts;
  const std::uint32_t all = hosts != 0 ? std::size(kRepresentors) : 2;
  if (info == nullptr) return static_cast<int>(all);
  info->controller = 0;
  info->pf = 0;
  info->nb_ranges = std::min(all, info->nb_ranges_alloc);
  for (std::uint32_t i = 0; i < info->nb_ranges; ++i) {
    const Representors& known = kRepresentors[i];
    rte_eth_representor_range& range = info->ranges[i];
    range = {};
    range.type = known.type;
    range.controller = known.controller;
    if (known.type == RTE_ETH_REPRESENTOR_VF) range.vf = known.vf;
    range.id_base = known.is_host_function ? functions : 0;
    range.id_end = known.is_host_function ? functions : functions - 1;
    std::snprintf(range.name, sizeof range.name, "c%dpf0%s", known.controller,
                  known.type == RTE_ETH_REPRESENTOR_VF ? "vf" : "");
  }
  return static_cast<int>(all);
}

int flow_operations(rte_eth_dev*, const rte_flow_ops** operations) {
  *operations = &kFlowOperations;
  return 0;
}

int meter_operations(rte_eth_dev*, void* operations) {
  *static_cast<const rte_mtr_ops**>(operations) = &kMeterOperations;
  return 0;
}

eth_dev_ops make_operations() {
  eth_dev_ops ops{};
  ops.dev_configure = ok;
  ops.dev_start = start;
  ops.dev_stop = stop;
  ops.dev_close = close;
  ops.dev_reset = ok;  // Stopping and starting does it.
  ops.dev_infos_get = info;
  ops.rx_queue_setup = set_up_receive;
  ops.tx_queue_setup = set_up_send;
  ops.rx_queue_release = release_receive;
  ops.tx_queue_release = release_send;
  ops.link_update = update_link;
  ops.stats_get = statistics;
  ops.xstats_get = extra_statistics;
  ops.xstats_get_names = extra_names;
  ops.promiscuous_enable = ops.promiscuous_disable = ok;
  ops.allmulticast_enable = ops.allmulticast_disable = ok;
  ops.mtu_set = set_mtu;
  ops.mac_addr_set = set_mac;
  ops.dev_set_link_up = set_link_up;
  ops.dev_set_link_down = set_link_down;
  ops.representor_info_get = representors;
  ops.flow_ops_get = flow_operations;
  ops.mtr_ops_get = meter_operations;
  add_spread_operations(ops);
  return ops;
}

}  // namespace

const eth_dev_ops kPortOperations = make_operations();

}  // namespace verbatim::offload::driver
