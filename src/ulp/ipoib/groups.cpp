#include "ulp/ipoib/groups.h"

#include <algorithm>
#include <utility>

namespace verbatim::ulp::ipoib {

void Groups::send(const Gid& gid, EtherType type, ByteSpan packet, TimeNs now, Outputs& out) {
  Group* const group = group_at(gid, 0, now, out);
  if (group == nullptr) return static_cast<void>(++counters_.no_room);
  group->last_used = now;
  if (group->way) {
    ++counters_.packets;
    return static_cast<void>(
        out.push(SendPacket{.to = {*group->way, kMulticastQpn}, .type = type, .packet = packet}));
  }
  if (group->waiting.size() == kWaiting) return static_cast<void>(++counters_.no_room);
  group->waiting.push_back({type, copy_of(packet)});
}

void Groups::listen(const Gid& gid, TimeNs now, Outputs& out) {
  Group* const group = group_at(gid, 1, now, out);
  if (group == nullptr) return;
  // A group that is asked for, or waits to ask again, says it when it is joined.
  if (group->way && !group->receives) join(gid, *group, out);
}

void Groups::unlisten(const Gid& gid, TimeNs now) {
  const auto found = groups_.find(gid);
  if (found == groups_.end() || found->second.listeners == 0) return;
  if (--found->second.listeners > 0) return;
  found->second.last_used = now;
  set_due(found->second, now + kIdle);
}

Groups::Group* Groups::group_at(const Gid& gid, std::uint32_t listeners, TimeNs now, Outputs& out) {
  if (const auto known = groups_.find(gid); known != groups_.end()) {
    known->second.listeners += listeners;
    return &known->second;
  }
  if (groups_.size() == kGroupsMax && !make_room(out)) return nullptr;
  Group& group = groups_[gid];
  group.listeners = listeners;
  group.last_used = now;
  join(gid, group, out);
  return &group;
}

/// Leaves the one that was used longest ago, and that nobody listens to.
bool Groups::make_room(Outputs& out) {
  auto oldest = groups_.end();
  for (auto at = groups_.begin(); at != groups_.end(); ++at) {
    if (at->second.listeners > 0 || at->second.is_asked) continue;
    if (oldest == groups_.end() || at->second.last_used < oldest->second.last_used) oldest = at;
  }
  if (oldest == groups_.end()) return false;
  leave(oldest, out);
  return true;
}

/// One whose join was refused is no longer joined.
void Groups::leave(Map::iterator group, Outputs& out) {
  if (group->second.way || group->second.is_asked) out.push(Leave{group->first});
  groups_.erase(group);
}

void Groups::join(const Gid& gid, Group& group, Outputs& out) {
  group.is_asked = true;
  group.due = kNever;
  group.receives = group.listeners > 0;
  out.push(Join{gid, group.receives});
}

void Groups::set_due(Group& group, TimeNs due) {
  group.due = due;
  due_ = std::min(due_, due);
}

void Groups::on_group(const Gid& gid, std::optional<WayId> way, TimeNs now, Outputs& out) {
  const auto found = groups_.find(gid);
  if (found == groups_.end()) return;
  Group& group = found->second;
  group.is_asked = false;
  group.way = way;
  if (!way) {
    counters_.unreachable += std::exchange(group.waiting, {}).size();
    const TimeNs wait = std::min(kJoinAgain << std::min(group.failures++, 8u), kJoinAgainMax);
    return set_due(group, now + wait);
  }
  group.failures = 0;
  if (group.listeners > 0 && !group.receives) join(gid, group, out);
  if (group.listeners == 0) set_due(group, group.last_used + kIdle);
  release(group, out);
}

void Groups::release(Group& group, Outputs& out) {
  for (Held& held : std::exchange(group.waiting, {})) {
    if (!has_room(out)) return static_cast<void>(++counters_.no_room);
    released_.push_back(std::move(held.packet));
    out.push(SendPacket{
        .to = {*group.way, kMulticastQpn}, .type = held.type, .packet = released_.back()});
    ++counters_.packets;
  }
}

void Groups::on_time(TimeNs now, Outputs& out) {
  if (now < due_) return;
  due_ = kNever;
  for (auto at = groups_.begin(); at != groups_.end();) {
    const auto next = std::next(at);
    Group& group = at->second;
    if (group.due <= now && !has_room(out)) {
      due_ = now;
      return;
    }
    if (group.due > now) {
      due_ = std::min(due_, group.due);
    } else if (group.listeners == 0 && (!group.way || group.last_used + kIdle <= now)) {
      leave(at, out);
    } else if (group.listeners == 0) {
      set_due(group, group.last_used + kIdle);
    } else if (!group.way) {
      join(at->first, group, out);
    } else {
      group.due = kNever;
    }
    at = next;
  }
}

std::vector<Groups::Shown> Groups::shown() const {
  std::vector<Shown> all;
  for (const auto& [gid, group] : groups_)
    all.push_back({.group = gid, .is_ready = group.way.has_value(), .receives = group.receives});
  return all;
}

}  // namespace verbatim::ulp::ipoib
