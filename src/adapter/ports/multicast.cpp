#include "adapter/ports/multicast.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "base/net/address.h"

namespace verbatim::adapter {

Result<void> Multicast::attach(QueuePair& queue_pair, const MulticastGroup& address) {
  if (!address.gid.is_multicast())
    return refuse(EINVAL, fmt::format("{} is no multicast GID", gid_text(address.gid)));
  const std::lock_guard guard(lock_);
  auto group = std::ranges::find(groups_, address, &Group::address);
  if (group != groups_.end()) {
    if (std::ranges::find(group->members, &queue_pair) != group->members.end()) return {};
    if (group->members.size() >= Limits::multicast_attachments) {
      return refuse(ENOMEM, "the group has no room for another queue pair");
    }
    progress_.between_passes([&] { group->members.push_back(&queue_pair); });
    return {};
  }
  if (groups_.size() >= Limits::multicast_groups)
    return refuse(ENOMEM, "no room for another group");
  if (auto joined = join_(address); !joined) return joined;
  progress_.between_passes([&] { groups_.push_back({address, {&queue_pair}}); });
  return {};
}

Result<void> Multicast::detach(QueuePair& queue_pair, const MulticastGroup& address) {
  const std::lock_guard guard(lock_);
  const auto group = std::ranges::find_if(groups_, [&](const Group& one) {
    return one.address.gid == address.gid && one.address.lid == address.lid &&
           std::ranges::find(one.members, &queue_pair) != one.members.end();
  });
  if (group == groups_.end()) {
    return refuse(EINVAL, fmt::format("the queue pair is not in group {}", gid_text(address.gid)));
  }
  leave(*group, queue_pair);
  drop_empty();
  return {};
}

void Multicast::drop_empty() {
  progress_.between_passes(
      [this] { std::erase_if(groups_, [](const Group& group) { return group.members.empty(); }); });
}

void Multicast::leave(Group& group, QueuePair& queue_pair) {
  progress_.between_passes([&] { std::erase(group.members, &queue_pair); });
  if (group.members.empty()) leave_(group.address);
}

bool Multicast::has(const QueuePair& queue_pair) {
  const std::lock_guard guard(lock_);
  return std::ranges::any_of(groups_, [&](const Group& group) {
    return std::ranges::find(group.members, &queue_pair) != group.members.end();
  });
}

void Multicast::forget(QueuePair& queue_pair) {
  const std::lock_guard guard(lock_);
  for (Group& group : groups_) {
    if (std::ranges::find(group.members, &queue_pair) != group.members.end()) {
      leave(group, queue_pair);
    }
  }
  drop_empty();
}

std::span<QueuePair* const> Multicast::members(const MulticastGroup& address) const {
  const auto group = std::ranges::find(groups_, address, &Group::address);
  if (group == groups_.end()) return {};
  return group->members;
}

}  // namespace verbatim::adapter
