#include "ulp/ipoib/driver/subnet.h"

#include <utility>

#include "base/log.h"
#include "base/net/group_gid.h"

namespace verbatim::ulp::ipoib {
namespace {

using wire::MulticastRecord;

constexpr std::uint16_t kFullMemberBit = 0x8000;
/// The broadcast group must be there (RFC 4391, section 5): no attribute by which it would be made.
constexpr std::uint64_t kBroadcastComponents = MulticastRecord::kGroup | MulticastRecord::kPKey;
constexpr std::uint8_t kExactly = 2;
constexpr std::uint64_t kComponents =
    MulticastRecord::kGroup | MulticastRecord::kPKey | MulticastRecord::kQKey |
    MulticastRecord::kMtuSelector | MulticastRecord::kMtu | MulticastRecord::kTrafficClass |
    MulticastRecord::kRateSelector | MulticastRecord::kRate | MulticastRecord::kServiceLevel |
    MulticastRecord::kFlowLabel | MulticastRecord::kHopLimit;

}  // namespace

Subnet::Subnet(rdma::Management& management, const rdma::Device& device, std::uint8_t port,
               DatagramQueue& queue, PKey pkey, const Gid& own, Events events)
    : management_(management),
      device_(device),
      port_number_(port),
      queue_(queue),
      pkey_(pkey),
      own_(own),
      broadcast_gid_(broadcast_gid_of(pkey)),
      events_(std::move(events)) {}

void Subnet::begin(TimeNs now) { join(broadcast_gid_, true, now); }

void Subnet::find_path(const Gid& gid, TimeNs now) {
  const auto asked = management_.find_path(
      {.destination = gid, .source = own_, .pkey = raw(pkey_)},
      [this, gid](const Result<wire::PathRecord>& path) {
        if (!path) log(LogLevel::info, "no path to {}: {}", gid_text(gid), path.error().text);
        events_.on_path(gid, path ? way_to(*path) : std::nullopt);
      },
      now);
  if (!asked) events_.on_path(gid, std::nullopt);
}

/// RFC 4391, section 5: as the broadcast group.
MulticastRecord Subnet::record_of(const Gid& group, const MulticastRecord& broadcast) {
  MulticastRecord record = broadcast;
  record.group = group;
  record.port = {};
  record.lid = 0;
  record.mtu_selector = record.rate_selector = kExactly;
  record.join_state = wire::kFullMember;
  return record;
}

void Subnet::join(const Gid& group, bool receives, TimeNs now) {
  if (const auto known = memberships_.find(group); known != memberships_.end()) {
    Membership& membership = known->second;
    membership.receives |= receives;
    if (!membership.record) return;
    attach(membership);
    return events_.on_group(group, membership.way);
  }
  const bool is_broadcast = group == broadcast_gid_;
  MulticastRecord wanted = record_of(group, broadcast_);
  if (is_broadcast) {
    wanted = {.group = group, .join_state = wire::kFullMember};
    wanted.pkey = raw(pkey_) | kFullMemberBit;
  }
  memberships_[group].receives = receives;
  const auto number = management_.join(
      wanted, is_broadcast ? kBroadcastComponents : kComponents,
      [this, group](const Result<MulticastRecord>& record) { on_joined(group, record); }, now);
  if (!number) return on_joined(group, std::unexpected(number.error()));
  // The answer may have come, and been an error.
  if (const auto made = memberships_.find(group); made != memberships_.end())
    made->second.number = *number;
}

void Subnet::on_joined(const Gid& group, const Result<MulticastRecord>& record) {
  const auto found = memberships_.find(group);
  if (found == memberships_.end()) return;
  Membership& membership = found->second;
  const auto old = std::exchange(membership.way, std::nullopt);
  detach(membership);
  if (record && group == broadcast_gid_) broadcast_ = *record;
  if (group == broadcast_gid_) events_.on_broadcast(record);
  if (record) {
    membership.record = *record;
    membership.way = way_to(*record);
    attach(membership);
  } else {
    log(LogLevel::info, "group {}: {}", gid_text(group), record.error().text);
    memberships_.erase(found);
  }
  const auto way = record ? memberships_.at(group).way : std::nullopt;
  events_.on_group(group, way);
  if (old) queue_.close(*old);
}

void Subnet::attach(Membership& membership) {
  if (port_ == nullptr || !membership.receives || membership.is_attached) return;
  const auto attached = port_->attach(group_of(membership));
  membership.is_attached = attached.has_value();
  if (!attached) log(LogLevel::warn, "{}", attached.error().text);
}

MulticastGroup Subnet::group_of(const Membership& membership) const {
  const MulticastRecord& record = *membership.record;
  return {.gid = record.group, .lid = Lid{record.lid}, .port = port_number_};
}

void Subnet::detach(Membership& membership) {
  if (!std::exchange(membership.is_attached, false)) return;
  port_->detach(group_of(membership));
}

void Subnet::leave(const Gid& group, TimeNs now) {
  auto left = memberships_.extract(group);
  if (left.empty()) return;
  detach(left.mapped());
  if (left.mapped().way) queue_.close(*left.mapped().way);
  management_.leave(left.mapped().number, now);
}

std::optional<WayId> Subnet::open(InfinibandPath path) {
  path.port = port_number_;
  if (port_ == nullptr) return std::nullopt;
  const auto way = port_->open(path);
  if (way) return WayId{raw(*way)};
  log(LogLevel::warn, "{}", way.error().text);
  return std::nullopt;
}

std::optional<WayId> Subnet::way_to(const wire::PathRecord& found) {
  InfinibandPath path{.dlid = Lid{found.destination_lid},
                      .slid = Lid{found.source_lid},
                      .service_level = found.service_level,
                      .static_rate = found.rate};
  if (may_leave_subnet(found.hop_limit)) {
    path.grh = GlobalRoute{.source = own_,
                           .destination = found.destination_gid,
                           .flow_label = found.flow_label,
                           .traffic_class = found.traffic_class,
                           .hop_limit = found.hop_limit};
  }
  return open(path);
}

std::optional<WayId> Subnet::way_to(const MulticastRecord& group) {
  return open({.dlid = Lid{group.lid},
               .slid = device_.port(port_number_).lid,
               .service_level = group.service_level,
               .static_rate = group.rate,
               .grh = GlobalRoute{.source = own_,
                                  .destination = group.group,
                                  .flow_label = group.flow_label,
                                  .traffic_class = group.traffic_class,
                                  .hop_limit = group.hop_limit}});
}

}  // namespace verbatim::ulp::ipoib
