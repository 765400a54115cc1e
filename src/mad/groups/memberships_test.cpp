#include "mad/groups/memberships.h"

#include <cerrno>
#include <map>

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

using wire::kFullMember;
using wire::kSendOnlyFullMember;
using wire::MadMethod;
using wire::MulticastRecord;

constexpr Gid kGroup{{0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
constexpr std::uint64_t kComponents = MulticastRecord::kGroup | MulticastRecord::kPort |
                                      MulticastRecord::kJoinState | MulticastRecord::kQKey;
constexpr MembershipId kFirst{.program = 1, .number = 7};
constexpr MembershipId kOther{.program = 2, .number = 7};

MulticastRecord wanted(std::uint8_t state = kFullMember, std::uint32_t qkey = 5) {
  return {.group = kGroup, .qkey = qkey, .join_state = state};
}

/// A port's memberships, and what they have said to the members and asked of the administrator.
struct MembershipsTest : testing::Test {
  /// The one question that was asked since the last call.
  AskAdministrator asked() {
    drain();
    EXPECT_EQ(questions.size(), 1u);
    AskAdministrator question = questions.empty() ? AskAdministrator{} : questions.front();
    questions.clear();
    return question;
  }
  bool asks_nothing() {
    drain();
    return questions.empty();
  }
  void answer(const AskAdministrator& question, std::uint16_t lid = 0xc001) {
    MulticastRecord record = question.record;
    if (record.group.is_zero()) record.group = kGroup;
    record.lid = lid;
    memberships.on_answer(question.ticket, record, now);
    drain();
  }
  void refuse_it(const AskAdministrator& question, int code) {
    memberships.on_answer(question.ticket, refuse(code, "no"), now);
    drain();
  }
  void join(MembershipId id, const MulticastRecord& record = wanted()) {
    ASSERT_TRUE(memberships.join(id, record, kComponents));
  }
  /// The member's group LID as it was last told; the error, negative; 0: nothing.
  int told(MembershipId id) {
    drain();
    const auto found = lids.find(id.program);
    return found == lids.end() ? 0 : std::exchange(found->second, 0);
  }

  Memberships memberships;
  TimeNs now = 0;

 private:
  void drain() {
    while (const auto output = memberships.take_output()) {
      if (const auto* const question = std::get_if<AskAdministrator>(&*output)) {
        questions.push_back(*question);
      } else {
        const auto& tell = std::get<TellMember>(*output);
        lids[tell.member.program] = tell.group ? tell.group->lid : -tell.group.error().code;
      }
    }
  }
  std::vector<AskAdministrator> questions;
  std::map<std::uint32_t, int> lids;
};

TEST_F(MembershipsTest, ThePortJoinsOnceForAllAndLeavesAfterTheLast) {
  join(kFirst);
  const auto question = asked();
  EXPECT_EQ(question.method, MadMethod::set);
  EXPECT_EQ(question.record, wanted());
  EXPECT_EQ(question.components, kComponents);
  join(kOther);  // While the first one waits.
  EXPECT_TRUE(asks_nothing());
  answer(question);
  EXPECT_EQ(told(kFirst), 0xc001);
  EXPECT_EQ(told(kOther), 0xc001);
  memberships.leave(kFirst);
  EXPECT_TRUE(asks_nothing());
  memberships.leave(kOther);
  const auto leaving = asked();
  EXPECT_EQ(leaving.method, MadMethod::remove);
  EXPECT_EQ(leaving.record.join_state, kFullMember);
  EXPECT_EQ(leaving.record.group, kGroup);
  answer(leaving);
  EXPECT_TRUE(asks_nothing());
}

TEST_F(MembershipsTest, AnEndedProgramLeavesAllItsGroups) {
  join({1, 1});
  answer(asked());
  MulticastRecord other = wanted();
  other.group.bytes[15] = 10;
  join({1, 2}, other);
  answer(asked());
  memberships.leave_all(1);
  unsigned removed = 0;
  while (const auto output = memberships.take_output()) {
    removed += std::get<AskAdministrator>(*output).method == MadMethod::remove;
  }
  EXPECT_EQ(removed, 2u);
}

TEST_F(MembershipsTest, WhoLeavesBeforeTheAnswerLeavesAfterIt) {
  join(kFirst);
  const auto question = asked();
  memberships.leave(kFirst);
  EXPECT_TRUE(asks_nothing());
  memberships.on_answer(question.ticket, question.record, now);
  EXPECT_EQ(asked().method, MadMethod::remove);
  EXPECT_EQ(told(kFirst), 0);
}

TEST_F(MembershipsTest, JoinStatesAreCountedOneByOne) {
  join(kFirst);
  answer(asked());
  join(kOther, wanted(kSendOnlyFullMember));
  const auto question = asked();
  EXPECT_EQ(question.record.join_state, kSendOnlyFullMember);
  answer(question);
  EXPECT_EQ(told(kOther), 0xc001);
  memberships.leave(kFirst);
  EXPECT_EQ(asked().record.join_state, kFullMember);
}

TEST_F(MembershipsTest, AMemberThatWantsOtherAttributesIsRefused) {
  join(kFirst);
  answer(asked());
  join(kOther, wanted(kFullMember, 6));
  EXPECT_TRUE(asks_nothing());
  EXPECT_EQ(told(kOther), -EINVAL);
  EXPECT_EQ(told(kFirst), 0xc001);
}

TEST_F(MembershipsTest, TheRefusalOfOneIsNotThatOfAnother) {
  join(kFirst, wanted(kFullMember, 6));
  const auto question = asked();
  join(kOther);
  refuse_it(question, EINVAL);
  EXPECT_EQ(told(kFirst), -EINVAL);
  EXPECT_EQ(told(kOther), 0);
  answer(asked());
  EXPECT_EQ(told(kOther), 0xc001);
  join(kFirst, wanted(kSendOnlyFullMember));
  refuse_it(asked(), EACCES);
  EXPECT_EQ(told(kFirst), -EACCES);
  EXPECT_EQ(told(kOther), 0) << "it is in with what it wants";
}

TEST_F(MembershipsTest, AnAdministratorThatMayHaveForgottenIsAskedAgainWithWhatMadeTheGroup) {
  join(kFirst);
  MulticastRecord answered = wanted();
  answered.lid = 0xc001;
  answered.pkey = 0xffff;
  answered.service_level = 3;
  memberships.on_answer(asked().ticket, answered, now);
  EXPECT_EQ(told(kFirst), 0xc001);
  memberships.join_again();
  const auto question = asked();
  EXPECT_EQ(question.record.pkey, 0xffff);
  EXPECT_EQ(question.record.service_level, 3);
  EXPECT_NE(question.components & MulticastRecord::kPKey, 0u);
  EXPECT_EQ(question.components & MulticastRecord::kLid, 0u);
  answer(question, 0xc001);
  EXPECT_EQ(told(kFirst), 0) << "nothing has changed";
  memberships.join_again();
  answer(asked(), 0xc005);
  EXPECT_EQ(told(kFirst), 0xc005);
}

TEST_F(MembershipsTest, AnAnswerOfBeforeIsIgnored) {
  join(kFirst);
  const auto before = asked();
  memberships.join_again();
  const auto question = asked();
  answer(before, 0xc009);
  EXPECT_EQ(told(kFirst), 0);
  answer(question, 0xc002);
  EXPECT_EQ(told(kFirst), 0xc002);
}

TEST_F(MembershipsTest, JoiningAgainIsRepeatedLaterAndLater) {
  join(kFirst);
  answer(asked());
  told(kFirst);
  memberships.join_again();
  for (const TimeNs wait : {1, 2, 4, 8, 16, 16}) {
    refuse_it(asked(), ETIMEDOUT);
    EXPECT_EQ(memberships.deadline(), now + wait * kSecond);
    now = memberships.deadline();
    memberships.on_time(now);
  }
  EXPECT_EQ(told(kFirst), 0);
  answer(asked());
  EXPECT_EQ(memberships.deadline(), kNever);
  memberships.join_again();
  refuse_it(asked(), EACCES);
  EXPECT_EQ(told(kFirst), -EACCES);
  EXPECT_TRUE(asks_nothing());
  EXPECT_EQ(memberships.deadline(), kNever);
}

TEST_F(MembershipsTest, WithoutAnAnswerANewMemberIsTold) {
  join(kFirst);
  refuse_it(asked(), ETIMEDOUT);
  EXPECT_EQ(told(kFirst), -ETIMEDOUT);
  EXPECT_EQ(memberships.deadline(), kNever);
}

TEST_F(MembershipsTest, TheAdministratorMakesGroups) {
  MulticastRecord any = wanted();
  any.group = {};
  join(kFirst, any);
  const auto question = asked();
  join(kOther, any);
  const auto second = asked();  // Another group.
  EXPECT_NE(question.ticket, second.ticket);
  answer(question);
  EXPECT_EQ(told(kFirst), 0xc001);
  memberships.join_again();
  while (const auto output = memberships.take_output()) {
    const auto& ask = std::get<AskAdministrator>(*output);
    EXPECT_EQ(ask.record.group, ask.record.lid == 0xc001 ? kGroup : Gid{});
  }
}

TEST_F(MembershipsTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(memberships.join(kFirst, wanted(0), kComponents).error().code, EINVAL);
  EXPECT_EQ(memberships.join(kFirst, wanted(16), kComponents).error().code, EINVAL);
  MulticastRecord unicast = wanted();
  unicast.group.bytes[0] = 0xfe;
  EXPECT_EQ(memberships.join(kFirst, unicast, kComponents).error().code, EINVAL);
  join(kFirst);
  EXPECT_EQ(memberships.join(kFirst, wanted(), kComponents).error().code, EEXIST);
  for (std::uint32_t i = 1; i < Memberships::kMembersMax; ++i) join({.program = 3, .number = i});
  EXPECT_EQ(memberships.join(kOther, wanted(), kComponents).error().code, ENOBUFS);
}

/// Else it would have the MTU that the administrator chooses, and who asks for the old one is
/// refused.
TEST_F(MembershipsTest, ForgottenGroupIsMadeAgainAsItsMemberAskedForIt) {
  constexpr std::uint64_t kLimits = MulticastRecord::kMtuSelector | MulticastRecord::kMtu |
                                    MulticastRecord::kRateSelector | MulticastRecord::kRate |
                                    MulticastRecord::kHopLimit;
  MulticastRecord record = wanted();
  record.mtu_selector = record.rate_selector = 2;
  record.mtu = 4;
  record.rate = 3;
  ASSERT_TRUE(memberships.join(kFirst, record, kComponents | kLimits));
  answer(asked());
  memberships.join_again();
  const auto question = asked();
  EXPECT_EQ(question.components & kLimits, kLimits);
  EXPECT_EQ(question.record.mtu, 4);
  EXPECT_EQ(question.record.rate, 3);
}

}  // namespace
}  // namespace verbatim::mad
