#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ulp/nvmeof/wire/command.h"

/// What the commands of reservations carry (base specification 1.4, sections 6.11 to 6.14).
namespace verbatim::ulp::nvmeof {

using HostId = std::array<std::byte, 16>;

/// RTYPE, figure 394.
enum class ReservationType : std::uint8_t {
  none = 0,
  write_exclusive = 1,
  exclusive_access = 2,
  write_exclusive_registrants_only = 3,
  exclusive_access_registrants_only = 4,
  write_exclusive_all_registrants = 5,
  exclusive_access_all_registrants = 6,
};
enum class RegisterAction : std::uint8_t { enroll = 0, withdraw = 1, replace = 2 };
enum class AcquireAction : std::uint8_t { acquire = 0, preempt = 1, preempt_and_abort = 2 };
enum class ReleaseAction : std::uint8_t { release = 0, clear = 1 };
/// CPTPL: whether registrations and the reservation outlive a loss of power.
enum class Persistence : std::uint8_t { as_it_is = 0, ends = 2, lasts = 3 };

inline bool is_reservation(Opcode opcode) {
  return opcode == Opcode::reservation_register || opcode == Opcode::reservation_report ||
         opcode == Opcode::reservation_acquire || opcode == Opcode::reservation_release;
}

/// Register, Acquire, Release. Dword 10, and the data: one key or two.
///
///     bits  31-30         15-8    3                  2-0      data 0-7   8-15
///          +-------------+------+-------------------+--------+----------+---------------------+
///          | persistence | type | ignores the key   | action | the key  | new, or preempted   |
///          +-------------+------+-------------------+--------+----------+---------------------+
struct ReservationChange {
  /// Linux sends two keys with Release as well.
  static constexpr std::uint32_t kBytesMax = 16;
  Opcode opcode{};
  std::uint8_t action = 0;
  bool ignores_key = false;
  ReservationType type = ReservationType::none;
  Persistence persistence = Persistence::as_it_is;
  std::uint64_t key = 0, second_key = 0;
};
using ReservationKeys = std::array<std::uint64_t, 2>;
ReservationChange reservation_change_of(const Command& command, const ReservationKeys& keys);
/// What the command needs at least.
std::uint32_t key_bytes(Opcode opcode);

/// Reservation Report: how many bytes the host wants, and whether with host ids of 16 bytes.
struct ReportRequest {
  std::uint64_t bytes = 0;
  bool is_extended = false;
};
ReportRequest report_request_of(const Command& command);

/// Its answer, always the extended one.
struct ReservationReport {
  static constexpr std::size_t kHeadBytes = 64, kEntryBytes = 64;
  struct Entry {
    HostId host{};
    std::uint64_t key = 0;
    bool holds = false;
  };
  std::uint32_t generation = 0;
  ReservationType type = ReservationType::none;
  bool lasts = false;
  std::vector<Entry> entries;
};
std::vector<std::byte> encode(const ReservationReport& report);

}  // namespace verbatim::ulp::nvmeof
