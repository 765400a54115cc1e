#include "ulp/nvmeof/wire/reservation_data.h"

#include <algorithm>

namespace verbatim::ulp::nvmeof {

ReservationChange reservation_change_of(const Command& command, const ReservationKeys& keys) {
  const std::uint32_t dword = command.dword_10();
  return {.opcode = command.opcode,
          .action = static_cast<std::uint8_t>(dword & 0x07),
          .ignores_key = (dword & 0x08) != 0,
          .type = static_cast<ReservationType>(dword >> 8 & 0xff),
          .persistence = static_cast<Persistence>(dword >> 30),
          .key = keys[0],
          .second_key = keys[1]};
}

std::uint32_t key_bytes(Opcode opcode) { return opcode == Opcode::reservation_release ? 8 : 16; }

ReportRequest report_request_of(const Command& command) {
  return {.bytes = 4 * (std::uint64_t{command.dword_10()} + 1),
          .is_extended = (command.dword_11() & 1) != 0};
}

/// Figures 404 and 406.
std::vector<std::byte> encode(const ReservationReport& report) {
  constexpr std::uint16_t kAnyController = 0xffff;  // As Linux: controllers come and go.
  std::vector<std::byte> bytes(ReservationReport::kHeadBytes +
                               report.entries.size() * ReservationReport::kEntryBytes);
  store_le(&bytes[0], report.generation);
  bytes[4] = static_cast<std::byte>(report.type);
  store_le(&bytes[5], static_cast<std::uint16_t>(report.entries.size()));
  bytes[9] = std::byte{report.lasts};
  std::size_t at = ReservationReport::kHeadBytes;
  for (const ReservationReport::Entry& entry : report.entries) {
    store_le(&bytes[at], kAnyController);
    bytes[at + 2] = std::byte{entry.holds};
    store_le(&bytes[at + 8], entry.key);
    std::ranges::copy(entry.host, &bytes[at + 16]);
    at += ReservationReport::kEntryBytes;
  }
  return bytes;
}

}  // namespace verbatim::ulp::nvmeof
