#include "ulp/lnet/wire/nid.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace verbatim::ulp::lnet {

std::optional<Net> parse_net(std::string_view text) {
  constexpr std::string_view kName = "o2ib";
  if (!text.starts_with(kName)) return std::nullopt;
  text.remove_prefix(kName.size());
  if (text.empty()) return o2ib(0);
  std::uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return o2ib(number);
}

std::string text_of(Net net) {
  const auto value = static_cast<std::uint32_t>(net);
  const std::uint32_t type = value >> 16, number = value & 0xffff;
  const std::string digits = number == 0 ? "" : fmt::format("{}", number);
  if (type == kO2ib) return "o2ib" + digits;
  if (type == kLoopback) return "lo" + digits;
  return fmt::format("<{}:{}>", type, number);
}

std::optional<Nid> parse_nid(std::string_view text) {
  const std::size_t at = text.find('@');
  const auto net = at == text.npos ? o2ib(0) : parse_net(text.substr(at + 1));
  const auto address = SocketAddress::parse(text.substr(0, at));
  if (!net || !address || !address->is_ipv4()) return std::nullopt;
  const auto bytes = address->ipv4_bytes();
  return make_nid(*net, std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
                            std::uint32_t{bytes[2]} << 8 | bytes[3]);
}

std::string text_of(Nid nid) {
  if (nid == kLoopbackNid) return "0@lo";
  return address_of(nid, 0).ip_text() + "@" + text_of(nid.net());
}

SocketAddress address_of(Nid nid, std::uint16_t port) {
  const std::uint32_t address = nid.address();
  return SocketAddress::ipv4(
      {static_cast<std::uint8_t>(address >> 24), static_cast<std::uint8_t>(address >> 16),
       static_cast<std::uint8_t>(address >> 8), static_cast<std::uint8_t>(address)},
      port);
}

}  // namespace verbatim::ulp::lnet
