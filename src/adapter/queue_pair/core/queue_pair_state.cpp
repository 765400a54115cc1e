#include "adapter/queue_pair/core/queue_pair_state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fmt/format.h>

namespace verbatim::adapter {
namespace {

using enum QpState;

/// Attributes that a type of queue pair requires and allows in a transition.
struct Attributes {
  std::uint32_t required = 0;
  std::uint32_t optional = 0;
};

/// XRC splits RC in two: one queue pair is the requester, the other the responder (IBA annex A14).
constexpr std::uint32_t kResponderOnly = kMaxDestRdAtomic | kMinRnrTimer;
constexpr std::uint32_t kRequesterOnly = kRetryCount | kRnrRetry | kMaxRdAtomic;

struct Transition {
  QpState from{};
  QpState to{};
  Attributes rc;
  Attributes uc;
  Attributes ud;
  Attributes raw_packet = {};

  constexpr Attributes of(QpType type) const {
    switch (type) {
      case QpType::uc:
        return uc;
      case QpType::ud:
        return ud;
      case QpType::raw_packet:
        return raw_packet;
      case QpType::xrc_send:
        return {rc.required & ~kResponderOnly, rc.optional & ~kResponderOnly};
      case QpType::xrc_receive:
        return {rc.required & ~kRequesterOnly, rc.optional & ~kRequesterOnly};
      case QpType::rc:
        break;
    }
    return rc;
  }
};

// Common sets: the attributes of INIT, of a path, and those that may change in RTS.
constexpr std::uint32_t kInitConnected = kPKeyIndex | kPort | kAccessFlags;
constexpr std::uint32_t kInitDatagram = kPKeyIndex | kPort | kQKey;
constexpr std::uint32_t kPath = kAddressVector | kPathMtu | kDestQpn | kReceivePsn;
constexpr std::uint32_t kMigration = kAlternatePath | kPathMigrationState;
constexpr std::uint32_t kRetries = kTimeout | kRetryCount | kRnrRetry;
constexpr std::uint32_t kRunningUc = kCurrentState | kAccessFlags | kMigration;
constexpr std::uint32_t kRunningRc = kRunningUc | kMinRnrTimer;
constexpr std::uint32_t kRunningUd = kCurrentState | kQKey;
constexpr std::uint32_t kRunningRaw = kCurrentState | kRateLimit;

/// IBA volume 1, chapter 11, verb Modify Queue Pair, table "QP State Transition Properties", as
/// cards' drivers enforce it. A transition that is missing here is refused; so is a transition to
/// RESET or ERR with attributes other than the state. Cards also refuse RESET to ERR, although the
/// specification allows it.
constexpr auto kTransitions = std::to_array<Transition>({
    {reset, reset, {}, {}, {}},
    {reset, init, {kInitConnected}, {kInitConnected}, {kInitDatagram}, {kPort}},
    {init, init, {0, kInitConnected}, {0, kInitConnected}, {0, kInitDatagram}},
    {init,
     rtr,
     {kPath | kMaxDestRdAtomic | kMinRnrTimer, kAlternatePath | kAccessFlags | kPKeyIndex},
     {kPath, kAlternatePath | kAccessFlags | kPKeyIndex},
     {0, kPKeyIndex | kQKey}},
    {rtr,
     rts,
     {kRetries | kSendPsn | kMaxRdAtomic, kRunningRc},
     {kSendPsn, kRunningUc},
     {kSendPsn, kRunningUd},
     {0, kRunningRaw}},
    {rts, rts, {0, kRunningRc}, {0, kRunningUc}, {0, kRunningUd}, {0, kRunningRaw}},
    {rts,
     sqd,
     {0, kEnableSqdNotify},
     {0, kEnableSqdNotify},
     {0, kEnableSqdNotify},
     {0, kEnableSqdNotify}},
    {sqd, rts, {0, kRunningRc}, {0, kRunningUc}, {0, kRunningUd}, {0, kCurrentState}},
    {sqd,
     sqd,
     {0, kPort | kAddressVector | kRetries | kMaxRdAtomic | kMaxDestRdAtomic | kMigration |
             kAccessFlags | kPKeyIndex | kMinRnrTimer},
     {0, kAddressVector | kMigration | kAccessFlags | kPKeyIndex},
     {0, kPKeyIndex | kQKey}},
    // A reliable queue pair never enters SQE (IBA 10.3.1.6).
    {sqe, rts, {}, {0, kCurrentState | kAccessFlags}, {0, kRunningUd}, {0, kCurrentState}},
    {init, reset, {}, {}, {}},
    {rtr, reset, {}, {}, {}},
    {rts, reset, {}, {}, {}},
    {sqd, reset, {}, {}, {}},
    {sqe, reset, {}, {}, {}},
    {err, reset, {}, {}, {}},
    {init, err, {}, {}, {}},
    {rtr, err, {}, {}, {}},
    {rts, err, {}, {}, {}},
    {sqd, err, {}, {}, {}},
    {sqe, err, {}, {}, {}},
    {err, err, {}, {}, {}},
});

struct AttributeName {
  std::uint32_t bit = 0;
  const char* name = "";
};

constexpr auto kAttributeNames = std::to_array<AttributeName>({
    {kState, "IBV_QP_STATE"},
    {kCurrentState, "IBV_QP_CUR_STATE"},
    {kEnableSqdNotify, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    {kAccessFlags, "IBV_QP_ACCESS_FLAGS"},
    {kPKeyIndex, "IBV_QP_PKEY_INDEX"},
    {kPort, "IBV_QP_PORT"},
    {kQKey, "IBV_QP_QKEY"},
    {kAddressVector, "IBV_QP_AV"},
    {kPathMtu, "IBV_QP_PATH_MTU"},
    {kTimeout, "IBV_QP_TIMEOUT"},
    {kRetryCount, "IBV_QP_RETRY_CNT"},
    {kRnrRetry, "IBV_QP_RNR_RETRY"},
    {kReceivePsn, "IBV_QP_RQ_PSN"},
    {kMaxRdAtomic, "IBV_QP_MAX_QP_RD_ATOMIC"},
    {kAlternatePath, "IBV_QP_ALT_PATH"},
    {kMinRnrTimer, "IBV_QP_MIN_RNR_TIMER"},
    {kSendPsn, "IBV_QP_SQ_PSN"},
    {kMaxDestRdAtomic, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    {kPathMigrationState, "IBV_QP_PATH_MIG_STATE"},
    {kCapability, "IBV_QP_CAP"},
    {kDestQpn, "IBV_QP_DEST_QPN"},
    {kRateLimit, "IBV_QP_RATE_LIMIT"},
});

std::string names_of(std::uint32_t mask) {
  std::string names;
  for (const AttributeName& attribute : kAttributeNames) {
    if ((mask & attribute.bit) == 0) continue;
    names += names.empty() ? "" : ", ";
    names += attribute.name;
    mask &= ~attribute.bit;
  }
  if (mask != 0) names += fmt::format("{}unknown bits {:#x}", names.empty() ? "" : ", ", mask);
  return names;
}

}  // namespace

wire::Service service_of(QpType type) {
  switch (type) {
    case QpType::rc:
      return wire::Service::rc;
    case QpType::uc:
      return wire::Service::uc;
    case QpType::ud:
      return wire::Service::ud;
    case QpType::raw_packet:
      break;
    case QpType::xrc_send:
    case QpType::xrc_receive:
      return wire::Service::xrc;
  }
  return wire::Service::rc;
}

std::uint32_t attributes_for(QpType type, std::uint32_t mask) {
  if (type == QpType::xrc_send) return mask & ~kResponderOnly;
  if (type == QpType::xrc_receive) return mask & ~kRequesterOnly;
  return mask;
}

Result<void> check_transition(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const auto* const transition = std::ranges::find_if(
      kTransitions, [&](const Transition& row) { return row.from == from && row.to == to; });
  const std::string what =
      fmt::format("{} from {} to {}", name_of(type), name_of(from), name_of(to));
  if (transition == kTransitions.end()) {
    return refuse(EINVAL, fmt::format("{}: there is no such transition", what));
  }
  const Attributes& attributes = transition->of(type);
  const std::uint32_t missing = attributes.required & ~mask;
  const std::uint32_t forbidden = mask & ~(attributes.required | attributes.optional | kState);
  if (missing != 0 && forbidden != 0) {
    return refuse(EINVAL, fmt::format("{}: lacks {} and does not allow {}", what, names_of(missing),
                                      names_of(forbidden)));
  }
  if (missing != 0) return refuse(EINVAL, fmt::format("{}: lacks {}", what, names_of(missing)));
  if (forbidden != 0) {
    return refuse(EINVAL, fmt::format("{}: does not allow {}", what, names_of(forbidden)));
  }
  return {};
}

}  // namespace verbatim::adapter
