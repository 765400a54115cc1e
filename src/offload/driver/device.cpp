#include "offload/driver/device.h"

#include <cstring>

namespace verbatim::offload::driver {
namespace {

constexpr __u64 vnic_port_counters::* kCounters[] = {
    &vnic_port_counters::missed_packets,    &vnic_port_counters::missed_bytes,
    &vnic_port_counters::sent_packets,      &vnic_port_counters::sent_bytes,
    &vnic_port_counters::offloaded_packets, &vnic_port_counters::offloaded_bytes,
    &vnic_port_counters::no_buffer_dropped, &vnic_port_counters::egress_dropped};
static_assert(sizeof kCounters / sizeof kCounters[0] * sizeof(__u64) == sizeof(vnic_port_counters));

/// What a new card does not know of a port.
void repeat_settings(Port& port, Connection& card) {
  vnic_command command{};
  command.rule.port = port.index;
  if (port.has_own_mac) {
    command.operation = VNIC_SET_MAC;
    std::memcpy(command.rule.actions[0].bytes, port.mac_of_card.addr_bytes, RTE_ETHER_ADDR_LEN);
    static_cast<void>(card.post(command));
  } else {
    port.mac_of_card = port.mac;  // The interface's own one stays.
  }
  if (port.is_down) {
    command.operation = VNIC_SET_LINK;
    command.rule.actions[0].value = 0;
    static_cast<void>(card.post(command));
  }
}

}  // namespace

vnic_port_counters Device::counters(const Port& port) const {
  const std::shared_lock lock(card_lock_);
  vnic_port_counters sum = port.carried;
  const vnic_port_counters& now = card_->port(port.index).counters;
  for (const auto counter : kCounters) sum.*counter += relaxed(now.*counter);
  return sum;
}

void Device::carry_counters(const Connection& ended) {
  for (const auto& port : ports) {
    const vnic_port_counters& last = ended.port(port->index).counters;
    for (const auto counter : kCounters) port->carried.*counter += relaxed(last.*counter);
  }
}

Result<std::size_t> Device::change_card(std::shared_ptr<Connection> card) {
  const std::lock_guard holds_rules(rules_lock);
  {
    const std::lock_guard lock(card_lock_);
    rules.change(*card_, *card);
    meters.change(*card_, *card);
    carry_counters(*card_);
    card_ = card;
  }
  for (const auto& port : ports) repeat_settings(*port, *card);
  meters.replay(*card);
  return rules.replay(*card);
}

}  // namespace verbatim::offload::driver
