#include <algorithm>
#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress.h"

/// Multicast groups of UD queue pairs (IBA 10.5): one socket a group and program, whatever the
/// number of its members.
namespace verbatim::adapter {

Result<void> Adapter::attach_multicast(QueuePair& queue_pair, const Gid& gid) {
  if (queue_pair.type() != QpType::ud)
    return refuse(EINVAL, "only UD queue pairs join multicast groups");
  if (!gid.is_multicast())
    return refuse(EINVAL, fmt::format("{} is no multicast GID", gid_text(gid)));
  const std::lock_guard guard(lock_);
  auto group = std::ranges::find(groups_, gid, &Group::gid);
  if (group != groups_.end()) {
    if (std::ranges::find(group->members, &queue_pair) != group->members.end()) return {};
    if (group->members.size() >= Limits::multicast_attachments) {
      return refuse(ENOMEM, "the group has no room for another queue pair");
    }
    progress_->during_no_turn([&] { group->members.push_back(&queue_pair); });
    return {};
  }
  if (groups_.size() >= Limits::multicast_groups)
    return refuse(ENOMEM, "no room for another group");
  auto address = resolve_gid(gid, node().interface_index);
  if (!address) return std::unexpected(address.error());
  const auto own = std::ranges::find_if(node().gids, [&](const GidEntry& entry) {
    return entry.address.family() == address->family();
  });
  const SocketAddress local = own != node().gids.end() ? own->address : node().gids.front().address;
  if (auto joined = progress_->join(gid, *address, local, node().interface_index); !joined)
    return joined;
  progress_->during_no_turn([&] { groups_.push_back({gid, {&queue_pair}}); });
  return {};
}

Result<void> Adapter::detach_multicast(QueuePair& queue_pair, const Gid& gid) {
  const std::lock_guard guard(lock_);
  const auto group = std::ranges::find(groups_, gid, &Group::gid);
  if (group == groups_.end() ||
      std::ranges::find(group->members, &queue_pair) == group->members.end()) {
    return refuse(EINVAL, fmt::format("the queue pair is not in group {}", gid_text(gid)));
  }
  leave(*group, queue_pair);
  drop_empty_groups();
  return {};
}

void Adapter::drop_empty_groups() {
  progress_->during_no_turn(
      [this] { std::erase_if(groups_, [](const Group& group) { return group.members.empty(); }); });
}

void Adapter::leave(Group& group, QueuePair& queue_pair) {
  progress_->during_no_turn([&] { std::erase(group.members, &queue_pair); });
  if (group.members.empty()) progress_->leave(group.gid);
}

std::span<QueuePair* const> Adapter::members(const Gid& gid) const {
  const auto group = std::ranges::find(groups_, gid, &Group::gid);
  if (group == groups_.end()) return {};
  return group->members;
}

}  // namespace verbatim::adapter
