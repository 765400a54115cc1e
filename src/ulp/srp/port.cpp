#include "ulp/srp/port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::srp {

Port::Port(const PortId& id, std::string name) : id_(id) { port_.device_name = std::move(name); }

Result<void> Port::add(std::uint32_t number, scsi::LogicalUnit& unit) {
  const scsi::Lun lun = scsi::Lun{number} << 48;  // Peripheral device addressing (SAM-5, 4.7.7.2).
  if (number >= kUnitsMax)
    return refuse(EINVAL, fmt::format("unit {}: numbers are below {}", number, kUnitsMax));
  if (find(lun) != nullptr)
    return refuse(EEXIST, fmt::format("{} has a unit {} already", text_of(id_), number));
  luns_.push_back(lun);
  units_.push_back(&unit);
  return {};
}

scsi::LogicalUnit* Port::find(scsi::Lun lun) {
  const auto at = std::ranges::find(luns_, lun);
  return at == luns_.end() ? nullptr : units_[static_cast<std::size_t>(at - luns_.begin())];
}

Ports::Ports(const Limits& limits, std::span<const Slice> memory)
    : limits_(limits), memory_(memory), sessions_(limits.channels) {
  VERBATIM_ASSERT(memory_.size() >= std::size_t{limits_.channels} * kPiecesPerChannel);
  for (std::uint32_t i = limits_.channels; i-- > 0;) free_places_.push_back(i);
}

Result<Port*> Ports::add(Port port) {
  if (find(port.id()) != nullptr)
    return refuse(EEXIST, fmt::format("there is a port {} already", text_of(port.id())));
  return &ports_.emplace_back(std::move(port));
}

Port* Ports::find(const PortId& id) {
  const auto port = std::ranges::find(ports_, id, &Port::id);
  return port == ports_.end() ? nullptr : &*port;
}

ByteSpan Ports::add_message(const ResponseBytes& message) {
  const ResponseBytes& kept = messages_.push(message);
  return {kept.begin(), kept.size()};
}

Ports::Session* Ports::find_session(const PortId& initiator, const PortId& target) const {
  const auto found = std::ranges::find_if(sessions_, [&](const auto& one) {
    return one != nullptr && !one->is_replaced && one->initiator == initiator &&
           one->port->id() == target;
  });
  return found == sessions_.end() ? nullptr : found->get();
}

Ports::Session* Ports::begin_session(const PortId& initiator, Port& port) {
  const auto place = std::ranges::find_if(sessions_, [](const auto& one) { return !one; });
  VERBATIM_ASSERT(place != sessions_.end());
  const auto nexus = scsi::NexusId{static_cast<std::uint32_t>(place - sessions_.begin())};
  *place =
      std::make_unique<Session>(Session{.initiator = initiator, .port = &port, .nexus = nexus});
  for (scsi::LogicalUnit* const unit : port.units()) unit->on_login(nexus);
  return place->get();
}

std::uint32_t Ports::take_place() {
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void Ports::end(Session& session, const Channel& channel, std::uint32_t place) {
  free_places_.push_back(place);
  std::erase(session.channels, &channel);
  if (!session.channels.empty()) return;
  for (scsi::LogicalUnit* const unit : session.port->units()) unit->on_gone(session.nexus);
  sessions_[raw(session.nexus)].reset();
}

}  // namespace verbatim::ulp::srp
