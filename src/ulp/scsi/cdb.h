#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "ulp/scsi/sense.h"

/// Command descriptor blocks: one table says where each command's fields are.
namespace verbatim::ulp::scsi {

/// What a command does, whichever of its lengths is used.
enum class Operation : std::uint8_t {
  test_unit_ready,
  request_sense,
  inquiry,
  mode_select,
  mode_sense,
  start_stop,
  read_capacity_10,
  read_capacity_16,
  report_luns,
  report_operation_codes,
  report_port_groups,
  set_port_groups,
  read,
  write,
  write_and_verify,
  verify,
  synchronize_cache,
  unmap,
  write_same,
  compare_and_write,
  reserve,
  release,
  persistent_reserve_in,
  persistent_reserve_out,
  extended_copy,
  receive_copy_results,
};
inline constexpr std::size_t kOperations =
    static_cast<std::size_t>(Operation::receive_copy_results) + 1;

/// One row a command: its length, and where the block address and the length (blocks, allocation or
/// parameters) are. `usage`: the bits that the unit looks at, as REPORT SUPPORTED OPERATION CODES
/// tells them (SPC-4, 6.35); the first byte is the operation code.
struct CdbFormat {
  static constexpr std::uint8_t kNoAction = 0xff;

  std::uint8_t opcode = 0;
  std::uint8_t action = kNoAction;  // Byte 1, bits 4 to 0.
  Operation operation{};
  std::uint8_t bytes = 0;
  std::uint8_t address_at = 0, address_bytes = 0;
  std::uint8_t length_at = 0, length_bytes = 0;
  std::array<std::uint8_t, 16> usage{};

  bool has_action() const { return action != kNoAction; }
};

std::span<const CdbFormat> cdb_formats();
/// Null if the unit does not know it. `action` matters only if the operation code has actions.
const CdbFormat* find_format(std::uint8_t opcode, std::uint8_t action);
/// Whether any row has this operation code with an action.
bool has_actions(std::uint8_t opcode);

/// A decoded command. Bits that only one command has are asked for by byte.
struct Cdb {
  static constexpr std::size_t kBytesMax = 16;

  const CdbFormat* format = nullptr;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::array<std::uint8_t, kBytesMax> bytes{};

  Operation operation() const { return format->operation; }
  bool has(std::size_t byte, std::uint8_t bits) const { return (bytes[byte] & bits) != 0; }
};

/// READ and WRITE (6): no blocks means 256. Refused: unknown commands, commands that are cut short,
/// and NACA, which INQUIRY does not offer.
std::expected<Cdb, Sense> decode_cdb(ByteSpan bytes);

}  // namespace verbatim::ulp::scsi
