#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  access_states = 0x0c,
  discovery = 0x70,
  reservations = 0x80,
};

inline constexpr std::size_t kLogBlockBytes = 1024;
using LogBlock = std::span<std::byte, kLogBlockBytes>;

/// What a host asks for.
struct LogRequest {
  LogPage page{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool keeps_event = false;  // RAE: it may be told again.
  bool only_groups = false;  // Access states: without the namespaces' ids (RGO).
};
LogRequest log_request_of(const AdminCommand& command);
void put_log_request(const LogRequest& request, AdminCommand& command);

/// Block 0 of each; what is not said is zero. `health` says: no warning, 300 K, no wear.
void encode_health(std::uint64_t errors, LogBlock out);
void encode_firmware(std::string_view revision, LogBlock out);
/// Block 0 has the admin commands, block 1 those of I/O.
void encode_effects(std::uint64_t block, bool has_reservations, LogBlock out);

/// Writes little-endian values one after the other, of which one block is kept.
class LogBlockWriter {
 public:
  LogBlockWriter(std::uint64_t block, LogBlock out) : first_(block * kLogBlockBytes), out_(out) {}
  template <typename T>
  void put(T value) {
    std::array<std::byte, sizeof(T)> bytes{};
    store_le(bytes.data(), value);
    for (const std::byte byte : bytes) {
      if (at_ >= first_ && at_ - first_ < out_.size()) out_[at_ - first_] = byte;
      ++at_;
    }
  }

 private:
  const std::uint64_t first_;
  const LogBlock out_;
  std::uint64_t at_ = 0;
};

/// An entry of the error log, 64 bytes (figure 198): a command that was refused.
struct ErrorEntry {
  std::uint64_t count = 0;  // From 1 on: errors of the controller so far.
  std::uint16_t queue = 0;
  CommandId command{};
  Status status{};
  std::uint64_t block = 0;
  std::uint32_t space = 0;
};
void put_error(const ErrorEntry& entry, LogBlockWriter& out);

/// What the reservation notification log page has, 64 bytes (figure 231): the oldest notice that
/// was not read yet. `count` skips those that were lost.
struct ReservationLogEntry {
  std::uint64_t count = 0;
  std::uint8_t event = 0;
  std::uint8_t more = 0;  // Notices behind it.
  std::uint32_t space = 0;
};
void put_reservation(const ReservationLogEntry& entry, LogBlockWriter& out);

/// A group of namespaces, and how they are reached by one port (asymmetric namespace access).
enum class AccessState : std::uint8_t {
  optimized = 0x1,
  non_optimized = 0x2,
  inaccessible = 0x3,
  persistent_loss = 0x4,
  change = 0xf,
};
void put_access_header(std::uint64_t changes, std::uint16_t groups, LogBlockWriter& out);
/// The ids of its namespaces follow, 4 bytes each.
void put_access_group(std::uint32_t group, std::uint32_t spaces, std::uint64_t changes,
                      AccessState state, LogBlockWriter& out);

/// An entry of the discovery log: a subsystem at an address.
struct DiscoveryEntry {
  std::string subsystem;
  SocketAddress at;
  std::uint16_t port_id = 1;
  std::uint16_t admin_commands = 32;
};
void encode_discovery_header(std::uint64_t generation, std::uint64_t entries, LogBlock out);
void encode(const DiscoveryEntry& entry, LogBlock out);

/// As hosts read them. How a group is reached, of what has come of the page; null: it does not say.
std::optional<AccessState> decode_access_state(ByteSpan bytes, std::uint32_t group);
struct DiscoveryHeader {
  std::uint64_t generation = 0;
  std::uint64_t entries = 0;
};
std::expected<DiscoveryHeader, WireError> decode_discovery_header(ByteSpan bytes);

}  // namespace verbatim::ulp::nvmeof
