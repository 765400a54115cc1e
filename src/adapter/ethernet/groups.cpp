#include "adapter/ethernet/groups.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::adapter {
namespace {

/// As in drivers: a group's MAC address is in the last six bytes, after zeros.
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

Result<void> FrameGroups::attach(Qpn queue_pair, const Gid& gid) {
  const auto mac = group_mac(gid);
  if (!mac) return std::unexpected(mac.error());
  const std::pair key{queue_pair.value(), gid.bytes};
  if (joined_.contains(key)) return {};
  FlowRule rule{.target = queue_pair};
  rule.outer.layers = wire::kLayerEthernet;
  rule.outer.value.destination_mac = *mac;
  rule.outer.mask.destination_mac.fill(0xff);
  const auto added = steering_.add(std::move(rule));
  if (!added) return std::unexpected(added.error());
  joined_.emplace(key, *added);
  return {};
}

Result<void> FrameGroups::detach(Qpn queue_pair, const Gid& gid) {
  const auto joined = joined_.find({queue_pair.value(), gid.bytes});
  if (joined == joined_.end()) {
    return refuse(EINVAL, fmt::format("the queue pair is not in group {}", gid_text(gid)));
  }
  steering_.remove(joined->second);
  joined_.erase(joined);
  return {};
}

bool FrameGroups::has(Qpn queue_pair) const {
  return std::ranges::any_of(
      joined_, [queue_pair](const auto& one) { return one.first.first == queue_pair.value(); });
}

void FrameGroups::forget(Qpn queue_pair) {
  std::erase_if(joined_,
                [queue_pair](const auto& one) { return one.first.first == queue_pair.value(); });
}

}  // namespace verbatim::adapter
