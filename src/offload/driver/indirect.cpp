#include "offload/driver/indirect.h"

#include "offload/driver/age_alarm.h"

namespace verbatim::offload::driver {
namespace {

/// Returns 0 or an errno value, with words in `why`. The rules' lock is held.
int make(Port& port, const rte_flow_action& action, rte_flow_action_handle& made,
         const char*& why) {
  Device& device = *port.device;
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_COUNT:
      made.counter = device.rules.make_counter(*device.card());
      why = "the card's table is full";
      return made.counter != nullptr ? 0 : ENOSPC;
    case RTE_FLOW_ACTION_TYPE_AGE: {
      const auto& age = *static_cast<const rte_flow_action_age*>(action.conf);
      void* const context = age.context != nullptr ? age.context : &made;
      made.age = port.ageing.add(context, age.timeout * kSecond);
      look_for_age(device);
      return 0;
    }
    case RTE_FLOW_ACTION_TYPE_METER: {
      const auto number = static_cast<const rte_flow_action_meter*>(action.conf)->mtr_id;
      const auto meter = port.meters.find(number);
      why = "no meter";
      if (meter == port.meters.end()) return ENOENT;
      made.meter = meter->second;
      ++made.meter->users;
      return 0;
    }
    default:
      why = "rules share counters, ages and meters, nothing else";
      return ENOTSUP;
  }
}

/// Calls `act` for a handle, with the lock held. Returns its result.
template <typename Do>
int with_shared(rte_eth_dev* ethdev, const void* handle, rte_flow_error* error, Do act) {
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  rte_flow_action_handle* const action = port.shared_action(handle);
  if (action == nullptr) return refuse_rule(error, ENOENT, handle, "no such handle at this port");
  return act(port, *action);
}

}  // namespace

rte_flow_action_handle* create_shared(rte_eth_dev* ethdev, const rte_flow_indir_action_conf*,
                                      const rte_flow_action* action, rte_flow_error* error) {
  Port& port = port_of(ethdev);
  auto made = std::make_unique<rte_flow_action_handle>();
  const char* why = nullptr;
  const std::lock_guard lock(port.device->rules_lock);
  if (const int code = make(port, *action, *made, why); code != 0) {
    refuse_rule(error, code, action, why);
    return nullptr;
  }
  rte_flow_action_handle* const handle = made.get();
  port.shared_actions.emplace(handle, std::move(made));
  return handle;
}

int destroy_shared(rte_eth_dev* ethdev, rte_flow_action_handle* handle, rte_flow_error* error) {
  return with_shared(ethdev, handle, error, [&](Port& port, const rte_flow_action_handle& action) {
    if (action.users != 0) return refuse_rule(error, EBUSY, handle, "rules name the action");
    if (action.counter != nullptr) port.device->rules.end_counter(*action.counter);
    if (action.meter != nullptr) --action.meter->users;
    if (action.age != nullptr) port.ageing.remove(action.age);
    port.shared_actions.erase(handle);
    return 0;
  });
}

int update_shared(rte_eth_dev* ethdev, rte_flow_action_handle* handle, const void* update,
                  rte_flow_error* error) {
  return with_shared(ethdev, handle, error, [&](const Port&, const rte_flow_action_handle& action) {
    if (action.age == nullptr) {
      return refuse_rule(error, ENOTSUP, handle, "only ages change so; meters do by rte_mtr");
    }
    const auto& wanted = *static_cast<const rte_flow_update_age*>(update);
    if (wanted.timeout_valid != 0) action.age->timeout = wanted.timeout * kSecond;
    if (wanted.touch != 0) action.age->touch(monotonic_now());
    return 0;
  });
}

int query_shared(rte_eth_dev* ethdev, const rte_flow_action_handle* handle, void* data,
                 rte_flow_error* error) {
  return with_shared(ethdev, handle, error, [&](Port& port, const rte_flow_action_handle& action) {
    if (action.meter != nullptr) {
      return refuse_rule(error, ENOTSUP, handle, "rte_mtr tells what a meter counts");
    }
    if (action.age != nullptr) {
      *static_cast<rte_flow_query_age*>(data) = answer_of(*action.age);
    } else {
      answer_count(*port.device, *action.counter, *static_cast<rte_flow_query_count*>(data));
    }
    return 0;
  });
}

void answer_count(const Device& device, HeldCounter& counter, rte_flow_query_count& answer) {
  const vnic_counter counted = device.read(counter, answer.reset != 0);
  answer.hits = counted.packets;
  answer.bytes = counted.bytes;
  answer.hits_set = answer.bytes_set = 1;
}

}  // namespace verbatim::offload::driver
