#include "offload/driver/age_alarm.h"

#include <vector>

#include <rte_alarm.h>

namespace verbatim::offload::driver {
namespace {

constexpr std::uint64_t kMicroseconds = 500'000;

/// In DPDK's thread of interrupts. Programs are told without the lock: they may delete rules.
void look(void* of) {
  Device& device = *static_cast<Device*>(of);
  std::vector<rte_eth_dev*> told;
  {
    const std::lock_guard lock(device.rules_lock);
    const auto card = device.card();
    device.looks_for_age = false;
    bool are_left = false;
    for (const auto& port : device.ports) {
      const bool has_aged = port->ageing.look(
          monotonic_now(), [&](std::uint32_t rule) { return card->counter(rule).packets; });
      are_left |= !port->ageing.empty();
      rte_eth_dev* const ethdev = port->ethdev;
      if (has_aged && ethdev != nullptr) told.push_back(ethdev);
    }
    if (are_left) look_for_age(device);
  }
  for (rte_eth_dev* const ethdev : told) {
    rte_eth_dev_callback_process(ethdev, RTE_ETH_EVENT_FLOW_AGED, nullptr);
  }
}

}  // namespace

rte_flow_query_age answer_of(const Age& age) {
  rte_flow_query_age answer{};
  answer.aged = age.is_aged;
  answer.sec_since_last_hit_valid = 1;
  answer.sec_since_last_hit =
      static_cast<std::uint32_t>((monotonic_now() - age.last_hit) / kSecond) & 0xffffff;
  return answer;
}

void look_for_age(Device& device) {
  if (device.looks_for_age) return;
  device.looks_for_age = rte_eal_alarm_set(kMicroseconds, look, &device) == 0;
}

void stop_looking_for_age(Device& device) { rte_eal_alarm_cancel(look, &device); }

}  // namespace verbatim::offload::driver
