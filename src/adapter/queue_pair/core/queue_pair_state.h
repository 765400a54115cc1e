#pragma once

#include <cstdint>

#include "arena/queue_pair_record.h"
#include "base/error.h"
#include "base/types.h"
#include "wire/ib/opcode.h"

/// The state machine of a queue pair as a table: required and allowed attributes of each transition
/// (IBA volume 1, section 10.3 and table 96 on).
namespace verbatim::adapter {

using arena::QpState;
using arena::QpType;

wire::Service service_of(QpType type);

/// With the values of `enum ibv_qp_attr_mask`.
enum Attribute : std::uint32_t {
  kState = 1 << 0,
  kCurrentState = 1 << 1,
  kEnableSqdNotify = 1 << 2,
  kAccessFlags = 1 << 3,
  kPKeyIndex = 1 << 4,
  kPort = 1 << 5,
  kQKey = 1 << 6,
  kAddressVector = 1 << 7,
  kPathMtu = 1 << 8,
  kTimeout = 1 << 9,
  kRetryCount = 1 << 10,
  kRnrRetry = 1 << 11,
  kReceivePsn = 1 << 12,
  kMaxRdAtomic = 1 << 13,
  kAlternatePath = 1 << 14,
  kMinRnrTimer = 1 << 15,
  kSendPsn = 1 << 16,
  kMaxDestRdAtomic = 1 << 17,
  kPathMigrationState = 1 << 18,
  kCapability = 1 << 19,
  kDestQpn = 1 << 20,
  kRateLimit = 1 << 25,
};

/// Returns the attributes of `mask` that apply. XRC splits RC in two, and attributes of the other
/// half are ignored, as in Linux (programs set all attributes of RC for both halves).
std::uint32_t attributes_for(QpType type, std::uint32_t mask);

/// Checks that a queue pair of `type` may go from `from` to `to` with the attributes of `mask`.
/// EINVAL, with a text that names the missing or forbidden attributes, as a driver's
/// ib_modify_qp_is_ok decides.
Result<void> check_transition(QpType type, QpState from, QpState to, std::uint32_t mask);

}  // namespace verbatim::adapter
