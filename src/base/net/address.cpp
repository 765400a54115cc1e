#include "base/net/address.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "base/bytes.h"

namespace verbatim {
namespace {

/// First byte of a synthetic MAC: locally administered, unicast (IEEE 802).
constexpr std::uint8_t kLocallyAdministered = 0x02;
constexpr std::uint8_t kUniversalLocalBit = 0x02;

Result<std::uint32_t> parse_scope(std::string_view text) {
  std::uint32_t scope = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scope);
  if (error == std::errc{} && end == text.data() + text.size()) return scope;
  scope = if_nametoindex(std::string(text).c_str());
  if (scope == 0) return refuse(ENODEV, fmt::format("there is no interface '{}'", text));
  return scope;
}

std::string ipv6_text(const std::array<std::uint8_t, 16>& bytes) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
}

}  // namespace

SocketAddress SocketAddress::ipv4(std::array<std::uint8_t, 4> bytes, std::uint16_t port) {
  SocketAddress result;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  std::memcpy(&address.sin_addr, bytes.data(), bytes.size());
  result.storage_.ipv4 = address;
  return result;
}

SocketAddress SocketAddress::ipv6(std::array<std::uint8_t, 16> bytes, std::uint16_t port,
                                  std::uint32_t scope_id) {
  SocketAddress result;
  sockaddr_in6& address = result.storage_.ipv6;
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_scope_id = scope_id;
  std::memcpy(&address.sin6_addr, bytes.data(), bytes.size());
  return result;
}

Result<SocketAddress> SocketAddress::from(const sockaddr* address, socklen_t length) {
  if (length < sizeof(sa_family_t)) return refuse(EINVAL, "a socket address without a family");
  SocketAddress result;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in ipv4_address;
    std::memcpy(&ipv4_address, address, sizeof ipv4_address);
    result.storage_.ipv4 = ipv4_address;
  } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    std::memcpy(&result.storage_.ipv6, address, sizeof(sockaddr_in6));
  } else {
    return refuse(EAFNOSUPPORT, fmt::format("a socket address of family {} and {} bytes",
                                            address->sa_family, length));
  }
  return result;
}

namespace {

using NameCall = int(int, sockaddr*, socklen_t*);

Result<SocketAddress> ask_kernel(NameCall* ask, const char* name, int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (ask(fd, address, &length) != 0) return refuse_errno(name);
  return SocketAddress::from(address, length);
}

}  // namespace

Result<SocketAddress> SocketAddress::of_socket(int fd) {
  return ask_kernel(getsockname, "getsockname", fd);
}

Result<SocketAddress> SocketAddress::of_peer(int fd) {
  return ask_kernel(getpeername, "getpeername", fd);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text, std::uint16_t port) {
  const std::size_t percent = text.find('%');
  const std::string ip(text.substr(0, percent));
  std::array<std::uint8_t, 4> four;
  std::array<std::uint8_t, 16> sixteen;
  if (percent == std::string_view::npos && inet_pton(AF_INET, ip.c_str(), four.data()) == 1) {
    return ipv4(four, port);
  }
  if (inet_pton(AF_INET6, ip.c_str(), sixteen.data()) == 1) {
    if (percent == std::string_view::npos) return ipv6(sixteen, port);
    const auto scope = parse_scope(text.substr(percent + 1));
    if (!scope) return std::unexpected(scope.error());
    return ipv6(sixteen, port, *scope);
  }
  return refuse(EINVAL, fmt::format("'{}' is no IPv4 or IPv6 address", text));
}

std::uint16_t SocketAddress::port() const {
  if (is_ipv4()) return ntohs(storage_.ipv4.sin_port);
  return is_ipv6() ? ntohs(storage_.ipv6.sin6_port) : 0;
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  if (is_ipv4()) return ipv4(ipv4_bytes(), port);
  return is_ipv6() ? ipv6(ipv6_bytes(), port, scope_id()) : *this;
}

std::array<std::uint8_t, 4> SocketAddress::ipv4_bytes() const {
  std::array<std::uint8_t, 4> bytes{};
  if (is_ipv4()) std::memcpy(bytes.data(), &storage_.ipv4.sin_addr, bytes.size());
  return bytes;
}

std::array<std::uint8_t, 16> SocketAddress::ipv6_bytes() const {
  std::array<std::uint8_t, 16> bytes{};
  if (is_ipv6()) {
    std::memcpy(bytes.data(), &storage_.ipv6.sin6_addr, bytes.size());
  } else if (is_ipv4()) {
    bytes[10] = bytes[11] = 0xff;
    std::ranges::copy(ipv4_bytes(), bytes.begin() + 12);
  }
  return bytes;
}

bool SocketAddress::is_loopback() const {
  if (is_ipv4()) return ipv4_bytes()[0] == 127;
  return is_ipv6() && IN6_IS_ADDR_LOOPBACK(&storage_.ipv6.sin6_addr);
}

bool SocketAddress::is_link_local() const {
  return is_ipv6() && IN6_IS_ADDR_LINKLOCAL(&storage_.ipv6.sin6_addr);
}

bool SocketAddress::is_multicast() const {
  if (is_ipv4()) return (ipv4_bytes()[0] & 0xf0) == 0xe0;
  return is_ipv6() && IN6_IS_ADDR_MULTICAST(&storage_.ipv6.sin6_addr);
}

socklen_t SocketAddress::size() const {
  if (is_ipv4()) return sizeof(sockaddr_in);
  return is_ipv6() ? sizeof(sockaddr_in6) : sizeof(sa_family_t);
}

std::string SocketAddress::ip_text() const {
  if (is_ipv4()) return fmt::format("{}", fmt::join(ipv4_bytes(), "."));
  if (!is_ipv6()) return "none";
  const std::string ip = ipv6_text(ipv6_bytes());
  return scope_id() == 0 ? ip : fmt::format("{}%{}", ip, scope_id());
}

std::string SocketAddress::text() const {
  if (is_ipv6()) return fmt::format("[{}]:{}", ip_text(), port());
  return fmt::format("{}:{}", ip_text(), port());
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return same_ip(a, b) && a.port() == b.port();
}

std::string_view name_of(RoceVersion version) {
  return version == RoceVersion::v1 ? "IB/RoCE v1" : "RoCE v2";
}

bool same_ip(const SocketAddress& a, const SocketAddress& b) {
  return a.family() == b.family() && a.scope_id() == b.scope_id() &&
         a.ipv6_bytes() == b.ipv6_bytes();
}

std::string mac_text(const MacAddress& mac) { return fmt::format("{:02x}", fmt::join(mac, ":")); }

MacAddress synthetic_mac(const SocketAddress& ipv4) {
  const auto bytes = ipv4.ipv4_bytes();
  return {kLocallyAdministered, 0, bytes[0], bytes[1], bytes[2], bytes[3]};
}

std::uint64_t eui64(const MacAddress& mac) {
  const std::array<std::uint8_t, 8> bytes{static_cast<std::uint8_t>(mac[0] ^ kUniversalLocalBit),
                                          mac[1],
                                          mac[2],
                                          0xff,
                                          0xfe,
                                          mac[3],
                                          mac[4],
                                          mac[5]};
  return load_be<std::uint64_t>(reinterpret_cast<const std::byte*>(bytes.data()));
}

Gid rnic_gid(const MacAddress& mac) {
  Gid gid;
  std::ranges::copy(mac, gid.bytes.begin());
  return gid;
}

Gid link_local_gid(const MacAddress& mac) {
  Gid gid{{0xfe, 0x80}};
  store_be(reinterpret_cast<std::byte*>(gid.bytes.data() + 8), eui64(mac));
  return gid;
}

SocketAddress ipv4_of_synthetic_gid(const Gid& gid) {
  const auto& bytes = gid.bytes;
  const SocketAddress address = SocketAddress::ipv4({bytes[10], bytes[13], bytes[14], bytes[15]});
  return link_local_gid(synthetic_mac(address)) == gid ? address : SocketAddress();
}

Gid gid_of(const SocketAddress& address) { return Gid{address.ipv6_bytes()}; }

Result<SocketAddress> resolve_gid(const Gid& gid, std::uint32_t scope_id) {
  if (gid.is_zero()) return refuse(EINVAL, "the zero GID names no port");
  const auto& bytes = gid.bytes;
  if (gid.is_ipv4_mapped()) {
    if (bytes[12] == 0) return refuse(EINVAL, fmt::format("GID {} names no host", gid_text(gid)));
    return SocketAddress::ipv4({bytes[12], bytes[13], bytes[14], bytes[15]}, kRocePort);
  }
  if (const auto address = ipv4_of_synthetic_gid(gid); !address.empty()) {
    return address.with_port(kRocePort);
  }
  // Multicast of interface-local and link-local scope needs the interface too (RFC 4291, 2.7).
  const bool needs_scope = gid.is_link_local() || (bytes[0] == 0xff && (bytes[1] & 0x0f) <= 2);
  return SocketAddress::ipv6(bytes, kRocePort, needs_scope ? scope_id : 0);
}

std::string gid_text(const Gid& gid) { return ipv6_text(gid.bytes); }

}  // namespace verbatim

std::size_t std::hash<verbatim::SocketAddress>::operator()(
    const verbatim::SocketAddress& address) const noexcept {
  const auto bytes = address.ipv6_bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::hash<std::string_view>()(text) ^ (std::size_t{address.port()} << 32) ^
         address.scope_id();
}
