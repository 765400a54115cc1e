#include <algorithm>
#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"

/// Multicast groups of UD queue pairs (IBA 10.5): one socket a group and program, whatever the
/// number of its members. Groups of raw packet queue pairs are MAC addresses, and flow rules.
namespace verbatim::adapter {
namespace {

/// As drivers have it: a group's MAC address stands in the last six bytes, behind zeros.
Result<MacAddress> group_mac(const Gid& gid) {
  constexpr std::size_t kAt = sizeof gid.bytes - sizeof(MacAddress);
  MacAddress mac;
  std::copy(gid.bytes.begin() + kAt, gid.bytes.end(), mac.begin());
  const bool zeros = std::all_of(gid.bytes.begin(), gid.bytes.begin() + kAt,
                                 [](std::uint8_t byte) { return byte == 0; });
  if (zeros && (mac[0] & 1) != 0) return mac;
  return refuse(EINVAL, fmt::format("{} has no group's MAC address in its last six bytes, which a "
                                    "RAW_PACKET queue pair joins",
                                    gid_text(gid)));
}

}  // namespace

Result<void> Adapter::attach_frames(QueuePair& queue_pair, const Gid& gid) {
  const auto mac = group_mac(gid);
  if (!mac) return std::unexpected(mac.error());
  const std::lock_guard guard(lock_);
  const std::pair key{queue_pair.number().value(), gid.bytes};
  if (frame_groups_.contains(key)) return {};
  FlowRule rule{.target = queue_pair.number()};
  rule.outer.layers = wire::kLayerEthernet;
  rule.outer.value.destination_mac = *mac;
  rule.outer.mask.destination_mac.fill(0xff);
  const auto added = steering_.add(std::move(rule));
  if (!added) return std::unexpected(added.error());
  frame_groups_.emplace(key, *added);
  return {};
}

Result<void> Adapter::detach_frames(QueuePair& queue_pair, const Gid& gid) {
  const std::lock_guard guard(lock_);
  const auto joined = frame_groups_.find({queue_pair.number().value(), gid.bytes});
  if (joined == frame_groups_.end()) {
    return refuse(EINVAL, fmt::format("the queue pair is not in group {}", gid_text(gid)));
  }
  steering_.remove(joined->second);
  frame_groups_.erase(joined);
  return {};
}

Result<void> Adapter::attach_multicast(QueuePair& queue_pair, const Gid& gid) {
  if (queue_pair.type() == QpType::raw_packet) return attach_frames(queue_pair, gid);
  if (queue_pair.type() != QpType::ud) {
    return refuse(EINVAL, "only UD and RAW_PACKET queue pairs join multicast groups");
  }
  if (!gid.is_multicast())
    return refuse(EINVAL, fmt::format("{} is no multicast GID", gid_text(gid)));
  const std::lock_guard guard(lock_);
  auto group = std::ranges::find(groups_, gid, &Group::gid);
  if (group != groups_.end()) {
    if (std::ranges::find(group->members, &queue_pair) != group->members.end()) return {};
    if (group->members.size() >= Limits::multicast_attachments) {
      return refuse(ENOMEM, "the group has no room for another queue pair");
    }
    progress_->between_passes([&] { group->members.push_back(&queue_pair); });
    return {};
  }
  if (groups_.size() >= Limits::multicast_groups)
    return refuse(ENOMEM, "no room for another group");
  if (auto joined = join(gid); !joined) {
    packets_->leave(gid);  // Over the versions that did.
    return joined;
  }
  progress_->between_passes([&] { groups_.push_back({gid, {&queue_pair}}); });
  return {};
}

/// Over each RoCE version that the node has.
Result<void> Adapter::join(const Gid& gid) {
  auto address = resolve_gid(gid, node().interface_index);
  if (!address) return std::unexpected(address.error());
  const auto gids = node().gids.elements();
  for (const RoceVersion version : {RoceVersion::v1, RoceVersion::v2}) {
    const auto is_of_version = [version](const GidEntry& entry) {
      return roce_version(entry.address) == version;
    };
    const auto any = std::ranges::find_if(gids, is_of_version);
    if (any == gids.end()) continue;
    const auto own = std::ranges::find_if(gids, [&](const GidEntry& entry) {
      return is_of_version(entry) && entry.address.family() == address->family();
    });
    const SocketAddress local = own != gids.end() ? own->address : any->address;
    auto joined = version == RoceVersion::v1 ? packets_->join_frames(gid)
                                             : packets_->join(gid, *address, local);
    if (!joined) return joined;
  }
  return {};
}

Result<void> Adapter::detach_multicast(QueuePair& queue_pair, const Gid& gid) {
  if (queue_pair.type() == QpType::raw_packet) return detach_frames(queue_pair, gid);
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
  progress_->between_passes(
      [this] { std::erase_if(groups_, [](const Group& group) { return group.members.empty(); }); });
}

void Adapter::leave(Group& group, QueuePair& queue_pair) {
  progress_->between_passes([&] { std::erase(group.members, &queue_pair); });
  if (group.members.empty()) packets_->leave(group.gid);
}

}  // namespace verbatim::adapter
