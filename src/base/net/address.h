#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <netinet/in.h>

#include "base/error.h"
#include "base/types.h"

/// IP addresses with a port, MAC addresses, and what RoCE derives from them: GIDs and GUIDs.
namespace verbatim {

/// The UDP port of RoCE v2 (IBA annex A17).
inline constexpr std::uint16_t kRocePort = 4791;

/// An IPv4 or IPv6 address with a port, as a value. A default-constructed one is empty (AF_UNSPEC).
class SocketAddress {
 public:
  SocketAddress() : storage_{} {}
  static SocketAddress ipv4(std::array<std::uint8_t, 4> bytes, std::uint16_t port = 0);
  static SocketAddress ipv6(std::array<std::uint8_t, 16> bytes, std::uint16_t port = 0,
                            std::uint32_t scope_id = 0);
  /// Converts a kernel's sockaddr. EAFNOSUPPORT for another family, EINVAL for a short length.
  static Result<SocketAddress> from(const sockaddr* address, socklen_t length);
  /// Return a socket's local address, and its peer's. Errors of getsockname, getpeername and
  /// `from`.
  static Result<SocketAddress> of_socket(int fd);
  static Result<SocketAddress> of_peer(int fd);
  /// Parses an address without a port: "10.0.0.1", "fe80::1", "fe80::1%eth0" or "fe80::1%2".
  static Result<SocketAddress> parse(std::string_view text, std::uint16_t port = 0);

  sa_family_t family() const { return storage_.any.sa_family; }
  bool is_ipv4() const { return family() == AF_INET; }
  bool is_ipv6() const { return family() == AF_INET6; }
  bool empty() const { return family() == AF_UNSPEC; }
  std::uint16_t port() const;
  std::uint32_t scope_id() const { return is_ipv6() ? storage_.ipv6.sin6_scope_id : 0; }
  SocketAddress with_port(std::uint16_t port) const;
  /// Returns the four bytes of an IPv4 address; zeros for another family.
  std::array<std::uint8_t, 4> ipv4_bytes() const;
  /// Returns the sixteen bytes of an IPv6 address; an IPv4 address as ::ffff:a.b.c.d.
  std::array<std::uint8_t, 16> ipv6_bytes() const;
  bool is_loopback() const;
  bool is_link_local() const;  // IPv6 fe80::/10 only.
  bool is_multicast() const;

  /// The sockaddr and its length, for system calls.
  const sockaddr* data() const { return &storage_.any; }
  socklen_t size() const;

  /// Returns "10.0.0.1" or "fe80::1%2", which `parse` accepts.
  std::string ip_text() const;
  /// Returns "10.0.0.1:4791" or "[fe80::1%2]:4791".
  std::string text() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  union Storage {
    sockaddr any;
    sockaddr_in ipv4;
    sockaddr_in6 ipv6;  // The largest member; all share the family field.
    Storage() : ipv6{} {}
  } storage_;
};

/// Returns true if both have the same IP address; ports are ignored.
bool same_ip(const SocketAddress& a, const SocketAddress& b);

/// How RoCE packets travel (IBA annexes A16 and A17): v1 in Ethernet frames with a GRH, v2 in UDP
/// datagrams. Version 1 has no ports: an address with port 0 means RoCE v1.
enum class RoceVersion : std::uint8_t { v1, v2 };
inline RoceVersion roce_version(const SocketAddress& address) {
  return address.port() == 0 ? RoceVersion::v1 : RoceVersion::v2;
}
/// Returns "IB/RoCE v1" or "RoCE v2", as in the kernel's sysfs.
std::string_view name_of(RoceVersion version);
/// Returns true if both have the same IP address and RoCE version.
inline bool same_roce_address(const SocketAddress& a, const SocketAddress& b) {
  return roce_version(a) == roce_version(b) && same_ip(a, b);
}

using MacAddress = std::array<std::uint8_t, 6>;
std::string mac_text(const MacAddress& mac);

/// Returns the MAC of a node on the loopback interface: 02:00:a:b:c:d for the address a.b.c.d. It
/// is locally administered, and the address can be computed from it.
MacAddress synthetic_mac(const SocketAddress& ipv4);
/// Returns the EUI-64 of a MAC with the universal/local bit inverted (RFC 4291, appendix A), in
/// host order. It is the node GUID, and the lower half of the link-local GID.
std::uint64_t eui64(const MacAddress& mac);
/// Returns fe80:: followed by the EUI-64 of the MAC.
Gid link_local_gid(const MacAddress& mac);
/// Returns the IPv4 address whose `synthetic_mac` the link-local GID was made from; else an empty
/// one.
SocketAddress ipv4_of_synthetic_gid(const Gid& gid);

/// Returns the only GID of an iWARP port: the MAC, followed by zeros. Peers do not use it.
Gid rnic_gid(const MacAddress& mac);

/// Returns the RoCE v2 GID of an address: ::ffff:a.b.c.d or the IPv6 address (IBA A17.4.5.1).
Gid gid_of(const SocketAddress& address);
/// Where packets for a GID go (multicast groups included), with port 4791:
///   ::ffff:a.b.c.d                 a.b.c.d
///   link-local made by this file   the IPv4 address that it was made from
///   other link-local               the IPv6 address in `scope_id` (the node's interface index)
///   anything else                  the IPv6 address
/// EINVAL for the zero GID and other unusable ones (loopback ::1 is usable on one machine).
Result<SocketAddress> resolve_gid(const Gid& gid, std::uint32_t scope_id);
/// Returns the GID as `ibv_devinfo` prints it, in IPv6's short form ("::ffff:10.0.0.1").
std::string gid_text(const Gid& gid);

}  // namespace verbatim

template <>
struct fmt::formatter<verbatim::SocketAddress> : fmt::formatter<std::string_view> {
  auto format(const verbatim::SocketAddress& address, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(address.text(), context);
  }
};

template <>
struct std::hash<verbatim::SocketAddress> {
  std::size_t operator()(const verbatim::SocketAddress& address) const noexcept;
};
