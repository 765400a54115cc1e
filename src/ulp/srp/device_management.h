#pragma once

#include <cstdint>
#include <vector>

#include "ulp/srp/port.h"
#include "ulp/srp/wire/device_management.h"
#include "wire/mad/management_packet.h"

namespace verbatim::ulp::srp {

/// Answers those who look for targets on a fabric: shows the ports as controllers, one for each
/// GUID, with a service for each extension. A port is shown as soon as it is there; who may log in
/// is another question.
class DeviceManagement {
 public:
  /// `service`: where logins of all ports are taken. The ports outlive it.
  DeviceManagement(const Ports& ports, std::uint64_t service) : ports_(ports), service_(service) {}

  /// Fills in a datagram of the class, which has its header: that of a response without error.
  /// False: the request is none, and has no answer.
  bool answer(wire::MadSpan request, std::span<std::byte, wire::kMadBytes> response);

 private:
  struct Controller {
    std::uint64_t guid = 0;
    std::vector<std::uint64_t> extensions;
  };
  std::uint16_t fill(const wire::MadHeader& request, DeviceData out);
  std::uint16_t fill_services(std::uint32_t modifier, DeviceData out) const;
  const Controller* in_slot(std::uint32_t slot) const;
  void update();

  static constexpr std::uint8_t kSlots = 16;  // At least, as Linux's target says.
  static constexpr std::size_t kServicesMax = 255;
  const Ports& ports_;
  const std::uint64_t service_;
  std::vector<PortId> shown_;
  std::vector<Controller> controllers_;  // By slot, from 1.
  std::uint16_t change_ = 0;
};

}  // namespace verbatim::ulp::srp
