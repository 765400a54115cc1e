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

Result<void> SrpPart::add(const SrpSettings& settings, storage::UnitId unit,
                          const backstore::Geometry& geometry) {
  if (settings.any != "yes" && settings.any != "no")
    return refuse(EINVAL,
                  fmt::format("allow-any-srp-initiator is yes or no, not '{}'", settings.any));
  for (const std::string& text : split(settings.ports)) {
    const auto id =
        port_id_of(text == kOfNode ? fmt::format("{0:016x}{0:016x}", service_number()) : text);
    if (!id) return std::unexpected(id.error());
    const std::string name = srp::text_of(*id);
    srp::Port port(*id, name);
    if (settings.any == "yes") port.admit_any();
    for (const std::string& initiator : split(settings.initiators)) {
      const auto admitted = port_id_of(initiator);
      if (!admitted) return std::unexpected(admitted.error());
      port.admit(*admitted);
    }
    units_.push_back(make_scsi_unit(unit, geometry, name));
    if (auto added = port.add(0, *units_.back()); !added) return added;
    if (auto added = add(std::move(port)); !added) return std::unexpected(added.error());
  }
  return {};
}

Result<srp::Port*> SrpPart::add(srp::Port port) {
  if (auto opened = open(); !opened) return std::unexpected(opened.error());
  const auto added = ports_->add(std::move(port));
  if (!added) return added;
  if (auto shown = show(); !shown) {
    ports_->remove(**added);
    return std::unexpected(shown.error());
  }
  return added;
}

void SrpPart::remove(srp::Port& port) {
  ports_->remove(port);
  if (ports_->ports().empty()) hide();
}

Result<void> SrpPart::open() {
  if (ports_) return {};
  if (auto taken = memory_.take(driver_.device(), kPieces); !taken) return taken;
  ports_.emplace(srp::Ports::Limits{.channels = kChannels}, memory_.pieces);
  service_.emplace(*ports_);
  return {};
}

Result<void> SrpPart::show() {
  if (fabric_ != nullptr || !driver_.device().port().is_infiniband) return {};
  const auto listener = driver_.listen(rdma::InfinibandService{.service = service_number()});
  if (!listener) return std::unexpected(listener.error());
  by_service_ = *listener;
  runner_.serve(*listener, *service_, driver_);
  auto shown = SrpFabric::open(*ports_, driver_.device(), loop_);
  if (!shown) {
    hide();
    return std::unexpected(shown.error());
  }
  fabric_ = std::move(*shown);
  return {};
}

void SrpPart::hide() {
  fabric_.reset();
  if (!by_service_) return;
  runner_.stop_serving(*by_service_);
  driver_.unlisten(*std::exchange(by_service_, std::nullopt));
}

Result<void> SrpPart::listen(const SocketAddress& address) {
  if (auto opened = open(); !opened) return opened;
  const auto listener = driver_.listen(rdma::IpService{address});
  if (!listener) return std::unexpected(listener.error());
  runner_.serve(*listener, *service_, driver_);
  listeners_[address.text()] = *listener;
  return {};
}

void SrpPart::unlisten(const SocketAddress& address) {
  const auto found = listeners_.find(address.text());
  if (found == listeners_.end()) return;
  runner_.stop_serving(found->second);
  driver_.unlisten(found->second);
  listeners_.erase(found);
}

void SrpPart::add_places(std::vector<std::string>& places) const {
  for (const auto& [address, listener] : listeners_) places.push_back("SRP " + address);
  if (by_service_) places.push_back(fmt::format("SRP service {:#018x}", service_number()));
}

nlohmann::json SrpPart::status() const {
  nlohmann::json ports = nlohmann::json::array(), initiators = nlohmann::json::array();
  if (ports_) {
    for (const auto& port : ports_->ports()) {
      ports.push_back({{"port", srp::text_of(port->id())},
                       {"any_initiator", port->admits_any()},
                       {"units", port->settings().units.units().size()}});
    }
    for (const auto& session : ports_->sessions()) {
      if (session != nullptr)
        initiators.push_back({{"initiator", srp::text_of(session->initiator)},
                              {"port", srp::text_of(session->port->id())},
                              {"channels", session->channels.size()}});
    }
  }
  return {{"ports", std::move(ports)}, {"initiators", std::move(initiators)}};
}

}  // namespace verbatim::ulp::target
