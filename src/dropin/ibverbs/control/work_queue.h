#pragma once

#include <memory>

#include "dropin/ibverbs/objects.h"

namespace verbatim::dropin {

inline constexpr std::uint32_t kScalingAttributes =
    IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
inline bool wants_scaling(const ibv_qp_init_attr_ex& wanted) {
  return (wanted.comp_mask & kScalingAttributes) != 0;
}
/// Converts the receive-side scaling of an extended queue pair. EINVAL for an unknown hash, or if
/// the queue pair also asks for its own queues.
Result<std::shared_ptr<const adapter::ReceiveScaling>> to_scaling(
    const ibv_qp_init_attr_ex& wanted);

}  // namespace verbatim::dropin
