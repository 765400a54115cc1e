#pragma once

#include "offload/driver/device.h"

/// rte_flow's "indirect actions": counters, ages and meters that rules of a port share by a handle.
namespace verbatim::offload::driver {

/// Always of the type ACTION: with any other, Open vSwitch logs a warning for each rule.
inline int refuse_rule(rte_flow_error* error, int code, const void* cause, const char* why) {
  rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION, cause, why);
  return -code;
}

rte_flow_action_handle* create_shared(rte_eth_dev* ethdev, const rte_flow_indir_action_conf* conf,
                                      const rte_flow_action* action, rte_flow_error* error);
/// EBUSY: rules name it.
int destroy_shared(rte_eth_dev* ethdev, rte_flow_action_handle* handle, rte_flow_error* error);
/// An age gets another time, or is young again; counters and meters have nothing to change here.
int update_shared(rte_eth_dev* ethdev, rte_flow_action_handle* handle, const void* update,
                  rte_flow_error* error);
int query_shared(rte_eth_dev* ethdev, const rte_flow_action_handle* handle, void* data,
                 rte_flow_error* error);

/// What a query of a counter answers.
void answer_count(const Device& device, HeldCounter& counter, rte_flow_query_count& answer);

}  // namespace verbatim::offload::driver
