#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulp/nvmeof/wire/command.h"

/// What Identify answers (NVM Express base specification 1.4, section 5.15; NVMe over Fabrics 1.1,
/// figure 30): pages of 4,096 bytes, of which these are the fields that are not zero.
namespace verbatim::ulp::nvmeof {

inline constexpr std::size_t kIdentifyBytes = 4096;
using IdentifyPage = std::span<std::byte, kIdentifyBytes>;

enum class IdentifyKind : std::uint8_t {
  space = 0x00,
  controller = 0x01,
  active_spaces = 0x02,
  space_descriptors = 0x03,
  space_of_command_set = 0x05,
  controller_of_command_set = 0x06,
};
enum class ControllerType : std::uint8_t { io = 1, discovery = 2 };

/// Version 1.3, as Linux's target says: VS, VER.
inline constexpr std::uint32_t kVersion = 0x00010300;

struct ControllerData {
  std::string_view serial, model, firmware, subsystem;
  std::uint16_t id = 0;
  ControllerType type = ControllerType::io;
  std::uint8_t transfer_shift = 8;   // MDTS: log2 of pages of 4 KiB in a transfer.
  std::uint8_t async_events = 4;     // AERL + 1
  std::uint16_t commands = 128;      // MAXCMD
  std::uint32_t namespaces = 0;      // NN
  std::uint32_t capsule_bytes = 64;  // Of a command with its data.
  std::uint32_t notices = 0;         // OAES
  std::uint8_t error_entries = 1;    // ELPE + 1
  bool has_reservations = false;     // Of some namespace.
  std::uint32_t access_groups = 0;   // ANAGRPMAX, NANAGRPID; 0: no access states are told.
};
void encode(const ControllerData& data, IdentifyPage out);

using Uuid = std::array<std::byte, 16>;
struct SpaceData {
  std::uint64_t blocks = 0;
  std::uint8_t block_shift = 9;
  bool is_read_only = false;
  std::uint32_t access_group = 0;
  Uuid uuid{};  // Also its NGUID.
  bool can_reserve = false, reservations_last = false;
};
void encode(const SpaceData& data, IdentifyPage out);

/// As hosts read them.
struct FoundController {
  std::string name;                  // Model, serial number.
  std::uint8_t transfer_shift = 0;   // MDTS; 0: no limit.
  std::uint32_t capsule_bytes = 64;  // IOCCSZ.
  bool has_keyed_descriptors = false;
  bool can_discard = false, can_write_zeroes = false;
  bool tells_access = false;  // CMIC: how it reaches each group of namespaces (ANA).
  std::uint32_t notices = 0;  // OAES
};
FoundController decode_controller(std::span<const std::byte, kIdentifyBytes> page);
struct FoundSpace {
  std::uint64_t blocks = 0;  // 0: there is no such namespace.
  std::uint8_t block_shift = 0;
  std::uint16_t metadata_bytes = 0;  // Of each block.
  bool is_read_only = false;
  std::uint32_t access_group = 0;  // ANAGRPID
  Uuid global_id{};                // NGUID, or EUI-64 behind zeroes. Zeroes: none.
};
FoundSpace decode_space(std::span<const std::byte, kIdentifyBytes> page);
/// What a controller says of itself in words, with the blanks that fill each.
struct FoundNames {
  std::string serial, model, firmware;
  std::uint8_t type = 0, discovery_type = 0;  // CNTRLTYPE, DCTYPE.
};
FoundNames decode_names(std::span<const std::byte, kIdentifyBytes> page);
/// The list of active namespaces.
std::vector<std::uint32_t> decode_space_list(std::span<const std::byte, kIdentifyBytes> page);
/// Of the list of descriptors; zeroes: it has none.
Uuid decode_uuid(std::span<const std::byte, kIdentifyBytes> page);

/// The list of descriptors: its UUID, and that its command set is NVM's.
void encode_descriptors(const Uuid& uuid, IdentifyPage out);

}  // namespace verbatim::ulp::nvmeof
