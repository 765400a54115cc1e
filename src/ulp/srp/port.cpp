#include "ulp/srp/port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::srp {

namespace {

scsi::InitiatorPort port_of(const Ports::Session& session) {
  return {.protocol = scsi::Protocol::srp,
          .name = text_of(session.initiator).substr(2),
          .target = session.port->port().device_name,
          .target_id = session.port->port().id};
}

}  // namespace

Port::Port(const PortId& id, std::string name, std::uint16_t number) : id_(id) {
  port_.device_name = std::move(name);
  port_.id = number;
}

bool is_named(const std::string& name, const PortId& initiator, const SocketAddress& from) {
  if (const auto id = parse_port_id(name)) return *id == initiator;
  const auto guid = load_be<std::uint64_t>(&initiator[8]);
  if (name == fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                          guid >> 16 & 0xffff, guid & 0xffff))
    return true;
  const auto address = SocketAddress::parse(name);
  return address && !from.empty() && same_ip(*address, from);
}

const scsi::LunMap* Port::units_of(const PortId& initiator, const SocketAddress& from) const {
  for (const Admitted& one : settings_.initiators) {
    if (is_named(one.name, initiator, from)) return one.units ? &*one.units : &settings_.units;
  }
  return settings_.admits_any ? &settings_.units : nullptr;
}

Ports::Ports(const Limits& limits, std::span<const Slice> memory)
    : limits_(limits), memory_(memory), sessions_(limits.channels) {
  VERBATIM_ASSERT(memory_.size() >= std::size_t{limits_.channels} * kPiecesPerChannel);
  for (std::uint32_t i = limits_.channels; i-- > 0;) free_places_.push_back(i);
}

Result<Port*> Ports::add(Port port) {
  if (find(port.id()) != nullptr)
    return refuse(EEXIST, fmt::format("there is a port {} already", text_of(port.id())));
  return ports_.emplace_back(std::make_shared<Port>(std::move(port))).get();
}

void Ports::remove(Port& port) {
  port.set_enabled(false);
  refresh(port);
  std::erase_if(ports_, [&](const auto& one) { return one.get() == &port; });
}

void Ports::refresh(const Port& port) {
  for (const auto& session : sessions_) {
    if (session == nullptr || session->port.get() != &port) continue;
    const scsi::LunMap* const units = port.units_of(session->initiator, session->from);
    if (!port.is_enabled() || units == nullptr) {
      session->ends_because = port.is_enabled() ? "the initiator is no longer admitted"
                                                : "the port is no longer enabled";
      continue;
    }
    if (session->units == *units) continue;
    const scsi::LunMap before = std::exchange(session->units, *units);
    for (scsi::LogicalUnit* const unit : before.units()) unit->on_gone(session->nexus);
    for (scsi::LogicalUnit* const unit : units->units()) {
      unit->on_login(session->nexus, port_of(*session));
      unit->attentions().tell(session->nexus, scsi::Attention::luns_changed);
    }
  }
}

std::shared_ptr<Port> Ports::find(const PortId& id) const {
  const auto port = std::ranges::find_if(ports_, [&](const auto& one) { return one->id() == id; });
  return port == ports_.end() ? nullptr : *port;
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

Ports::Session* Ports::begin_session(const PortId& initiator, const SocketAddress& from,
                                     std::shared_ptr<Port> port) {
  const auto place = std::ranges::find_if(sessions_, [](const auto& one) { return !one; });
  VERBATIM_ASSERT(place != sessions_.end());
  const auto nexus = scsi::NexusId{static_cast<std::uint32_t>(place - sessions_.begin())};
  scsi::LunMap units = *port->units_of(initiator, from);
  *place = std::make_unique<Session>(Session{.initiator = initiator,
                                             .from = from,
                                             .port = std::move(port),
                                             .units = std::move(units),
                                             .nexus = nexus});
  for (scsi::LogicalUnit* const unit : (*place)->units.units())
    unit->on_login(nexus, port_of(**place));
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
  for (scsi::LogicalUnit* const unit : session.units.units()) unit->on_gone(session.nexus);
  sessions_[raw(session.nexus)].reset();
}

}  // namespace verbatim::ulp::srp
