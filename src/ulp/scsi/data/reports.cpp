#include "ulp/scsi/data/reports.h"

#include <algorithm>
#include <limits>

#include "base/inplace_vector.h"

namespace verbatim::ulp::scsi {

std::expected<void, Sense> write_capacity_10(const Cdb& cdb, const UnitSettings& settings,
                                             DataWriter& out) {
  // SBC-2, 5.10: without PMI the address is zero. Obsolete, but it is tested.
  if (!cdb.has(8, 1) && cdb.address != 0) return std::unexpected(invalid_field(2));
  constexpr std::uint64_t more = std::numeric_limits<std::uint32_t>::max();  // Ask with (16).
  out.put(static_cast<std::uint32_t>(std::min(settings.blocks - 1, more)));
  out.put(settings.block_bytes);
  return {};
}

std::expected<void, Sense> write_capacity_16(const Cdb& cdb, const UnitSettings& settings,
                                             DataWriter& out) {
  if (!cdb.has(14, 1) && cdb.address != 0) return std::unexpected(invalid_field(2));
  out.put(settings.blocks - 1);
  out.put(settings.block_bytes);
  out.put<std::uint16_t>(0);  // No protection; a physical block is a logical one.
  unsigned flags = 0;
  if (settings.can_unmap || settings.can_unmap_by_write_same) {
    flags |= 0x80;                             // LBPME.
    if (settings.unmap_zeroes) flags |= 0x40;  // LBPRZ.
  }
  out.byte(flags);
  out.zeros(17);
  return {};
}

std::expected<void, Sense> write_luns(const Cdb& cdb, std::span<const Lun> luns, DataWriter& out) {
  // What to report: units (0), well-known ones (1), both (2).
  const std::uint8_t what = cdb.bytes[2];
  if (what > 2) return std::unexpected(invalid_field(2, 7));
  if (cdb.length < 16) return std::unexpected(invalid_field(6));
  if (what == 1) luns = {};
  // Where no unit is there, 0 is told: it answers INQUIRY.
  const std::size_t count = what == 1 ? 0 : std::max<std::size_t>(luns.size(), 1);
  out.put(static_cast<std::uint32_t>(8 * count));
  out.zeros(4);
  for (const Lun lun : luns) out.put(lun);
  if (count > luns.size()) out.put<Lun>(0);
  return {};
}

bool is_enabled(Operation operation, const UnitSettings& settings) {
  switch (operation) {
    case Operation::unmap:
      return settings.can_unmap;
    case Operation::set_port_groups:
      return settings.can_set_port_groups;
    case Operation::compare_and_write:
      return settings.can_compare_and_write;
    case Operation::reserve:
    case Operation::release:
    case Operation::persistent_reserve_in:
    case Operation::persistent_reserve_out:
      return settings.can_reserve;
    case Operation::extended_copy:
    case Operation::receive_copy_results:
      return settings.can_copy;
    default:
      return true;
  }
}

namespace {

/// No time is told: 12 bytes, of which 10 follow the length.
void no_timeouts(DataWriter& out) {
  out.put<std::uint16_t>(10);
  out.zeros(10);
}

/// The table's, without DPO and FUA if they are not offered.
InplaceVector<std::uint8_t, 16> usage_of(const CdbFormat& format, const UnitSettings& settings) {
  InplaceVector<std::uint8_t, 16> usage;
  for (const std::uint8_t byte : std::span(format.usage).first(format.bytes)) usage.push(byte);
  const bool has_flags = format.bytes > 6 && format.address_bytes > 0 && !format.has_action() &&
                         format.operation != Operation::write_same;
  if (has_flags && !settings.has_write_cache) usage[1] &= 0xe7;
  return usage;
}

void all_operation_codes(bool timeouts, const UnitSettings& settings, DataWriter& out) {
  out.put<std::uint32_t>(0);
  for (const CdbFormat& format : cdb_formats()) {
    if (!is_enabled(format.operation, settings)) continue;
    out.byte(format.opcode);
    out.byte(0);
    out.put(static_cast<std::uint16_t>(format.has_action() ? format.action : 0));
    out.byte(0);
    out.byte((format.has_action() ? 1u : 0u) | (timeouts ? 2u : 0u));  // SERVACTV, CTDP.
    out.put(static_cast<std::uint16_t>(format.bytes));
    if (timeouts) no_timeouts(out);
  }
  out.set(0, static_cast<std::uint32_t>(out.size() - 4));
}

}  // namespace

std::expected<void, Sense> write_operation_codes(const Cdb& cdb, const UnitSettings& settings,
                                                 DataWriter& out) {
  const bool timeouts = cdb.has(2, 0x80);  // RCTD.
  const unsigned options = cdb.bytes[2] & 7;
  if (options == 0)
    return all_operation_codes(timeouts, settings, out), std::expected<void, Sense>();
  if (options > 3) return std::unexpected(invalid_field(2, 2));
  const std::uint8_t opcode = cdb.bytes[3];
  const unsigned action = unsigned{cdb.bytes[4]} << 8 | cdb.bytes[5];
  // One command: without an action (1), with one (2), or either (3).
  if ((options == 1 && has_actions(opcode)) || (options == 2 && !has_actions(opcode)))
    return std::unexpected(invalid_field(4));
  const CdbFormat* format =
      action > 0x1f ? nullptr : find_format(opcode, static_cast<std::uint8_t>(action));
  if (options == 3 && format != nullptr && !format->has_action() && action != 0) format = nullptr;
  if (format != nullptr && !is_enabled(format->operation, settings)) format = nullptr;
  out.byte(0);
  if (format == nullptr) {
    out.byte(1);  // Not supported.
    out.zeros(2);
    return {};
  }
  out.byte(3u | (timeouts ? 0x80u : 0u));
  out.put(static_cast<std::uint16_t>(format->bytes));
  for (const std::uint8_t byte : usage_of(*format, settings)) out.byte(byte);
  if (timeouts) no_timeouts(out);
  return {};
}

}  // namespace verbatim::ulp::scsi
