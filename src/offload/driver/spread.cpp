#include "offload/driver/spread.h"

namespace verbatim::offload::driver {
namespace {

constexpr std::uint64_t kKinds =
    RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;

bool is_chosen(const rte_eth_rss_reta_entry64* groups, std::uint16_t i) {
  return (groups[i / RTE_ETH_RETA_GROUP_SIZE].mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1) != 0;
}

/// A port that has started is told at once: starting it again changes nothing else.
int update(rte_eth_dev* ethdev, rte_eth_rss_reta_entry64* groups, std::uint16_t size) {
  Port& port = port_of(ethdev);
  if (size != VNIC_SPREAD || ethdev->data->nb_rx_queues == 0) return -EINVAL;
  for (std::uint16_t i = 0; i < size; ++i) {
    const std::uint16_t queue =
        groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
    if (is_chosen(groups, i) && queue >= ethdev->data->nb_rx_queues) return -EINVAL;
  }
  for (std::uint16_t i = 0; i < size; ++i) {
    // What is not said stays as it was: by the number of queues at first.
    if (!port.has_spread) port.spread[i] = i % ethdev->data->nb_rx_queues;
    if (!is_chosen(groups, i)) continue;
    port.spread[i] = static_cast<std::uint8_t>(
        groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE]);
  }
  port.has_spread = true;
  if (ethdev->data->dev_started == 0) return 0;
  const auto card = port.device->card();
  give_spread(port, card->port(port.index));
  vnic_command command{};
  command.operation = VNIC_START;
  command.rule.port = port.index;
  return card->post(command) ? 0 : -ECONNRESET;
}

int query(rte_eth_dev* ethdev, rte_eth_rss_reta_entry64* groups, std::uint16_t size) {
  const Port& port = port_of(ethdev);
  const std::uint16_t queues = std::max<std::uint16_t>(ethdev->data->nb_rx_queues, 1);
  if (size != VNIC_SPREAD) return -EINVAL;
  for (std::uint16_t i = 0; i < size; ++i) {
    if (!is_chosen(groups, i)) continue;
    groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] =
        port.has_spread ? port.spread[i] : i % queues;
  }
  return 0;
}

/// The hash is of addresses, protocol and ports always, by a key that no driver knows.
int update_hash(rte_eth_dev*, rte_eth_rss_conf* wanted) {
  return wanted->rss_key != nullptr || (wanted->rss_hf & ~kKinds) != 0 ? -ENOTSUP : 0;
}

int query_hash(rte_eth_dev*, rte_eth_rss_conf* answer) {
  answer->rss_hf = kKinds;
  answer->rss_key_len = 0;
  return 0;
}

}  // namespace

void add_spread_operations(eth_dev_ops& operations) {
  operations.reta_update = update;
  operations.reta_query = query;
  operations.rss_hash_update = update_hash;
  operations.rss_hash_conf_get = query_hash;
}

void tell_spread(rte_eth_dev_info& info) {
  info.flow_type_rss_offloads = kKinds;
  info.reta_size = VNIC_SPREAD;
}

void give_spread(const Port& port, vnic_port& shared) {
  for (std::size_t i = 0; i < port.spread.size(); ++i) release(shared.spread[i], port.spread[i]);
  release(shared.has_spread, port.has_spread ? 1u : 0u);
}

}  // namespace verbatim::offload::driver
