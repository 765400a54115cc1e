#include "adapter/queue_pair/core/queue_pair_state.h"

#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

using enum QpState;
using enum QpType;

constexpr std::array kStates{reset, init, rtr, rts, sqd, sqe, err};
constexpr std::array kTypes{rc, uc, ud};

/// Returns the text of the refusal; nothing if the transition is allowed.
std::string refusal(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const auto allowed = check_transition(type, from, to, mask);
  if (allowed) return "";
  EXPECT_EQ(allowed.error().code, EINVAL);
  EXPECT_FALSE(allowed.error().text.empty());
  return allowed.error().text;
}

bool allows(QpType type, QpState from, QpState to, std::uint32_t mask) {
  return refusal(type, from, to, mask).empty();
}

struct Step {
  QpType type;
  QpState from;
  QpState to;
  std::uint32_t required;
};

/// The tables in the manual page of ibv_modify_qp.
constexpr auto kLadder = std::to_array<Step>({
    {ud, reset, init, kState | kPKeyIndex | kPort | kQKey},
    {ud, init, rtr, kState},
    {ud, rtr, rts, kState | kSendPsn},
    {uc, reset, init, kState | kPKeyIndex | kPort | kAccessFlags},
    {uc, init, rtr, kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn},
    {uc, rtr, rts, kState | kSendPsn},
    {rc, reset, init, kState | kPKeyIndex | kPort | kAccessFlags},
    {rc, init, rtr,
     kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn | kMaxDestRdAtomic | kMinRnrTimer},
    {rc, rtr, rts, kState | kSendPsn | kMaxRdAtomic | kRetryCount | kRnrRetry | kTimeout},
});

TEST(QueuePairState, LadderNeedsEachRequiredAttribute) {
  for (const Step& step : kLadder) {
    EXPECT_EQ(refusal(step.type, step.from, step.to, step.required), "");
    for (std::uint32_t bit = kCurrentState; bit <= kRateLimit; bit <<= 1) {
      if ((step.required & bit) == 0) continue;
      const auto words = refusal(step.type, step.from, step.to, step.required & ~bit);
      EXPECT_NE(words.find("lacks IBV_QP_"), std::string::npos) << words;
    }
  }
}

TEST(QueuePairState, RefusalNamesEverything) {
  EXPECT_EQ(refusal(rc, reset, init, kState | kPort | kQKey | kCapability),
            "RC from RESET to INIT: lacks IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX and does "
            "not allow IBV_QP_QKEY, IBV_QP_CAP");
  EXPECT_EQ(refusal(uc, rts, rtr, kState), "UC from RTS to RTR: there is no such transition");
  EXPECT_EQ(refusal(ud, rts, rts, 1U << 30 | kPort),
            "UD from RTS to RTS: does not allow IBV_QP_PORT, unknown bits 0x40000000");
}

TEST(QueuePairState, OnlyTheTransitionsOfTheSpecificationExist) {
  // One row per state: the allowed transitions; the columns are RESET INIT RTR RTS SQD SQE ERR.
  constexpr std::array<std::string_view, 7> kAllowed{
      "xx.....",  // RESET: not to ERR, as on cards.
      "xxx...x",  // INIT
      "x..x..x",  // RTR
      "x..xx.x",  // RTS
      "x..xx.x",  // SQD
      "x..x..x",  // SQE
      "x.....x",  // ERR
  };
  for (const QpType type : kTypes) {
    for (const QpState from : kStates) {
      for (const QpState to : kStates) {
        std::string words = refusal(type, from, to, kState | 1U << 31);
        const bool exists = words.find("there is no such transition") == std::string::npos;
        EXPECT_EQ(exists, kAllowed[raw(from)][raw(to)] == 'x') << words;
      }
    }
  }
}

TEST(QueuePairState, ToResetAndErrorTakesNothingButTheState) {
  for (const QpType type : kTypes) {
    for (const QpState from : kStates) {
      for (const QpState to : {reset, err}) {
        if (from == reset && to == err) continue;
        EXPECT_TRUE(allows(type, from, to, kState));
        for (std::uint32_t bit = kCurrentState; bit <= kRateLimit; bit <<= 1) {
          EXPECT_FALSE(allows(type, from, to, kState | bit));
        }
      }
    }
  }
}

/// Returns the attributes that a transition allows in addition to the required ones, by trying
/// each.
std::uint32_t optional_of(const Step& step) {
  std::uint32_t optional = 0;
  for (std::uint32_t bit = 1; bit != 0; bit <<= 1) {
    if ((step.required & bit) == 0 && allows(step.type, step.from, step.to, step.required | bit)) {
      optional |= bit;
    }
  }
  return optional & ~kState;
}

TEST(QueuePairState, OptionalAttributesOnTheLadder) {
  constexpr std::uint32_t kInitToRtr = kAlternatePath | kAccessFlags | kPKeyIndex;
  constexpr std::uint32_t kRtrToRts =
      kCurrentState | kAlternatePath | kAccessFlags | kPathMigrationState;
  constexpr std::array<std::uint32_t, kLadder.size()> kOptional{
      0, kPKeyIndex | kQKey, kCurrentState | kQKey,    // UD
      0, kInitToRtr,         kRtrToRts,                // UC
      0, kInitToRtr,         kRtrToRts | kMinRnrTimer  // RC
  };
  for (std::size_t i = 0; i < kLadder.size(); ++i)
    EXPECT_EQ(optional_of(kLadder[i]), kOptional[i]) << i;
}

TEST(QueuePairState, AttributesThatChangeWhileItRuns) {
  constexpr std::uint32_t kUc = kCurrentState | kAccessFlags | kAlternatePath | kPathMigrationState;
  for (const QpState from : {rts, sqd}) {
    EXPECT_EQ(optional_of({rc, from, rts, kState}), kUc | kMinRnrTimer);
    EXPECT_EQ(optional_of({uc, from, rts, kState}), kUc);
    EXPECT_EQ(optional_of({ud, from, rts, kState}), kCurrentState | kQKey);
  }
  for (const QpState from : {rtr, rts}) {
    EXPECT_EQ(optional_of({QpType::raw_packet, from, rts, kState}), kCurrentState | kRateLimit);
  }
  EXPECT_EQ(optional_of({rc, init, init, 0}), kPKeyIndex | kPort | kAccessFlags);
  EXPECT_EQ(optional_of({uc, init, init, 0}), kPKeyIndex | kPort | kAccessFlags);
  EXPECT_EQ(optional_of({ud, init, init, 0}), kPKeyIndex | kPort | kQKey);
}

TEST(QueuePairState, DrainingAndItsAttributes) {
  for (const QpType type : kTypes) {
    EXPECT_EQ(optional_of({type, rts, sqd, kState}), kEnableSqdNotify);
  }
  EXPECT_EQ(optional_of({rc, sqd, sqd, 0}), kPort | kAddressVector | kTimeout | kRetryCount |
                                                kRnrRetry | kMaxRdAtomic | kMaxDestRdAtomic |
                                                kAlternatePath | kAccessFlags | kPKeyIndex |
                                                kMinRnrTimer | kPathMigrationState);
  EXPECT_EQ(optional_of({uc, sqd, sqd, 0}),
            kAddressVector | kAlternatePath | kAccessFlags | kPKeyIndex | kPathMigrationState);
  EXPECT_EQ(optional_of({ud, sqd, sqd, 0}), kPKeyIndex | kQKey);
}

TEST(QueuePairState, SendQueueErrorIsLeftForRts) {
  EXPECT_EQ(optional_of({uc, sqe, rts, kState}), kCurrentState | kAccessFlags);
  EXPECT_EQ(optional_of({ud, sqe, rts, kState}), kCurrentState | kQKey);
}

// A program can pass any number, which the types can hold.
// NOLINTBEGIN(clang-analyzer-optin.core.EnumCastOutOfRange)
TEST(QueuePairState, XrcHalvesTakeTheirAttributesOfRcAndIgnoreTheOthers) {
  constexpr std::uint32_t kRcToRtr =
      kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn | kMaxDestRdAtomic | kMinRnrTimer;
  constexpr std::uint32_t kRcToRts =
      kState | kSendPsn | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic;
  for (const QpType type : {QpType::xrc_send, QpType::xrc_receive}) {
    EXPECT_TRUE(allows(type, init, rtr, attributes_for(type, kRcToRtr)));
    EXPECT_TRUE(allows(type, rtr, rts, attributes_for(type, kRcToRts)));
  }
  constexpr std::uint32_t kPlainToRtr = kRcToRtr & ~(kMaxDestRdAtomic | kMinRnrTimer);
  EXPECT_TRUE(allows(QpType::xrc_send, init, rtr, kPlainToRtr));
  EXPECT_FALSE(allows(QpType::xrc_receive, init, rtr, kPlainToRtr));
  EXPECT_FALSE(allows(QpType::xrc_send, rtr, rts, kState | kSendPsn | kTimeout));
  EXPECT_TRUE(allows(QpType::xrc_receive, rtr, rts, kState | kSendPsn | kTimeout));
}

TEST(QueuePairState, NumbersAndNamesOutsideTheEnumerationsAreRefused) {
  EXPECT_FALSE(allows(rc, static_cast<QpState>(7), init, kState));
  EXPECT_FALSE(allows(rc, init, static_cast<QpState>(255), kState));
  EXPECT_STREQ(name_of(static_cast<QpState>(7)), "unknown");
  EXPECT_STREQ(name_of(static_cast<QpType>(11)), "unknown");
}
// NOLINTEND(clang-analyzer-optin.core.EnumCastOutOfRange)

}  // namespace
}  // namespace verbatim::adapter
