#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

// DPDK's headers for drivers, which libdpdk-dev lacks: dev/dpdk-headers.sh brings them.
#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>

#include "offload/driver/connection.h"
#include "offload/driver/rule_ids.h"

/// A rule, as DPDK's programs hold it.
struct rte_flow {
  std::uint32_t id = 0;
  std::uint16_t port = 0;
  verbatim::offload::driver::Connection* card = nullptr;
  vnic_counter base{};  // What was counted until the last query with reset.
  rte_flow* next = nullptr;
  rte_flow* previous = nullptr;
};

namespace verbatim::offload::driver {

struct Device;

struct Port {
  Device* device = nullptr;
  rte_eth_dev* ethdev = nullptr;  // Null: its user has closed it.
  std::uint16_t index = 0;  // In the card; 0: the uplink.
  std::uint16_t id = 0;     // In DPDK.
  rte_ether_addr mac{};     // DPDK writes it.
  rte_ether_addr mac_of_card{};
  rte_flow* flows = nullptr;  // A list.
};

/// One card and the ports of DPDK that it has: the uplink and a representor for each function.
struct Device {
  rte_vdev_device* vdev = nullptr;
  std::unique_ptr<Connection> card;
  std::vector<std::unique_ptr<Port>> ports;
  std::uint16_t domain = 0;      // Of the switch.
  unsigned insert_delay_ms = 0;  // To see what a slow card does.
  std::mutex lock;               // Of ids and of the ports' lists of rules.
  RuleIds ids;
};

inline Port& port_of(const rte_eth_dev* device) {
  return **static_cast<Port**>(device->data->dev_private);
}

/// The functions of ports and of rules.
extern const eth_dev_ops kPortOperations;
extern const rte_flow_ops kFlowOperations;

}  // namespace verbatim::offload::driver
