#include "ulp/scsi/alua/port_groups.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/assert.h"
#include "base/types.h"

namespace verbatim::ulp::scsi {
namespace {

using enum Operation;

/// SPC-4, 5.15.2.4.4 and 5.15.2.4.5, and what LIO adds: READ CAPACITY of standby ports.
constexpr Operation kInStandby[] = {
    inquiry,
    report_luns,
    request_sense,
    mode_select,
    mode_sense,
    read_capacity_10,
    read_capacity_16,
    persistent_reserve_in,
    persistent_reserve_out,
    report_port_groups,
    set_port_groups,
};
constexpr Operation kIfUnavailable[] = {inquiry, report_luns, request_sense, report_port_groups,
                                        set_port_groups};

template <typename Range, typename Value, typename Projection = std::identity>
bool is_in(const Range& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

struct StateRow {
  AccessState state;
  std::uint8_t supported;  // Its bit in REPORT TARGET PORT GROUPS.
  SenseCode code = SenseCode::none;
  std::span<const Operation> allowed{};
};
/// Primary states: what SET TARGET PORT GROUPS may ask for; a port that is offline would have no
/// way back.
constexpr StateRow kStates[] = {
    {AccessState::optimized, 0x01},
    {AccessState::non_optimized, 0x02},
    {AccessState::standby, 0x04, SenseCode::port_in_standby, kInStandby},
    {AccessState::unavailable, 0x08, SenseCode::port_unavailable, kIfUnavailable},
};
constexpr StateRow kOffline{AccessState::offline, 0x40, SenseCode::port_offline, kIfUnavailable};

const StateRow& row_of(AccessState state) {
  const auto row = std::ranges::find(kStates, state, &StateRow::state);
  return row == std::end(kStates) ? kOffline : *row;
}
bool is_restricted(AccessState state) { return row_of(state).code != SenseCode::none; }

constexpr std::size_t kHeader = 4, kDescriptor = 4;  // Of SET TARGET PORT GROUPS (SPC-4, 6.45).

AccessState state_in(ByteSpan descriptor) {
  return AccessState{static_cast<std::uint8_t>(std::to_integer<unsigned>(descriptor[0]) & 0xf)};
}

}  // namespace

PortGroups::PortGroups(std::span<const std::uint16_t> ports) : groups_(1) {
  for (const std::uint16_t port : ports) groups_[0].ports.push_back({.port = port});
}

const PortGroup& PortGroups::of(std::uint16_t port) const {
  const auto has_port = [&](const PortGroup& group) {
    return is_in(group.ports, port, &PortGroup::Member::port);
  };
  const auto group = std::ranges::find_if(groups_, has_port);
  return group == groups_.end() ? groups_.front() : *group;
}

AccessState PortGroups::state_of(std::uint16_t port) const {
  const PortGroup& group = of(port);
  const bool is_offline = is_in(group.ports, PortGroup::Member{port, true});
  return is_offline ? AccessState::offline : group.state;
}

PortGroup* PortGroups::find(std::uint16_t id) {
  const auto group = std::ranges::find(groups_, id, &PortGroup::id);
  return group == groups_.end() ? nullptr : &*group;
}

std::size_t PortGroups::port_count() const {
  std::size_t count = 0;
  for (const PortGroup& group : groups_) count += group.ports.size();
  return count;
}

void PortGroups::set(std::vector<PortGroup> groups) {
  VERBATIM_ASSERT(!groups.empty());
  if (groups == groups_) return;
  const PortGroups before = *this;
  groups_ = std::move(groups);
  settle();
  const bool has_changed = std::ranges::any_of(before.groups_, [&](const PortGroup& old) {
    const PortGroup* const now = find(old.id);
    return (now != nullptr && now->state != old.state) ||
           std::ranges::any_of(old.ports, [&](const PortGroup::Member& member) {
             return state_of(member.port) != before.state_of(member.port);
           });
  });
  if (has_changed) tell(nullptr);
}

void PortGroups::settle() {
  restricts_ = std::ranges::any_of(groups_, [](const PortGroup& group) {
    return is_restricted(group.state) ||
           std::ranges::any_of(group.ports, &PortGroup::Member::is_offline);
  });
}

void PortGroups::tell(const Asker* by) {
  for (GroupedUnit* const unit : units_)
    unit->on_access_changed(by != nullptr && by->unit == unit ? std::optional(by->nexus)
                                                              : std::nullopt);
}

std::optional<Sense> PortGroups::refusal(std::uint16_t port, Operation operation) const {
  const StateRow& row = row_of(state_of(port));
  if (row.code == SenseCode::none || is_in(row.allowed, operation)) return {};
  return Sense{SenseKey::not_ready, row.code, {}, {}};
}

std::optional<Sense> PortGroups::report(const Cdb& cdb, std::uint16_t port, DataWriter& out) const {
  const unsigned format = cdb.bytes[1] >> 5;
  if (format > 1) return invalid_field(1, 7);
  out.put<std::uint32_t>(0);
  if (format == 1) {  // Extended.
    out.byte(0x10);
    out.byte(of(port).transition_seconds);
    out.zeros(2);
  }
  for (const PortGroup& group : groups_) {
    const auto ports = std::span(group.ports).first(std::min<std::size_t>(group.ports.size(), 255));
    out.byte((group.is_preferred ? 0x80u : 0u) | raw(group.state));
    out.byte(group.supported);
    out.put(group.id);
    out.byte(0);
    out.byte(raw(group.status));
    out.byte(0);
    out.byte(static_cast<unsigned>(ports.size()));
    for (const PortGroup::Member& member : ports) {
      out.put<std::uint16_t>(0);
      out.put(member.port);
    }
  }
  out.set(0, static_cast<std::uint32_t>(out.size() - 4));
  return {};
}

/// Each descriptor names a group, and a primary state that the group supports.
std::optional<Sense> PortGroups::objection(ByteSpan parameters) {
  if (parameters.size() < kHeader || (parameters.size() - kHeader) % kDescriptor != 0)
    return illegal_request(SenseCode::parameter_list_length_error);
  for (std::size_t at = kHeader; at < parameters.size(); at += kDescriptor) {
    const AccessState state = state_in(parameters.subspan(at));
    const PortGroup* const group = find(load_be<std::uint16_t>(&parameters[at + 2]));
    const auto field = static_cast<std::uint16_t>(at);
    if (group == nullptr) return invalid_parameter(static_cast<std::uint16_t>(field + 2));
    const StateRow& row = row_of(state);
    if (row.state != state || state == AccessState::offline ||
        (group->supported & row.supported) == 0)
      return invalid_parameter(field, 3);
  }
  return {};
}

/// Transitions take no time: no group is ever seen between two states.
Answer PortGroups::change(const Asker& by, ByteSpan parameters) {
  if (!of(by.port).is_explicit)
    return scsi::refusal(illegal_request(SenseCode::invalid_operation_code));
  if (const auto sense = objection(parameters)) return scsi::refusal(*sense);
  bool has_changed = false;
  for (std::size_t at = kHeader; at < parameters.size(); at += kDescriptor) {
    PortGroup& group = *find(load_be<std::uint16_t>(&parameters[at + 2]));
    const AccessState state = state_in(parameters.subspan(at));
    if (std::exchange(group.state, state) == state) continue;
    has_changed = true;
    group.status = AccessStatus::initiator;
    if (follower_) follower_(group);
  }
  settle();
  if (has_changed) tell(&by);
  return {};
}

}  // namespace verbatim::ulp::scsi
