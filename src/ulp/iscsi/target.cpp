#include "ulp/iscsi/target.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "ulp/engine/portals.h"

namespace verbatim::ulp::iscsi {
namespace {

Result<void> check_name(const std::string& name) {
  if (is_iscsi_name(name)) return {};
  return refuse(EINVAL,
                fmt::format("'{}' is no iSCSI name: write iqn.2026-01.com.example:disk", name));
}

}  // namespace

Result<Target> Target::create(const std::string& name, std::uint16_t tag, std::uint16_t port) {
  if (auto checked = check_name(name); !checked) return std::unexpected(checked.error());
  Target target;
  target.port_.device_name = name;
  target.port_.tag = tag;
  target.port_.id = port;
  return target;
}

Result<void> Target::admit(const std::string& initiator, std::optional<Authentication> own) {
  if (auto checked = check_name(initiator); !checked) return checked;
  settings_.initiators[initiator].own = std::move(own);
  return {};
}

Result<void> Target::add(std::uint32_t number, scsi::LogicalUnit& unit) {
  return settings_.units.add(number, unit);
}

bool Target::admits(const std::string& initiator) const {
  return settings_.admits_any || settings_.initiators.contains(initiator);
}

bool Target::is_shown_to(const std::string& initiator) const {
  return settings_.is_enabled && (settings_.is_shown_to_any || admits(initiator));
}

bool Target::is_at(const SocketAddress& own) const { return ulp::is_at(settings_.portals, own); }

std::vector<SocketAddress> Target::addresses_for(const SocketAddress& own) const {
  if (settings_.portals.empty()) return {own};
  std::vector<SocketAddress> addresses;
  for (const SocketAddress& portal : settings_.portals)
    addresses.push_back(is_any(portal) ? own.with_port(portal.port()) : portal);
  return addresses;
}

const Authentication& Target::authentication_of(const std::string& initiator) const {
  const auto found = settings_.initiators.find(initiator);
  const bool has_own = found != settings_.initiators.end() && found->second.own;
  return has_own ? *found->second.own : settings_.authentication;
}

const scsi::LunMap& Target::units_of(const std::string& initiator) const {
  const auto found = settings_.initiators.find(initiator);
  const bool has_own = found != settings_.initiators.end() && found->second.units;
  return has_own ? *found->second.units : settings_.units;
}

}  // namespace verbatim::ulp::iscsi
