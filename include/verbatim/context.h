#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>
#include <verbatim/result.h>

namespace verbatim::inline v1 {

namespace detail {
struct DeviceHandle;
struct DomainHandle;
}  // namespace detail

/// An InfiniBand or RoCE address (GID), 128 bits in network byte order.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  /// Returns the text form of an IPv6 address, `fe80::2e0:4cff:fe68:1`; a GID made of an IPv4
  /// address ends in that address (IPv4-mapped, RFC 4291).
  std::string to_string() const;
  friend bool operator==(const Gid&, const Gid&) = default;
};

struct PortInfo {
  std::uint8_t number = 1;
  bool active = false;
  bool is_ethernet = false;  ///< RoCE or iWARP; if not, InfiniBand, with LIDs.
  std::uint16_t lid = 0;
  std::uint32_t mtu_bytes = 0;  ///< The active MTU.
  std::vector<Gid> gids;        ///< By index; empty entries are all zero.
};

struct DeviceInfo {
  std::string name;             ///< As `ibv_devices` prints it: `verbatim0`, `mlx5_0`.
  std::uint64_t node_guid = 0;  ///< Host byte order.
  bool is_iwarp = false;
  std::vector<PortInfo> ports;
};

/// Selects a device and port. An empty field matches all; the first match is used.
struct DeviceChoice {
  std::string name = {};     ///< `verbatim0`
  std::string address = {};  ///< An IP address or GID in text, which the port must have.
  std::uint8_t port = 0;     ///< 0: the first active port.
  int gid_index = -1;  ///< -1: that of `address`; without one, the port's first RoCE v2 GID of an
                       ///< IPv4 address, else its first GID.
};

/// Returns all devices that this process may open. Each call searches again.
Result<std::vector<DeviceInfo>> devices();

class ProtectionDomain;

/// An open device and one of its ports. Several may be open, also of the same device. Copies share
/// the device. Thread-safe.
class Context {
 public:
  /// Fails with `Call::open_device` if there is no device, none matches, or it cannot be opened.
  static Result<Context> open(const DeviceChoice& choice = {});

  const DeviceInfo& device() const noexcept;
  const PortInfo& port() const noexcept;
  /// Index in `port().gids` of the GID that connections use.
  std::uint8_t gid_index() const noexcept;
  Gid gid() const noexcept;

  /// Memory and queue pairs of the same domain can be used together.
  Result<ProtectionDomain> allocate_domain() const;

  /// Owned by the context. For features that this library does not have.
  ibv_context* native() const noexcept;

  const std::shared_ptr<detail::DeviceHandle>& handle() const noexcept { return handle_; }

 private:
  explicit Context(std::shared_ptr<detail::DeviceHandle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<detail::DeviceHandle> handle_;
};

}  // namespace verbatim::inline v1
