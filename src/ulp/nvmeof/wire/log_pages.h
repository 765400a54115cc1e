#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/net/address.h"
#include "ulp/nvmeof/wire/command.h"

/// Pages of Get Log Page (NVM Express base specification 1.4, section 5.14; NVMe over Fabrics 1.1,
/// section 5.3), in blocks of 1,024 bytes, for hosts read them in parts.
namespace verbatim::ulp::nvmeof {

enum class LogPage : std::uint8_t {
  errors = 0x01,
  health = 0x02,
  firmware = 0x03,
  changed_spaces = 0x04,
  effects = 0x05,
  discovery = 0x70,
};

inline constexpr std::size_t kLogBlockBytes = 1024;
using LogBlock = std::span<std::byte, kLogBlockBytes>;

/// What a host asks for.
struct LogRequest {
  LogPage page{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
LogRequest log_request_of(const AdminCommand& command);
void put_log_request(const LogRequest& request, AdminCommand& command);

/// Block 0 of each; what is not said is zero. `health` says: no warning, 300 K, no wear.
void encode_health(LogBlock out);
void encode_firmware(std::string_view revision, LogBlock out);
/// Block 0 has the admin commands, block 1 those of I/O.
void encode_effects(std::uint64_t block, LogBlock out);

/// An entry of the discovery log: a subsystem at an address.
struct DiscoveryEntry {
  std::string subsystem;
  SocketAddress at;
  std::uint16_t port_id = 1;
  std::uint16_t admin_commands = 32;
};
void encode_discovery_header(std::uint64_t generation, std::uint64_t entries, LogBlock out);
void encode(const DiscoveryEntry& entry, LogBlock out);

/// As hosts read them.
struct DiscoveryHeader {
  std::uint64_t generation = 0;
  std::uint64_t entries = 0;
};
std::expected<DiscoveryHeader, WireError> decode_discovery_header(ByteSpan bytes);

}  // namespace verbatim::ulp::nvmeof
