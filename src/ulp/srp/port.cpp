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

Service::Service(const Limits& limits, std::span<const Slice> memory)
    : limits_(limits), memory_(memory), sessions_(limits.channels) {
  VERBATIM_ASSERT(memory_.size() >= std::size_t{limits_.channels} * kPiecesPerChannel);
  for (std::uint32_t i = limits_.channels; i-- > 0;) free_places_.push_back(i);
}

Result<Port*> Service::add(Port port) {
  if (find(port.id()) != nullptr)
    return refuse(EEXIST, fmt::format("there is a port {} already", text_of(port.id())));
  return &ports_.emplace_back(std::move(port));
}

Port* Service::find(const PortId& id) {
  const auto port = std::ranges::find(ports_, id, &Port::id);
  return port == ports_.end() ? nullptr : &*port;
}

ByteSpan Service::add_message(const ResponseBytes& message) {
  const ResponseBytes& kept = messages_.push(message);
  return {kept.begin(), kept.size()};
}

Service::Session* Service::find_session(const LoginRequest& request) const {
  const auto found = std::ranges::find_if(sessions_, [&](const auto& one) {
    return one != nullptr && !one->is_replaced && one->initiator == request.initiator &&
           one->port->id() == request.target;
  });
  return found == sessions_.end() ? nullptr : found->get();
}

Service::Session* Service::begin_session(const LoginRequest& request) {
  // There is a place: a session has a channel, and channels are counted.
  const auto place = std::ranges::find_if(sessions_, [](const auto& one) { return !one; });
  VERBATIM_ASSERT(place != sessions_.end());
  const auto nexus = scsi::NexusId{static_cast<std::uint32_t>(place - sessions_.begin())};
  *place = std::make_unique<Session>(
      Session{.initiator = request.initiator, .port = find(request.target), .nexus = nexus});
  for (scsi::LogicalUnit* const unit : (*place)->port->units()) unit->on_login(nexus);
  return place->get();
}

void Service::end(Session& session, const Channel& channel, std::uint32_t place) {
  free_places_.push_back(place);
  std::erase(session.channels, &channel);
  if (!session.channels.empty()) return;
  for (scsi::LogicalUnit* const unit : session.port->units()) unit->on_gone(session.nexus);
  sessions_[raw(session.nexus)].reset();
}

/// In the order in which Linux's target looks.
Service::Refusal Service::refusal_of(const LoginRequest& request, const Meeting& meeting) {
  using enum RejectReason;
  constexpr std::uint32_t kRequestMin = 64;
  if (request.request_bytes > limits_.request_bytes || request.request_bytes < kRequestMin)
    return {request_too_long,
            fmt::format("messages of {} bytes: {} to {} are taken", request.request_bytes,
                        kRequestMin, limits_.request_bytes)};
  const Port* const port = find(request.target);
  if (port == nullptr)
    return {wrong_target_port,
            fmt::format("there is no port {}; {}", text_of(request.target),
                        ports_.empty() ? "there is none" : "one is " + text_of(ports_[0].id()))};
  if (!port->is_enabled())
    return {no_resources, fmt::format("port {} is not enabled", text_of(request.target))};
  if ((request.formats & (kDirectFormat | kIndirectFormat)) == 0)
    return {formats, fmt::format("descriptors of formats {:#x}: {:#x} are known", request.formats,
                                 kDirectFormat | kIndirectFormat)};
  if (!port->admits(request.initiator))
    return {channel_limit, fmt::format("port {} does not admit initiator {}",
                                       text_of(request.target), text_of(request.initiator))};
  const int action = request.flags & kActionMask;
  if (action > kAnotherChannel)
    return {no_multichannel, fmt::format("multichannel action {}: 0 and 1 are known", action)};
  const Session* const session = find_session(request);
  if (action == kAnotherChannel && session != nullptr &&
      session->channels.size() >= limits_.channels_per_session)
    return {channel_limit, fmt::format("initiator {} has {} channels: that many may be",
                                       text_of(request.initiator), session->channels.size())};
  if (free_places_.empty())
    return {no_resources, fmt::format("there are {} channels: that many may be", limits_.channels)};
  if (meeting.reads.initiator == 0)
    return {unable_to_establish,
            "the initiator allows no RDMA READ: its responder resources are 0"};
  return {};
}

}  // namespace verbatim::ulp::srp
