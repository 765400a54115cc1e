// Flow rules, their actions, and counters.
#include <cstddef>
#include <cstring>

#include "refused.h"

namespace refused {
namespace {

int create_flow(const Bench& bench, ibv_qp_type type, ibv_flow_attr attributes,
                ibv_flow_spec_type specification = {}) {
  attributes.port = 1;
  attributes.num_of_specs = specification != ibv_flow_spec_type{} ? 1 : 0;
  ibv_flow_spec_action_handle only{};
  only.type = specification;
  only.size = sizeof only;
  // One after the other, without the padding of a structure with both.
  alignas(ibv_flow_attr) std::byte rule[sizeof attributes + sizeof only];
  attributes.size = sizeof rule;
  std::memcpy(rule, &attributes, sizeof attributes);
  std::memcpy(rule + sizeof attributes, &only, sizeof only);
  ibv_qp* const qp = bench.create_queue_pair(type, 4, 4);
  const int answer = errno_of(ibv_create_flow(qp, reinterpret_cast<ibv_flow_attr*>(rule)));
  ibv_destroy_qp(qp);
  return answer;
}

int count_later(const Bench& bench) {
  ibv_counters_init_attr none{};
  ibv_counters* const counters = ibv_create_counters(bench.context, &none);
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RAW_PACKET, 4, 4);
  ibv_flow_attr rule{};
  rule.size = sizeof rule;
  rule.port = 1;
  ibv_flow* const flow = ibv_create_flow(qp, &rule);
  endpoint::check(counters != nullptr && flow != nullptr, "counters and a flow rule");
  ibv_counter_attach_attr packets{};
  packets.counter_desc = IBV_COUNTER_PACKETS;
  const int answer = ibv_attach_counters_point_flow(counters, &packets, flow);
  ibv_destroy_flow(flow);
  ibv_destroy_qp(qp);
  ibv_destroy_counters(counters);
  return answer;
}

}  // namespace

void add_flow_rules(Rows& rows) {
  const char* const no_ipsec = "IPsec in the card: mlx5 alone had it";
  rows.push_back({"ibv_create_flow_action_esp", "", EOPNOTSUPP, no_ipsec, [](const Bench& bench) {
                    ibv_flow_action_esp_attr wanted{};
                    return errno_of(ibv_create_flow_action_esp(bench.context, &wanted));
                  }});
  rows.push_back({"ibv_modify_flow_action_esp", "", EOPNOTSUPP, no_ipsec, [](const Bench& bench) {
                    ibv_flow_action action{.context = bench.context};
                    ibv_flow_action_esp_attr wanted{};
                    return ibv_modify_flow_action_esp(&action, &wanted);
                  }});
  rows.push_back({"ibv_destroy_flow_action", "", EOPNOTSUPP, no_ipsec, [](const Bench& bench) {
                    ibv_flow_action action{.context = bench.context};
                    return ibv_destroy_flow_action(&action);
                  }});
  rows.push_back({"ibv_create_flow", "`IBV_FLOW_SPEC_ACTION_HANDLE`", EOPNOTSUPP,
                  "there are no flow actions to name", [](const Bench& bench) {
                    return create_flow(bench, IBV_QPT_RAW_PACKET, {}, IBV_FLOW_SPEC_ACTION_HANDLE);
                  }});
  rows.push_back({"ibv_create_flow", "specifications that no header has", EOPNOTSUPP, "unknown",
                  [](const Bench& bench) {
                    const auto unknown = beyond_the_header<ibv_flow_spec_type>(0x70);
                    return create_flow(bench, IBV_QPT_RAW_PACKET, {}, unknown);
                  }});
  rows.push_back({"ibv_create_flow", "`IBV_FLOW_ATTR_FLAGS_EGRESS`", EOPNOTSUPP,
                  "only actions make sense of a frame that is sent, and those that are served "
                  "(tag, count, drop) are the receiver's",
                  [](const Bench& bench) {
                    ibv_flow_attr wanted{};
                    wanted.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
                    return create_flow(bench, IBV_QPT_RAW_PACKET, wanted);
                  }});
  rows.push_back({"ibv_create_flow", "to a queue pair that is not `IBV_QPT_RAW_PACKET`", EINVAL,
                  "rules steer Ethernet frames, which others do not take",
                  [](const Bench& bench) { return create_flow(bench, IBV_QPT_UD, {}); }});
  rows.push_back({"ibv_attach_counters_point_flow", "`flow` other than null", EOPNOTSUPP,
                  "a rule names its counters when it is created: mlx5 has it so", count_later});
}

}  // namespace refused
