#include "ulp/srp/wire/device_management.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::ulp::srp {
namespace {

/// SRP's (SRP r16a, annex B): class, subclass (T10), protocol and its version.
constexpr std::uint16_t kClass = 0x0100, kSubclass = 0x609e, kProtocol = 0x0108, kVersion = 1;
/// SENDs both ways; READs and WRITEs by the controller.
constexpr std::uint8_t kOperations = 0x2b;
constexpr std::uint8_t kResponseTime = 18;  // 1.07 s.
constexpr std::size_t kNameAt = 64, kNameBytes = 64, kServiceNameBytes = 40;

void put_text(std::string_view text, std::size_t room, std::byte* at) {
  text = text.substr(0, room - 1);
  std::ranges::transform(text, at, [](char letter) { return static_cast<std::byte>(letter); });
}

}  // namespace

void encode_class_port_info(DeviceData out) {
  out[0] = out[1] = std::byte{1};  // Versions of datagrams and of the class.
  out[7] = std::byte{kResponseTime};
}

void encode(const IoUnitInfo& info, DeviceData out) {
  VERBATIM_ASSERT(info.controllers <= info.slots);
  store_be(&out[0], info.change);
  out[2] = std::byte{info.slots};
  for (unsigned slot = 0; slot < info.controllers; ++slot)
    out[4 + slot / 2] |= slot % 2 == 0 ? std::byte{0x10} : std::byte{0x01};
}

void encode(const IoControllerProfile& profile, DeviceData out) {
  constexpr std::uint32_t kDevice = 1;
  store_be(&out[0], profile.guid);
  // Who has made the GUID, in the upper three bytes of the vendor's word.
  const auto vendor = static_cast<std::uint32_t>(profile.guid >> 40) << 8;
  store_be(&out[8], vendor);
  store_be(&out[12], kDevice);
  store_be(&out[16], std::uint16_t{1});
  store_be(&out[20], vendor);
  store_be(&out[24], kDevice);
  store_be(&out[28], kClass);
  store_be(&out[30], kSubclass);
  store_be(&out[32], kProtocol);
  store_be(&out[34], kVersion);
  store_be(&out[40], profile.requests);
  out[43] = std::byte{profile.reads};
  store_be(&out[44], profile.message_bytes);
  store_be(&out[48], profile.transfer_bytes);
  out[52] = std::byte{kOperations};
  out[54] = std::byte{profile.services};
  put_text(profile.name, kNameBytes, &out[kNameAt]);
}

void encode(const ServiceEntry& entry, std::span<std::byte, ServiceEntry::kSize> out) {
  put_text(fmt::format("SRP.T10:{:016x}", entry.extension), kServiceNameBytes, out.data());
  store_be(&out[kServiceNameBytes], entry.service);
}

}  // namespace verbatim::ulp::srp
