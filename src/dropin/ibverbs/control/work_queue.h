#pragma once

#include <memory>

#include "dropin/ibverbs/objects.h"

namespace verbatim::dropin {

inline constexpr std::uint32_t kScalingAttributes =
    IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
inline bool wants_scaling(const ibv_qp_init_attr_ex& wanted) {
  return (wanted.comp_mask & kScalingAttributes) != 0;
}
/// How an extended queue pair asks to spread what it receives. EINVAL for an unknown hash or a
/// queue pair that also wants queues of its own.
Result<std::shared_ptr<const adapter::ReceiveScaling>> to_scaling(
    const ibv_qp_init_attr_ex& wanted);

}  // namespace verbatim::dropin
