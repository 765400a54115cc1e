#include "mad/groups/memberships.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/net/address.h"
#include "mad/groups/agreement.h"

namespace verbatim::mad {
namespace {

using wire::MadMethod;
using wire::MulticastRecord;

/// After a failure it asks again so much later, each time twice as late, and no later than
/// kAskAgainMax.
constexpr TimeNs kAskAgain = 1 * kSecond;
constexpr TimeNs kAskAgainMax = 16 * kSecond;

constexpr std::uint64_t kIdentity =
    MulticastRecord::kGroup | MulticastRecord::kPort | MulticastRecord::kJoinState;
/// Of a group that is known, beside what the member has asked for: an administrator that has
/// forgotten it makes it again from these (IBA 15.2.5.17.4), and others ask for it as it was.
constexpr std::uint64_t kKnown = kIdentity | MulticastRecord::kQKey | MulticastRecord::kPKey |
                                 MulticastRecord::kTrafficClass | MulticastRecord::kServiceLevel |
                                 MulticastRecord::kFlowLabel;

bool is_same_group(const MulticastRecord& a, MulticastRecord b) {
  b.join_state = a.join_state;
  return a == b;
}

}  // namespace

std::uint8_t Memberships::Group::wanted() const {
  return std::accumulate(members.begin(), members.end(), std::uint8_t{0},
                         [](std::uint8_t states, const Member& member) {
                           return static_cast<std::uint8_t>(states | member.wanted.join_state);
                         });
}

Result<void> Memberships::join(MembershipId member, const MulticastRecord& wanted,
                               std::uint64_t components) {
  if (!wanted.group.is_zero() && !wanted.group.is_multicast()) {
    return refuse(EINVAL, fmt::format("{} is no multicast GID", gid_text(wanted.group)));
  }
  if (wanted.join_state == 0 || wanted.join_state > wire::kJoinStates || wanted.proxy_join) {
    return refuse(EINVAL, fmt::format("join state {:#x} makes no member", wanted.join_state));
  }
  for (const Group& group : groups_) {
    if (std::ranges::find(group.members, member, &Member::id) != group.members.end()) {
      return refuse(EEXIST, fmt::format("membership {} is there already", member.number));
    }
  }
  if (member_count() >= kMembersMax) return refuse(ENOBUFS, "no room for another membership");
  Group& group = group_of(wanted.group);
  group.members.push_back({.id = member, .wanted = wanted, .components = components});
  group.ask_again_at = kNever;
  advance(group);
  return {};
}

void Memberships::leave(MembershipId member) {
  for (Group& group : groups_) {
    if (std::erase_if(group.members, [&](const Member& one) { return one.id == member; }) != 0) {
      advance(group);
    }
  }
  forget_empty();
}

void Memberships::leave_all(std::uint32_t program) {
  for (Group& group : groups_) {
    std::erase_if(group.members,
                  [&](const Member& member) { return member.id.program == program; });
    advance(group);
  }
  forget_empty();
}

std::size_t Memberships::member_count() const {
  return std::accumulate(
      groups_.begin(), groups_.end(), std::size_t{0},
      [](std::size_t sum, const Group& group) { return sum + group.members.size(); });
}

/// Groups that the administrator is to make are different ones.
Memberships::Group& Memberships::group_of(const Gid& gid) {
  const auto known = std::ranges::find(groups_, gid, &Group::gid);
  if (known != groups_.end() && !gid.is_zero()) return *known;
  Group& group = groups_.emplace_back();
  group.gid = gid;
  return group;
}

/// The next step of a group: one question at a time.
void Memberships::advance(Group& group) {
  if (group.asked || group.ask_again_at != kNever) return;
  admit(group);
  for (const Member& member : group.members) {
    if (group.lacks(member)) return ask_to_join(group, member);
  }
  const auto unwanted = static_cast<std::uint8_t>(group.joined & ~group.wanted());
  if (unwanted != 0) ask(group, MadMethod::remove, unwanted, {}, *group.record, kIdentity);
}

/// Members that need no question, because the port is what they want to be.
void Memberships::admit(Group& group) {
  std::erase_if(group.members, [&](Member& member) {
    if (member.is_in || group.lacks(member)) return false;
    member.is_in = agrees(*group.record, member.wanted, member.components);
    if (member.is_in) {
      outputs_.push_back(TellMember{member.id, *group.record});
    } else {
      outputs_.push_back(TellMember{
          member.id,
          refuse(EINVAL, fmt::format("group {} has other attributes", gid_text(group.gid)))});
    }
    return !member.is_in;
  });
}

void Memberships::ask_to_join(Group& group, const Member& member) {
  if (group.record) {
    const auto lacking = static_cast<std::uint8_t>(group.wanted() & ~group.joined);
    return ask(group, MadMethod::set, lacking, member.id, *group.record,
               kKnown | member.components);
  }
  ask(group, MadMethod::set, member.wanted.join_state, member.id, member.wanted,
      member.components | MulticastRecord::kPort | MulticastRecord::kJoinState);
}

void Memberships::ask(Group& group, MadMethod method, std::uint8_t states, MembershipId asker,
                      MulticastRecord record, std::uint64_t components) {
  group.asked = {.ticket = ++last_ticket_, .method = method, .states = states, .asker = asker};
  record.join_state = states;
  outputs_.push_back(AskAdministrator{
      .ticket = last_ticket_, .method = method, .record = record, .components = components});
}

Memberships::Group* Memberships::asking(std::uint32_t ticket) {
  const auto found = std::ranges::find_if(groups_, [ticket](const Group& group) {
    return group.asked && group.asked->ticket == ticket;
  });
  return found == groups_.end() ? nullptr : &*found;
}

void Memberships::on_answer(std::uint32_t ticket, const Result<MulticastRecord>& answer,
                            TimeNs now) {
  Group* const group = asking(ticket);
  if (group == nullptr) return;  // It has been asked again meanwhile.
  const Question question = *std::exchange(group->asked, std::nullopt);
  if (question.method == MadMethod::remove) {
    // Whatever it answers, the port is no member: if it has not heard, nobody can make it.
    group->joined = static_cast<std::uint8_t>(group->joined & ~question.states);
    if (group->joined == 0) group->record.reset();
  } else if (answer) {
    on_joined(*group, question, *answer);
  } else {
    on_refused(*group, question, answer.error(), now);
  }
  advance(*group);
  forget_empty();
}

void Memberships::on_joined(Group& group, const Question& question, const MulticastRecord& record) {
  group.joined |= question.states;
  group.failures = 0;
  group.gid = record.group;
  const bool has_changed = !group.record || !is_same_group(*group.record, record);
  group.record = record;
  if (!has_changed) return;
  for (const Member& member : group.members) {
    if (member.is_in) outputs_.push_back(TellMember{member.id, record});
  }
}

/// Members that are in stay as long as the administrator may answer later. The refusal of what one
/// wants says nothing of what another wants.
void Memberships::on_refused(Group& group, const Question& question, const Error& error,
                             TimeNs now) {
  const bool may_succeed_later = error.code == ETIMEDOUT || error.code == EAGAIN;
  std::erase_if(group.members, [&](const Member& member) {
    const bool is_refused =
        member.is_in ? !may_succeed_later : may_succeed_later || member.id == question.asker;
    if (!group.lacks(member) || !is_refused) return false;
    outputs_.push_back(TellMember{member.id, std::unexpected(error)});
    return true;
  });
  const auto waits = [&](const Member& member) { return member.is_in && group.lacks(member); };
  if (!may_succeed_later || std::ranges::none_of(group.members, waits)) return;
  group.ask_again_at = now + std::min(kAskAgain << std::min(group.failures++, 8u), kAskAgainMax);
}

void Memberships::join_again() {
  for (Group& group : groups_) {
    group.joined = 0;
    group.asked.reset();
    group.ask_again_at = kNever;
    group.failures = 0;
    advance(group);
  }
  forget_empty();
}

TimeNs Memberships::deadline() const {
  TimeNs first = kNever;
  for (const Group& group : groups_) first = std::min(first, group.ask_again_at);
  return first;
}

void Memberships::on_time(TimeNs now) {
  for (Group& group : groups_) {
    if (group.ask_again_at > now) continue;
    group.ask_again_at = kNever;
    advance(group);
  }
}

void Memberships::forget_empty() {
  std::erase_if(groups_, [](const Group& group) { return group.is_over(); });
}

std::optional<GroupOutput> Memberships::take_output() {
  if (outputs_.empty()) return std::nullopt;
  GroupOutput first = std::move(outputs_.front());
  outputs_.pop_front();
  return first;
}

}  // namespace verbatim::mad
