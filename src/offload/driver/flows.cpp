// rte_flow: rules. Any thread may call; the card is not waited for.
#include <rte_flow_driver.h>
#include <unistd.h>

#include "offload/driver/actions.h"
#include "offload/driver/device.h"
#include "offload/driver/match.h"

namespace verbatim::offload::driver {
namespace {

constexpr unsigned kMicrosecondsOfMillisecond = 1000;

/// Always of the type ACTION: with any other, Open vSwitch logs a warning for each rule.
int refuse_rule(rte_flow_error* error, int code, const void* cause, const char* why) {
  rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION, cause, why);
  return -code;
}

int translate(const Port& port, const rte_flow_attr* attributes, const rte_flow_item* pattern,
              const rte_flow_action* actions, vnic_rule& rule, rte_flow_error* error) {
  if (attributes->egress != 0) return refuse_rule(error, ENOTSUP, attributes, "egress");
  if (attributes->group >= 256) return refuse_rule(error, ENOTSUP, attributes, "group: 0 to 255");
  rule.port = port.index;
  rule.domain = attributes->transfer != 0 ? VNIC_DOMAIN_TRANSFER : VNIC_DOMAIN_INGRESS;
  rule.group = static_cast<std::uint16_t>(attributes->group);
  rule.priority = attributes->priority;
  if (const auto* item = translate_pattern(pattern, rule)) {
    return refuse_rule(error, ENOTSUP, item, "the card does not match this");
  }
  if (const auto* action = translate_actions(*port.device, actions, rule)) {
    return refuse_rule(error, ENOTSUP, action, "the card does not do this");
  }
  return 0;
}

int validate(rte_eth_dev* ethdev, const rte_flow_attr* attributes, const rte_flow_item* pattern,
             const rte_flow_action* actions, rte_flow_error* error) {
  vnic_rule rule{};
  return translate(port_of(ethdev), attributes, pattern, actions, rule, error);
}

rte_flow* create(rte_eth_dev* ethdev, const rte_flow_attr* attributes, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error) {
  Port& port = port_of(ethdev);
  Device& device = *port.device;
  vnic_command command{};
  command.operation = VNIC_INSERT;
  if (translate(port, attributes, pattern, actions, command.rule, error) != 0) return nullptr;
  if (device.insert_delay_ms != 0) usleep(device.insert_delay_ms * kMicrosecondsOfMillisecond);
  auto flow = std::make_unique<rte_flow>();
  const std::lock_guard lock(device.rules_lock);
  if (!device.rules.insert(*device.card(), command, *flow)) {
    refuse_rule(error, ENOSPC, nullptr, "the card's table is full");
    return nullptr;
  }
  return flow.release();
}

void destroy_locked(Device& device, HeldRule& rule) {
  device.rules.erase(*device.card(), rule);
  delete static_cast<rte_flow*>(&rule);
}

int destroy(rte_eth_dev* ethdev, rte_flow* flow, rte_flow_error*) {
  Device& device = *port_of(ethdev).device;
  const std::lock_guard lock(device.rules_lock);
  destroy_locked(device, *flow);
  return 0;
}

int flush(rte_eth_dev* ethdev, rte_flow_error*) {
  const Port& port = port_of(ethdev);
  Device& device = *port.device;
  const std::lock_guard lock(device.rules_lock);
  while (HeldRule* const rule = device.rules.first(port.index)) destroy_locked(device, *rule);
  return 0;
}

/// Counters lie in shared memory: a query costs no message. The caller has one at a time of a rule.
int query(rte_eth_dev* ethdev, rte_flow* flow, const rte_flow_action* action, void* data,
          rte_flow_error* error) {
  if (action->type != RTE_FLOW_ACTION_TYPE_COUNT) {
    return refuse_rule(error, ENOTSUP, action, "only counters are queried");
  }
  auto& answer = *static_cast<rte_flow_query_count*>(data);
  const vnic_counter counted = port_of(ethdev).device->read(*flow, answer.reset != 0);
  answer.hits = counted.packets;
  answer.bytes = counted.bytes;
  answer.hits_set = answer.bytes_set = 1;
  return 0;
}

int isolate(rte_eth_dev*, int set, rte_flow_error* error) {
  return set == 0 ? 0 : refuse_rule(error, ENOTSUP, nullptr, "isolation");
}

}  // namespace

const rte_flow_ops kFlowOperations = {.validate = validate,
                                      .create = create,
                                      .destroy = destroy,
                                      .flush = flush,
                                      .query = query,
                                      .isolate = isolate};

}  // namespace verbatim::offload::driver
