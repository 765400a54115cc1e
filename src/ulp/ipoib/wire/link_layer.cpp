#include "ulp/ipoib/wire/link_layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verbatim::ulp::ipoib {

Encapsulation encapsulation(EtherType type) {
  Encapsulation bytes{};
  store_be(bytes.data(), raw(type));
  return bytes;
}

std::optional<Frame> decode_frame(ByteSpan datagram) {
  if (datagram.size() < kEncapsulationBytes) return std::nullopt;
  return Frame{.type = EtherType{load_be<std::uint16_t>(datagram.data())},
               .packet = datagram.subspan(kEncapsulationBytes)};
}

std::string HardwareAddress::text() const {
  std::array<std::byte, kSize> bytes;
  encode(*this, bytes);
  std::array<std::uint8_t, kSize> numbers;
  std::memcpy(numbers.data(), bytes.data(), kSize);
  return fmt::format("{:02x}", fmt::join(numbers, ":"));
}

HardwareAddress decode_hardware_address(std::span<const std::byte, HardwareAddress::kSize> bytes) {
  HardwareAddress address{.flags = std::to_integer<std::uint8_t>(bytes[0]),
                          .qpn = Qpn(load_be24(&bytes[1]))};
  std::memcpy(address.gid.bytes.data(), &bytes[4], address.gid.bytes.size());
  return address;
}

void encode(const HardwareAddress& address, std::span<std::byte, HardwareAddress::kSize> out) {
  out[0] = static_cast<std::byte>(address.flags);
  store_be24(&out[1], address.qpn.value());
  std::memcpy(&out[4], address.gid.bytes.data(), address.gid.bytes.size());
}

}  // namespace verbatim::ulp::ipoib
