#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "wire/mad/mad.h"
#include "wire/subnet/multicast_record.h"

/// The multicast groups that a port is in, for all programs that use it. Without I/O.
namespace verbatim::mad {

/// A membership of a program: its number is the program's choice.
struct MembershipId {
  std::uint32_t program = 0;
  std::uint32_t number = 0;
  friend bool operator==(const MembershipId&, const MembershipId&) = default;
};

/// The subnet administrator shall be asked: SubnAdmSet joins, SubnAdmDelete leaves. The owner adds
/// the port's GID.
struct AskAdministrator {
  std::uint32_t ticket = 0;  // Names the answer.
  wire::MadMethod method{};
  wire::MulticastRecord record;
  std::uint64_t components = 0;
};
/// A member learns that it is in its group, or that the group has become another one (its LID, for
/// instance). With an error it is a member no longer.
struct TellMember {
  MembershipId member;
  Result<wire::MulticastRecord> group;
};
using GroupOutput = std::variant<AskAdministrator, TellMember>;

/// Joins each group once for all its members, as Linux does: the administrator knows ports, not
/// programs. It leaves what no member needs any more, and joins all groups again when a subnet
/// manager may have forgotten them. A pure step: the owner drains `take_output` after each call.
class Memberships {
 public:
  static constexpr std::size_t kMembersMax = 4096;

  /// `components` of `wanted` count; a group of zeros is made by the administrator. EINVAL: the
  /// record makes no sense; EEXIST: there is such a member; ENOBUFS beyond kMembersMax.
  Result<void> join(MembershipId member, const wire::MulticastRecord& wanted,
                    std::uint64_t components);
  void leave(MembershipId member);
  /// The program has ended.
  void leave_all(std::uint32_t program);

  /// What the administrator says, or why it says nothing: ETIMEDOUT, EAGAIN.
  void on_answer(std::uint32_t ticket, const Result<wire::MulticastRecord>& answer, TimeNs now);
  /// The subnet manager wants it, or is another one, or the port has another LID (IBA 14.4.11).
  void join_again();
  void on_time(TimeNs now);
  TimeNs deadline() const;

  std::optional<GroupOutput> take_output();

 private:
  struct Member {
    MembershipId id;
    wire::MulticastRecord wanted;
    std::uint64_t components = 0;
    bool is_in = false;
  };
  struct Question {
    std::uint32_t ticket = 0;
    wire::MadMethod method{};
    std::uint8_t states = 0;
    MembershipId asker;
  };
  struct Group {
    Gid gid;  // Zero until the administrator has made it.
    std::vector<Member> members;
    std::optional<wire::MulticastRecord> record;  // As last answered.
    std::uint8_t joined = 0;                      // Join states that the administrator knows.
    std::optional<Question> asked;                // One at a time.
    TimeNs ask_again_at = kNever;
    unsigned failures = 0;

    std::uint8_t wanted() const;  // The join states of all members.
    bool lacks(const Member& member) const { return (member.wanted.join_state & ~joined) != 0; }
    bool is_over() const { return members.empty() && joined == 0 && !asked; }
  };

  std::size_t member_count() const;
  Group& group_of(const Gid& gid);
  Group* asking(std::uint32_t ticket);
  void advance(Group& group);
  void admit(Group& group);
  void ask_to_join(Group& group, const Member& member);
  void ask(Group& group, wire::MadMethod method, std::uint8_t states, MembershipId asker,
           wire::MulticastRecord record, std::uint64_t components);
  void on_joined(Group& group, const Question& question, const wire::MulticastRecord& record);
  void on_refused(Group& group, const Question& question, const Error& error, TimeNs now);
  void forget_empty();

  std::list<Group> groups_;
  std::deque<GroupOutput> outputs_;
  std::uint32_t last_ticket_ = 0;
};

}  // namespace verbatim::mad
