#include "ulp/srp/device_management.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbatim::ulp::srp {

using wire::MadStatus;

bool DeviceManagement::answer(wire::MadSpan request,
                              std::span<std::byte, wire::kMadBytes> response) {
  constexpr std::size_t kStatusAt = 4;
  const auto header = wire::decode_mad_header(request);
  if (!header) return false;
  update();
  const auto status = fill(*header, response.subspan<kDeviceDataAt>());
  store_be(&response[kStatusAt], status);
  return true;
}

std::uint16_t DeviceManagement::fill(const wire::MadHeader& request, DeviceData out) {
  if (request.method != wire::MadMethod::get) return raw(MadStatus::unsupported_method);
  switch (DeviceAttribute{request.attribute}) {
    case DeviceAttribute::class_port_info:
      encode_class_port_info(out);
      return 0;
    case DeviceAttribute::io_unit_info: {
      const auto count = static_cast<std::uint8_t>(controllers_.size());
      encode(IoUnitInfo{.change = change_, .slots = std::max(kSlots, count), .controllers = count},
             out);
      return 0;
    }
    case DeviceAttribute::io_controller_profile: {
      const Controller* const controller = in_slot(request.modifier);
      if (controller == nullptr)
        return request.modifier == 0 || request.modifier > kSlots ? raw(MadStatus::invalid_value)
                                                                  : kNoController;
      const Ports::Limits& limits = ports_.limits();
      encode(
          IoControllerProfile{.guid = controller->guid,
                              .requests = limits.requests,
                              .reads = 16,
                              .message_bytes = limits.request_bytes,
                              .transfer_bytes = 1 << 20,
                              .services = static_cast<std::uint8_t>(controller->extensions.size()),
                              .name = "Verbatim SRP target"},
          out);
      return 0;
    }
    case DeviceAttribute::service_entries:
      return fill_services(request.modifier, out);
  }
  return raw(MadStatus::unsupported_attribute);
}

std::uint16_t DeviceManagement::fill_services(std::uint32_t modifier, DeviceData out) const {
  const std::uint32_t slot = modifier >> 16, last = modifier >> 8 & 0xff, first = modifier & 0xff;
  const Controller* const controller = in_slot(slot);
  if (controller == nullptr)
    return slot == 0 || slot > kSlots ? raw(MadStatus::invalid_value) : kNoController;
  if (last < first || last - first >= ServiceEntry::kPerDatagram ||
      last >= controller->extensions.size())
    return raw(MadStatus::invalid_value);
  for (std::uint32_t i = first; i <= last; ++i) {
    encode(ServiceEntry{.extension = controller->extensions[i], .service = service_},
           out.subspan((i - first) * ServiceEntry::kSize).first<ServiceEntry::kSize>());
  }
  return 0;
}

const DeviceManagement::Controller* DeviceManagement::in_slot(std::uint32_t slot) const {
  return slot == 0 || slot > controllers_.size() ? nullptr : &controllers_[slot - 1];
}

/// The ports may have become others since the last question.
void DeviceManagement::update() {
  std::vector<PortId> now;
  for (const auto& port : ports_.ports()) now.push_back(port->id());
  if (now == shown_ && change_ != 0) return;
  ++change_;
  shown_ = std::move(now);
  controllers_.clear();
  for (const PortId& id : shown_) {
    const auto guid = load_be<std::uint64_t>(&id[8]);
    auto found = std::ranges::find(controllers_, guid, &Controller::guid);
    if (found == controllers_.end()) {
      if (controllers_.size() == IoUnitInfo::kSlotsMax) continue;
      found = controllers_.insert(found, Controller{.guid = guid, .extensions = {}});
    }
    if (found->extensions.size() < kServicesMax)
      found->extensions.push_back(load_be<std::uint64_t>(id.data()));
  }
}

}  // namespace verbatim::ulp::srp
