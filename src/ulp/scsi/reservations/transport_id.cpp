#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ulp/scsi/reservations/reservations.h"

namespace verbatim::ulp::scsi {
namespace {

constexpr unsigned kWithIsid = 0x40;  // iSCSI, format 1: "NAME,i,0xISID".
constexpr std::size_t kSrpBytes = 24, kSrpNameAt = 8;

std::string text_of(const InitiatorPort& port) {
  return port.isid == 0 ? port.name : fmt::format("{},i,0x{:012x}", port.name, port.isid);
}

/// A number of `digits`; 0 for what is no digit.
std::uint64_t hex_number(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    const auto at = std::string_view("0123456789abcdef").find(c);
    number = number << 4 | (at == std::string_view::npos ? 0 : at);
  }
  return number;
}

}  // namespace

void write_transport_id(const InitiatorPort& port, DataWriter& out) {
  if (port.protocol == Protocol::srp) {
    out.byte(static_cast<unsigned>(Protocol::srp));
    out.zeros(kSrpNameAt - 1);
    for (std::size_t at = 0; at < 16; ++at)
      out.byte(static_cast<unsigned>(hex_number(std::string_view(port.name).substr(2 * at, 2))));
    return;
  }
  const std::string text = text_of(port);
  // Ends with a zero; a multiple of 4, and at least 20.
  const std::size_t bytes = std::max<std::size_t>((text.size() + 4) & ~std::size_t{3}, 20);
  out.byte(static_cast<unsigned>(Protocol::iscsi) | (port.isid == 0 ? 0 : kWithIsid));
  out.byte(0);
  out.put(static_cast<std::uint16_t>(bytes));
  out.text(text, bytes, '\0');
}

std::size_t transport_id_bytes(ByteSpan bytes) {
  const bool is_iscsi =
      bytes.size() >= 4 && (bytes[0] & std::byte{0x0f}) == static_cast<std::byte>(Protocol::iscsi);
  return is_iscsi ? 4 + load_be<std::uint16_t>(&bytes[2]) : kSrpBytes;
}

InitiatorPort read_transport_id(ByteSpan bytes) {
  if (bytes.size() < 4) return {};
  const unsigned first = std::to_integer<unsigned>(bytes[0]);
  InitiatorPort port{.protocol = static_cast<Protocol>(first & 0x0f)};
  if (port.protocol == Protocol::srp && bytes.size() >= kSrpBytes) {
    for (const std::byte byte : bytes.subspan(kSrpNameAt, 16))
      port.name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return port;
  }
  const std::size_t length = load_be<std::uint16_t>(&bytes[2]);
  if (port.protocol != Protocol::iscsi || length > bytes.size() - 4) return {};
  for (const std::byte byte : bytes.subspan(4, length)) {
    if (byte == std::byte{0}) break;
    port.name += static_cast<char>(byte);
  }
  const std::size_t isid = port.name.find(",i,0x");
  if ((first & kWithIsid) != 0 && isid != std::string::npos) {
    port.isid = hex_number(std::string_view(port.name).substr(isid + 5));
    port.name.resize(isid);
  }
  return port;
}

}  // namespace verbatim::ulp::scsi
