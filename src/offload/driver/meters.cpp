// rte_mtr: profiles, policies and meters, by their numbers at a port.
#include <bit>

#include <rte_mtr_driver.h>

#include "offload/driver/device.h"

namespace verbatim::offload::driver {
namespace {

constexpr std::uint64_t kAllStatistics =
    RTE_MTR_STATS_N_PKTS_GREEN | RTE_MTR_STATS_N_PKTS_YELLOW | RTE_MTR_STATS_N_PKTS_RED |
    RTE_MTR_STATS_N_PKTS_DROPPED | RTE_MTR_STATS_N_BYTES_GREEN | RTE_MTR_STATS_N_BYTES_YELLOW |
    RTE_MTR_STATS_N_BYTES_RED | RTE_MTR_STATS_N_BYTES_DROPPED;
constexpr std::uint32_t kBits = 32;
static_assert(RTE_COLOR_GREEN == 0 && RTE_COLOR_RED == 2 && RTE_COLORS == VNIC_COLORS);

int refuse_meter(rte_mtr_error* error, int code, rte_mtr_error_type type, const char* why) {
  rte_mtr_error_set(error, code, type, nullptr, why);
  return -code;
}

int capabilities(rte_eth_dev*, rte_mtr_capabilities* can, rte_mtr_error*) {
  *can = {};
  can->n_max = can->n_shared_max = VNIC_METERS_MAX;
  can->identical = can->shared_identical = 1;
  can->shared_n_flows_per_mtr_max = ~std::uint32_t{0};
  can->chaining_n_mtrs_per_flow_max = VNIC_ACTIONS_MAX;
  can->meter_srtcm_rfc2697_n_max = can->meter_trtcm_rfc2698_n_max = VNIC_METERS_MAX;
  can->meter_rate_max = ~std::uint64_t{0};
  can->meter_policy_n_max = kBits;
  can->srtcm_rfc2697_byte_mode_supported = can->srtcm_rfc2697_packet_mode_supported = 1;
  can->trtcm_rfc2698_byte_mode_supported = can->trtcm_rfc2698_packet_mode_supported = 1;
  can->stats_mask = kAllStatistics;
  return 0;
}

int add_profile(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_meter_profile* said,
                rte_mtr_error* error) {
  vnic_meter meter{};
  meter.counts_packets = said->packet_mode != 0;
  if (said->alg == RTE_MTR_SRTCM_RFC2697) {
    const auto& of = said->srtcm_rfc2697;
    meter.algorithm = VNIC_METER_SINGLE_RATE;
    meter.committed_rate = of.cir;
    meter.committed_burst = of.cbs;
    meter.other_burst = of.ebs;
  } else if (said->alg == RTE_MTR_TRTCM_RFC2698) {
    const auto& of = said->trtcm_rfc2698;
    meter.algorithm = VNIC_METER_TWO_RATE;
    meter.committed_rate = of.cir;
    meter.peak_rate = of.pir;
    meter.committed_burst = of.cbs;
    meter.other_burst = of.pbs;
  } else {
    return refuse_meter(error, ENOTSUP, RTE_MTR_ERROR_TYPE_METER_PROFILE,
                        "algorithms are those of RFC 2697 and RFC 2698");
  }
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  if (!port.meter_profiles.emplace(id, meter).second) {
    return refuse_meter(error, EEXIST, RTE_MTR_ERROR_TYPE_METER_PROFILE_ID, "the profile exists");
  }
  return 0;
}

/// Whether a meter of the port has this profile or policy.
bool is_used(const Port& port, std::uint32_t HeldMeter::* what, std::uint32_t id) {
  for (const auto& [number, meter] : port.meters) {
    if (meter->*what == id) return true;
  }
  return false;
}

int delete_profile(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error) {
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  constexpr auto kType = RTE_MTR_ERROR_TYPE_METER_PROFILE_ID;
  if (is_used(port, &HeldMeter::profile, id)) return refuse_meter(error, EBUSY, kType, "in use");
  if (port.meter_profiles.erase(id) == 0) return refuse_meter(error, ENOENT, kType, "no profile");
  return 0;
}

/// Returns which colors are dropped; nothing if a color's actions are others than to pass or drop.
std::optional<std::uint8_t> drops_of(const rte_mtr_meter_policy_params& policy) {
  std::uint8_t drops = 0;
  for (unsigned color = 0; color < RTE_COLORS; ++color) {
    const rte_flow_action* action = policy.actions[color];
    for (; action != nullptr && action->type != RTE_FLOW_ACTION_TYPE_END; ++action) {
      if (action->type == RTE_FLOW_ACTION_TYPE_DROP) {
        drops = static_cast<std::uint8_t>(drops | 1u << color);
      } else if (action->type != RTE_FLOW_ACTION_TYPE_VOID) {
        return {};
      }
    }
  }
  return drops;
}

int validate_policy(rte_eth_dev*, rte_mtr_meter_policy_params* policy, rte_mtr_error* error) {
  if (drops_of(*policy)) return 0;
  return refuse_meter(error, ENOTSUP, RTE_MTR_ERROR_TYPE_METER_POLICY,
                      "a color passes (no action) or is dropped");
}

int add_policy(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_meter_policy_params* policy,
               rte_mtr_error* error) {
  if (const int wrong = validate_policy(ethdev, policy, error); wrong != 0) return wrong;
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  if (!port.meter_policies.emplace(id, *drops_of(*policy)).second) {
    return refuse_meter(error, EEXIST, RTE_MTR_ERROR_TYPE_METER_POLICY_ID, "the policy exists");
  }
  return 0;
}

int delete_policy(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error) {
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  constexpr auto kType = RTE_MTR_ERROR_TYPE_METER_POLICY_ID;
  if (is_used(port, &HeldMeter::policy, id)) return refuse_meter(error, EBUSY, kType, "in use");
  if (port.meter_policies.erase(id) == 0) return refuse_meter(error, ENOENT, kType, "no policy");
  return 0;
}

int create(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_params* said, int, rte_mtr_error* error) {
  constexpr auto kType = RTE_MTR_ERROR_TYPE_MTR_PARAMS;
  if (said->use_prev_mtr_color != 0) return refuse_meter(error, ENOTSUP, kType, "color-blind mode");
  Port& port = port_of(ethdev);
  Device& device = *port.device;
  const std::lock_guard lock(device.rules_lock);
  if (port.meters.contains(id)) {
    return refuse_meter(error, EEXIST, RTE_MTR_ERROR_TYPE_MTR_ID, "the meter exists");
  }
  const auto profile = port.meter_profiles.find(said->meter_profile_id);
  const auto policy = port.meter_policies.find(said->meter_policy_id);
  if (profile == port.meter_profiles.end()) return refuse_meter(error, ENOENT, kType, "no profile");
  if (policy == port.meter_policies.end()) return refuse_meter(error, ENOENT, kType, "no policy");
  const auto card = device.card();
  vnic_meter wanted = profile->second;
  wanted.drops = policy->second;
  HeldMeter* const meter = device.meters.make(*card, wanted);
  if (meter == nullptr) return refuse_meter(error, ENOSPC, kType, "the card has no room");
  meter->profile = profile->first;
  meter->policy = policy->first;
  meter->is_enabled = said->meter_enable != 0;
  port.meters.emplace(id, meter);
  MeterBook::tell(*card, *meter);
  return 0;
}

/// Calls `act` for a meter with the lock held. Returns its result.
template <typename Do>
int with_meter(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error, Do act) {
  Port& port = port_of(ethdev);
  const std::lock_guard lock(port.device->rules_lock);
  const auto found = port.meters.find(id);
  if (found == port.meters.end()) {
    return refuse_meter(error, ENOENT, RTE_MTR_ERROR_TYPE_MTR_ID, "no meter");
  }
  return act(port, *found->second);
}

int destroy(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error) {
  return with_meter(ethdev, id, error, [&](Port& port, const HeldMeter& meter) {
    if (meter.users != 0) {
      return refuse_meter(error, EBUSY, RTE_MTR_ERROR_TYPE_MTR_ID, "rules name the meter");
    }
    port.device->meters.end(*port.device->card(), meter);
    port.meters.erase(id);
    return 0;
  });
}

int set_enabled(rte_eth_dev* ethdev, std::uint32_t id, bool is_enabled, rte_mtr_error* error) {
  return with_meter(ethdev, id, error, [&](const Port& port, HeldMeter& meter) {
    meter.is_enabled = is_enabled;
    MeterBook::tell(*port.device->card(), meter);
    return 0;
  });
}
int enable(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error) {
  return set_enabled(ethdev, id, true, error);
}
int disable(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_error* error) {
  return set_enabled(ethdev, id, false, error);
}

int update_profile(rte_eth_dev* ethdev, std::uint32_t id, std::uint32_t profile,
                   rte_mtr_error* error) {
  return with_meter(ethdev, id, error, [&](const Port& port, HeldMeter& meter) {
    const auto found = port.meter_profiles.find(profile);
    if (found == port.meter_profiles.end()) {
      return refuse_meter(error, ENOENT, RTE_MTR_ERROR_TYPE_METER_PROFILE_ID, "no profile");
    }
    const vnic_meter before = meter.wanted;
    meter.wanted = found->second;
    meter.wanted.id = before.id;
    meter.wanted.drops = before.drops;
    meter.profile = profile;
    MeterBook::tell(*port.device->card(), meter);
    return 0;
  });
}

int update_policy(rte_eth_dev* ethdev, std::uint32_t id, std::uint32_t policy,
                  rte_mtr_error* error) {
  return with_meter(ethdev, id, error, [&](const Port& port, HeldMeter& meter) {
    const auto found = port.meter_policies.find(policy);
    if (found == port.meter_policies.end()) {
      return refuse_meter(error, ENOENT, RTE_MTR_ERROR_TYPE_METER_POLICY_ID, "no policy");
    }
    meter.wanted.drops = found->second;
    meter.policy = policy;
    MeterBook::tell(*port.device->card(), meter);
    return 0;
  });
}

/// All are counted always.
int update_statistics(rte_eth_dev*, std::uint32_t, std::uint64_t, rte_mtr_error*) { return 0; }

int read_statistics(rte_eth_dev* ethdev, std::uint32_t id, rte_mtr_stats* statistics,
                    std::uint64_t* mask, int clear, rte_mtr_error* error) {
  return with_meter(ethdev, id, error, [&](const Port& port, HeldMeter& meter) {
    static_assert(sizeof *statistics == sizeof(vnic_meter_counter));
    const auto counted = MeterBook::read(*port.device->card(), meter, clear != 0);
    if (statistics != nullptr) *statistics = std::bit_cast<rte_mtr_stats>(counted);
    if (mask != nullptr) *mask = kAllStatistics;
    return 0;
  });
}

rte_mtr_ops make_operations() {
  rte_mtr_ops ops{};
  ops.capabilities_get = capabilities;
  ops.meter_profile_add = add_profile;
  ops.meter_profile_delete = delete_profile;
  ops.meter_policy_validate = validate_policy;
  ops.meter_policy_add = add_policy;
  ops.meter_policy_delete = delete_policy;
  ops.create = create;
  ops.destroy = destroy;
  ops.meter_enable = enable;
  ops.meter_disable = disable;
  ops.meter_profile_update = update_profile;
  ops.meter_policy_update = update_policy;
  ops.stats_update = update_statistics;
  ops.stats_read = read_statistics;
  return ops;
}

}  // namespace

const rte_mtr_ops kMeterOperations = make_operations();

}  // namespace verbatim::offload::driver
