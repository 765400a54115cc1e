#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

// DPDK's headers for drivers, which libdpdk-dev lacks: dev/dpdk-headers.sh brings them.
#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_flow_driver.h>
#include <rte_mtr_driver.h>

#include "offload/driver/book/ageing.h"
#include "offload/driver/book/meter_book.h"
#include "offload/driver/book/rule_book.h"
#include "offload/driver/connection.h"

/// An action that rules of a port share (rte_flow's "indirect action"), as DPDK's programs hold it:
/// one of a counter, a meter and an age.
struct rte_flow_action_handle {
  verbatim::offload::driver::HeldCounter* counter = nullptr;
  verbatim::offload::driver::HeldMeter* meter = nullptr;
  verbatim::offload::driver::Age* age = nullptr;
  std::uint32_t users = 0;  // Rules that name it.
};

/// A rule, as DPDK's programs hold it.
struct rte_flow : verbatim::offload::driver::HeldRule {
  std::vector<rte_flow_action_handle*> shared;  // What it names.
};

namespace verbatim::offload::driver {

class Device;

struct Port {
  Device* device = nullptr;
  std::atomic<rte_eth_dev*> ethdev = nullptr;  // Null: its user has closed it.
  std::uint16_t index = 0;                     // In the card; 0: the uplink.
  std::uint16_t id = 0;                        // In DPDK.
  rte_ether_addr mac{};                        // DPDK writes it.
  rte_ether_addr mac_of_card{};
  // What another card must be told.
  bool has_own_mac = false;
  bool is_down = false;
  bool has_spread = false;  // `spread` was written by the port's user.
  std::array<__u8, VNIC_SPREAD> spread{};
  vnic_port_counters carried{};  // Of cards that have ended.
  // What DPDK's programs have made here, by their numbers. Under the device's `rules_lock`.
  std::map<std::uint32_t, vnic_meter> meter_profiles;
  std::map<std::uint32_t, std::uint8_t> meter_policies;  // Which colors are dropped.
  std::map<std::uint32_t, HeldMeter*> meters;
  std::map<const void*, std::unique_ptr<rte_flow_action_handle>> shared_actions;  // By handle.
  Ageing ageing;

  /// Null: there is no such handle.
  rte_flow_action_handle* shared_action(const void* handle) const {
    const auto found = shared_actions.find(handle);
    return found == shared_actions.end() ? nullptr : found->second.get();
  }
};

/// A tunnel of which rte_flow_tunnel_decap_set or rte_flow_tunnel_match was told. Its frames meet
/// the rules of a group of its own.
struct Tunnel {
  rte_flow_tunnel said;
  std::uint16_t group;
};

/// One card and the ports of DPDK that it has: the uplink and a representor for each function.
class Device {
 public:
  Device(rte_vdev_device* of, std::shared_ptr<Connection> card, unsigned delay_ms)
      : vdev(of),
        insert_delay_ms(delay_ms),
        rules(card->rules_max(), card->ports()),
        card_(std::move(card)) {}

  /// The card that the device has now. It may have ended: another one takes its place.
  std::shared_ptr<Connection> card() const {
    const std::shared_lock lock(card_lock_);
    return card_;
  }
  /// What a counter has counted. Any thread; one at a time of a counter.
  vnic_counter read(HeldCounter& counter, bool reset) const {
    const std::shared_lock lock(card_lock_);
    return RuleBook::read(*card_, counter, reset);
  }
  vnic_port_counters counters(const Port& port) const;
  /// Gives all rules to another card in the place of the one that has ended. Returns their number.
  Result<std::size_t> change_card(std::shared_ptr<Connection> card);

  rte_vdev_device* const vdev;
  std::vector<std::unique_ptr<Port>> ports;
  std::uint16_t domain = 0;        // Of the switch.
  const unsigned insert_delay_ms;  // To see what a slow card does.
  std::mutex rules_lock;           // Also of what another card must be told.
  RuleBook rules;
  MeterBook meters;
  std::vector<std::unique_ptr<Tunnel>> tunnels;  // They stay: rules may outlive what names them.
  bool looks_for_age = false;                    // An alarm is set.

 private:
  void carry_counters(const Connection& ended);

  mutable std::shared_mutex card_lock_;  // Taken after `rules_lock`.
  std::shared_ptr<Connection> card_;
};

inline Port& port_of(const rte_eth_dev* device) {
  return **static_cast<Port**>(device->data->dev_private);
}

/// The functions of ports, of rules and of meters.
extern const eth_dev_ops kPortOperations;
extern const rte_flow_ops kFlowOperations;
extern const rte_mtr_ops kMeterOperations;

}  // namespace verbatim::offload::driver
