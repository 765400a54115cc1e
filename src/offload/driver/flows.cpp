// rte_flow: rules. Any thread may call; the card is not waited for.
#include <cstdio>
#include <cstring>
#include <span>

#include <rte_flow_driver.h>
#include <unistd.h>

#include "offload/driver/age_alarm.h"
#include "offload/driver/device.h"
#include "offload/driver/indirect.h"
#include "offload/driver/tunnels.h"
#include "offload/driver/words/actions.h"
#include "offload/driver/words/match.h"
#include "offload/ring/rule_text.h"

namespace verbatim::offload::driver {
namespace {

constexpr unsigned kMicrosecondsOfMillisecond = 1000;

int translate(Port& port, const rte_flow_attr* attributes, const rte_flow_item* pattern,
              const rte_flow_action* actions, vnic_rule& rule, Beside& beside,
              rte_flow_error* error) {
  if (attributes->egress != 0) return refuse_rule(error, ENOTSUP, attributes, "egress");
  if (attributes->group >= kGroups)
    return refuse_rule(error, ENOTSUP, attributes, "group: 0 to 255");
  rule.port = port.index;
  rule.domain = attributes->transfer != 0 ? VNIC_DOMAIN_TRANSFER : VNIC_DOMAIN_INGRESS;
  rule.group = static_cast<std::uint16_t>(attributes->group);
  rule.priority = attributes->priority;
  if (const auto* item = translate_pattern(pattern, rule)) {
    return refuse_rule(error, ENOTSUP, item, "the card does not match this");
  }
  if (const auto* action = translate_actions(port, actions, rule, beside)) {
    return refuse_rule(error, ENOTSUP, action, "the card does not do this");
  }
  return 0;
}

int validate(rte_eth_dev* ethdev, const rte_flow_attr* attributes, const rte_flow_item* pattern,
             const rte_flow_action* actions, rte_flow_error* error) {
  vnic_rule rule{};
  Beside beside;
  return translate(port_of(ethdev), attributes, pattern, actions, rule, beside, error);
}

/// Calls `act` for each meter that a rule names. Null: it has ended.
template <typename Do>
void for_each_meter(Device& device, const vnic_rule& rule, Do act) {
  for (const vnic_action& action : std::span(rule.actions).first(rule.action_count)) {
    if (action.kind == VNIC_ACTION_METER) act(device.meters.find(action.value));
  }
}

/// The rule is in the card: its ages count from now on.
void begin_ages(Port& port, rte_flow& flow, const Beside& beside) {
  Device& device = *port.device;
  if (beside.age_timeout != 0) {
    void* const context = beside.age_context != nullptr ? beside.age_context : &flow;
    flow.age = port.ageing.add(context, beside.age_timeout);
    look_for_age(device);
  }
  for (rte_flow_action_handle* const action : flow.shared) {
    if (action->age != nullptr) flow.age = action->age;
  }
  if (flow.age == nullptr) return;
  flow.age->join(flow.id, device.card()->counter(flow.id).packets, monotonic_now());
}

/// Its device's lock is held.
bool insert(Port& port, vnic_command& command, rte_flow& flow, Beside& beside,
            rte_flow_error* error) {
  Device& device = *port.device;
  for (const rte_flow_action_handle* const action : beside.shared) {
    if (port.shared_action(action) != nullptr) continue;
    return refuse_rule(error, ENOENT, nullptr, "the shared action has ended") == 0;
  }
  bool has_meters = true;
  for_each_meter(device, command.rule,
                 [&](const HeldMeter* meter) { has_meters &= meter != nullptr; });
  if (!has_meters) return refuse_rule(error, ENOENT, nullptr, "the meter has ended") == 0;
  if (!device.rules.insert(*device.card(), command, flow)) {
    return refuse_rule(error, ENOSPC, nullptr, "the card's table is full") == 0;
  }
  for_each_meter(device, command.rule, [&](HeldMeter* meter) {
    ++meter->users;
    flow.has_meters = true;
  });
  flow.shared = std::move(beside.shared);
  for (rte_flow_action_handle* const action : flow.shared) ++action->users;
  begin_ages(port, flow, beside);
  return true;
}

rte_flow* create(rte_eth_dev* ethdev, const rte_flow_attr* attributes, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error) {
  Port& port = port_of(ethdev);
  Device& device = *port.device;
  vnic_command command{};
  command.operation = VNIC_INSERT;
  Beside beside;
  if (translate(port, attributes, pattern, actions, command.rule, beside, error) != 0) {
    return nullptr;
  }
  if (device.insert_delay_ms != 0) usleep(device.insert_delay_ms * kMicrosecondsOfMillisecond);
  auto flow = std::make_unique<rte_flow>();
  const std::lock_guard lock(device.rules_lock);
  return insert(port, command, *flow, beside, error) ? flow.release() : nullptr;
}

vnic_rule rule_of(const HeldRule& held) {
  vnic_rule rule{};
  std::memcpy(&rule, held.bytes.data(), held.bytes.size());
  return rule;
}

void destroy_locked(Port& port, rte_flow& rule) {
  Device& device = *port.device;
  if (rule.has_meters) {
    for_each_meter(device, rule_of(rule), [](HeldMeter* meter) { --meter->users; });
  }
  bool shares_age = false;
  for (rte_flow_action_handle* const action : rule.shared) {
    --action->users;
    shares_age |= action->age != nullptr;
  }
  if (shares_age) {
    rule.age->leave(rule.id, device.card()->counter(rule.id).packets, monotonic_now());
  } else if (rule.age != nullptr) {
    port.ageing.remove(rule.age);
  }
  device.rules.erase(*device.card(), rule);
  delete &rule;
}

int destroy(rte_eth_dev* ethdev, rte_flow* flow, rte_flow_error*) {
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  destroy_locked(port, *flow);
  return 0;
}

int flush(rte_eth_dev* ethdev, rte_flow_error*) {
  Port& port = port_of(ethdev);
  Device& device = *port.device;
  const std::lock_guard lock(device.rules_lock);
  while (HeldRule* const rule = device.rules.first(port.index)) {
    destroy_locked(port, static_cast<rte_flow&>(*rule));
  }
  return 0;
}

int query_age(const Port& port, const rte_flow& flow, rte_flow_query_age& answer,
              rte_flow_error* error) {
  const std::lock_guard lock(port.device->rules_lock);
  if (flow.age == nullptr) return refuse_rule(error, EINVAL, nullptr, "the rule does not age");
  answer = answer_of(*flow.age);
  return 0;
}

/// Counters lie in shared memory: a query costs no message. The caller has one at a time of a rule.
int query(rte_eth_dev* ethdev, rte_flow* flow, const rte_flow_action* action, void* data,
          rte_flow_error* error) {
  if (action->type == RTE_FLOW_ACTION_TYPE_AGE) {
    return query_age(port_of(ethdev), *flow, *static_cast<rte_flow_query_age*>(data), error);
  }
  if (action->type != RTE_FLOW_ACTION_TYPE_COUNT) {
    return refuse_rule(error, ENOTSUP, action, "counters and ages are queried, nothing else");
  }
  auto& answer = *static_cast<rte_flow_query_count*>(data);
  for (const rte_flow_action_handle* const shared : flow->shared) {
    if (shared->counter != nullptr) return query_shared(ethdev, shared, data, error);
  }
  answer_count(*port_of(ethdev).device, *flow, answer);
  return 0;
}

int aged_flows(rte_eth_dev* ethdev, void** contexts, std::uint32_t room, rte_flow_error* error) {
  Port& port = port_of(ethdev);
  if (room != 0 && contexts == nullptr) return refuse_rule(error, EINVAL, nullptr, "no contexts");
  const std::lock_guard lock(port.device->rules_lock);
  return static_cast<int>(port.ageing.aged(contexts, room));
}

/// All rules of the port, or one, in testpmd's words.
int dump(rte_eth_dev* ethdev, rte_flow* flow, FILE* file, rte_flow_error*) {
  const Port& port = port_of(ethdev);
  Device& device = *port.device;
  const std::lock_guard lock(device.rules_lock);
  const auto print = [&](const HeldRule& rule) {
    const vnic_counter counted = device.rules.read(*device.card(), rule);
    std::fprintf(file, "%llu packets, %llu bytes: %s\n",
                 static_cast<unsigned long long>(counted.packets),
                 static_cast<unsigned long long>(counted.bytes), text_of(rule_of(rule)).c_str());
  };
  if (flow != nullptr) print(*flow);
  for (const HeldRule* rule = device.rules.first(port.index); flow == nullptr && rule != nullptr;
       rule = rule->next) {
    print(*rule);
  }
  return 0;
}

int isolate(rte_eth_dev*, int set, rte_flow_error* error) {
  if (set == 0) return 0;
  return -rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                             "frames without a rule are software's");
}

}  // namespace

const rte_flow_ops kFlowOperations = {.validate = validate,
                                      .create = create,
                                      .destroy = destroy,
                                      .flush = flush,
                                      .query = query,
                                      .isolate = isolate,
                                      .dev_dump = dump,
                                      .get_aged_flows = aged_flows,
                                      .action_handle_create = create_shared,
                                      .action_handle_destroy = destroy_shared,
                                      .action_handle_update = update_shared,
                                      .action_handle_query = query_shared,
                                      .tunnel_decap_set = tunnel_decap_set,
                                      .tunnel_match = tunnel_match,
                                      .get_restore_info = restore_info,
                                      .tunnel_action_decap_release = release_tunnel_actions,
                                      .tunnel_item_release = release_tunnel_items};

}  // namespace verbatim::offload::driver
