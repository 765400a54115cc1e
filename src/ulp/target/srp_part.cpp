#include "ulp/target/srp_part.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ulp/target/disks.h"
#include "ulp/target/scsi_unit.h"

namespace verbatim::ulp::target {
namespace {

/// Of whom nothing else is said: the node's GUID, twice, as Linux's target.
constexpr const char* kOfNode = "node";

Result<srp::PortId> port_id_of(const std::string& text) {
  if (const auto id = srp::parse_port_id(text)) return *id;
  return refuse(EINVAL,
                fmt::format("'{}' is no port of SRP: write 32 hexadecimal digits, the extension "
                            "(id_ext) and then the GUID (ioc_guid)",
                            text));
}

}  // namespace

Result<std::unique_ptr<SrpPart>> SrpPart::create(const SrpSettings& settings, std::uint64_t guid,
                                                 storage::UnitId unit,
                                                 const backstore::Geometry& geometry,
                                                 std::span<const Slice> memory) {
  if (settings.any != "yes" && settings.any != "no")
    return refuse(EINVAL,
                  fmt::format("allow-any-srp-initiator is yes or no, not '{}'", settings.any));
  std::unique_ptr<SrpPart> part(new SrpPart(memory));
  for (const std::string& text : split(settings.ports)) {
    const auto id = port_id_of(text == kOfNode ? fmt::format("{0:016x}{0:016x}", guid) : text);
    if (!id) return std::unexpected(id.error());
    if (auto added = part->add_port(*id, settings, unit, geometry); !added)
      return std::unexpected(added.error());
  }
  return part;
}

Result<void> SrpPart::add_port(const srp::PortId& id, const SrpSettings& settings,
                               storage::UnitId unit, const backstore::Geometry& geometry) {
  const std::string name = srp::text_of(id);
  srp::Port port(id, name);
  if (settings.any == "yes") port.admit_any();
  for (const std::string& initiator : split(settings.initiators)) {
    const auto admitted = port_id_of(initiator);
    if (!admitted) return std::unexpected(admitted.error());
    port.admit(*admitted);
  }
  units_.push_back(make_scsi_unit(unit, geometry, name));
  if (auto added = port.add(0, *units_.back()); !added) return added;
  if (auto added = ports_.add(std::move(port)); !added) return std::unexpected(added.error());
  return {};
}

nlohmann::json SrpPart::status() const {
  nlohmann::json ports = nlohmann::json::array(), initiators = nlohmann::json::array();
  for (const auto& port : ports_.ports()) {
    ports.push_back({{"port", srp::text_of(port->id())},
                     {"any_initiator", port->admits_any()},
                     {"units", port->settings().units.units().size()}});
  }
  for (const auto& session : ports_.sessions()) {
    if (session != nullptr)
      initiators.push_back({{"initiator", srp::text_of(session->initiator)},
                            {"port", srp::text_of(session->port->id())},
                            {"channels", session->channels.size()}});
  }
  return {{"ports", std::move(ports)}, {"initiators", std::move(initiators)}};
}

}  // namespace verbatim::ulp::target
