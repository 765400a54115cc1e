#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulp/scsi/alua/access_state.h"
#include "ulp/scsi/cdb.h"
#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/plan.h"

/// Asymmetric access (ALUA; SPC-4, 5.15.2): how well each of our ports reaches a disk.
namespace verbatim::ulp::scsi {

/// A unit, as port groups know it.
class GroupedUnit {
 public:
  /// Each initiator but this one is to be told that states have changed.
  virtual void on_access_changed(std::optional<NexusId> but) = 0;

 protected:
  ~GroupedUnit() = default;
};

/// Who has changed a group's state last.
enum class AccessStatus : std::uint8_t { nobody = 0, initiator = 1, target = 2 };

/// Ports with one access state: an `alua` folder, by LIO's names in the comments.
struct PortGroup {
  struct Member {
    std::uint16_t port = 1;   // Relative target port identifier.
    bool is_offline = false;  // alua_tg_pt_offline.
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::string name;      // The administrator's.
  std::uint16_t id = 0;  // tg_pt_gp_id.
  AccessState state{};
  AccessStatus status{};
  std::uint8_t supported = 0x01;        // alua_support_*: bits of the states, as they are reported.
  std::uint8_t transition_seconds = 0;  // implicit_trans_secs: told, not taken.
  bool is_preferred = false;
  bool is_implicit = true, is_explicit = false;  // alua_access_type.
  std::vector<Member> ports{};
  friend bool operator==(const PortGroup&, const PortGroup&) = default;
};

/// The groups of a disk's ports, whichever units show it: units of one disk share it. A port that
/// is in no group is as if it were in the first.
class PortGroups {
 public:
  /// An initiator at one of the units.
  struct Asker {
    GroupedUnit* unit = nullptr;
    NexusId nexus{};
    std::uint16_t port = 1;
  };
  using Follower = std::function<void(const PortGroup&)>;

  /// All in one group, which is always active.
  explicit PortGroups(std::span<const std::uint16_t> ports);

  /// As the administrator has set them, at least one. Initiators are told of what has changed.
  void set(std::vector<PortGroup> groups);
  /// Called for each group whose state an initiator has changed.
  void follow(Follower follower) { follower_ = std::move(follower); }
  void add(GroupedUnit& unit) { units_.push_back(&unit); }
  void remove(GroupedUnit& unit) { std::erase(units_, &unit); }

  const PortGroup& of(std::uint16_t port) const;
  std::size_t port_count() const;
  /// Whether there is a port by which a command may be refused. Else two loads tell that none is.
  bool restricts() const { return restricts_; }
  /// Why the command is not carried out by this port now, if it is not.
  std::optional<Sense> refusal(std::uint16_t port, Operation operation) const;

  /// REPORT TARGET PORT GROUPS.
  std::optional<Sense> report(const Cdb& cdb, std::uint16_t port, DataWriter& out) const;
  /// SET TARGET PORT GROUPS: all that is asked for, or nothing.
  Answer change(const Asker& by, ByteSpan parameters);

 private:
  AccessState state_of(std::uint16_t port) const;
  PortGroup* find(std::uint16_t id);
  std::optional<Sense> objection(ByteSpan parameters);
  void settle();
  void tell(const Asker* by);

  std::vector<PortGroup> groups_;
  bool restricts_ = false;
  std::vector<GroupedUnit*> units_;
  Follower follower_;
};

}  // namespace verbatim::ulp::scsi
