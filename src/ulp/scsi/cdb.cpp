#include "ulp/scsi/cdb.h"

#include <algorithm>
#include <cstring>

namespace verbatim::ulp::scsi {

namespace {

constexpr std::uint8_t kNaca = 0x04;  // In the last byte, CONTROL.
constexpr std::uint8_t kNone = CdbFormat::kNoAction;

using enum Operation;

// Columns: operation code, service action, operation, bytes, block address (at, bytes), length (at,
// bytes), usage. RDPROTECT and WRPROTECT, DPO and FUA are 0xf8 of byte 1.
constexpr CdbFormat kFormats[] = {
    {0x00, kNone, test_unit_ready, 6, 0, 0, 0, 0, {0x00, 0, 0, 0, 0, 4}},
    {0x03, kNone, request_sense, 6, 0, 0, 4, 1, {0x03, 1, 0, 0, 0xff, 4}},
    {0x08, kNone, read, 6, 1, 3, 4, 1, {0x08, 0x1f, 0xff, 0xff, 0xff, 4}},
    {0x0a, kNone, write, 6, 1, 3, 4, 1, {0x0a, 0x1f, 0xff, 0xff, 0xff, 4}},
    {0x12, kNone, inquiry, 6, 0, 0, 3, 2, {0x12, 1, 0xff, 0xff, 0xff, 4}},
    {0x15, kNone, mode_select, 6, 0, 0, 4, 1, {0x15, 0x11, 0, 0, 0xff, 4}},
    {0x16, kNone, reserve, 6, 0, 0, 0, 0, {0x16, 0, 0, 0, 0, 4}},
    {0x17, kNone, release, 6, 0, 0, 0, 0, {0x17, 0, 0, 0, 0, 4}},
    {0x1a, kNone, mode_sense, 6, 0, 0, 4, 1, {0x1a, 8, 0xff, 0xff, 0xff, 4}},
    {0x1b, kNone, start_stop, 6, 0, 0, 0, 0, {0x1b, 1, 0, 0, 0xf7, 4}},
    {0x25, kNone, read_capacity_10, 10, 2, 4, 0, 0, {0x25, 0, 255, 255, 255, 255, 0, 0, 1, 4}},
    {0x28, kNone, read, 10, 2, 4, 7, 2, {0x28, 0xf8, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x2a, kNone, write, 10, 2, 4, 7, 2, {0x2a, 0xf8, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x2e,
     kNone,
     write_and_verify,
     10,
     2,
     4,
     7,
     2,
     {0x2e, 0xf6, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x2f, kNone, verify, 10, 2, 4, 7, 2, {0x2f, 0xf6, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x35, kNone, synchronize_cache, 10, 2, 4, 7, 2, {0x35, 2, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x41, kNone, write_same, 10, 2, 4, 7, 2, {0x41, 0xf8, 255, 255, 255, 255, 0, 255, 255, 4}},
    {0x42, kNone, unmap, 10, 0, 0, 7, 2, {0x42, 1, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x55, kNone, mode_select, 10, 0, 0, 7, 2, {0x55, 0x11, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x56, kNone, reserve, 10, 0, 0, 0, 0, {0x56, 0, 0, 0, 0, 0, 0, 0, 0, 4}},
    {0x57, kNone, release, 10, 0, 0, 0, 0, {0x57, 0, 0, 0, 0, 0, 0, 0, 0, 4}},
    {0x5a, kNone, mode_sense, 10, 0, 0, 7, 2, {0x5a, 0x18, 255, 255, 0, 0, 0, 255, 255, 4}},
    {0x5e, 0, persistent_reserve_in, 10, 0, 0, 7, 2, {0x5e, 0x1f, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x5e, 1, persistent_reserve_in, 10, 0, 0, 7, 2, {0x5e, 0x1f, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x5e, 2, persistent_reserve_in, 10, 0, 0, 7, 2, {0x5e, 0x1f, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x5e, 3, persistent_reserve_in, 10, 0, 0, 7, 2, {0x5e, 0x1f, 0, 0, 0, 0, 0, 255, 255, 4}},
    {0x5f,
     0,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     1,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     2,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     3,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     4,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     5,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     6,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x5f,
     7,
     persistent_reserve_out,
     10,
     0,
     0,
     5,
     4,
     {0x5f, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4}},
    {0x83,
     0,
     extended_copy,
     16,
     0,
     0,
     10,
     4,
     {0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4}},
    {0x84,
     3,
     receive_copy_results,
     16,
     0,
     0,
     10,
     4,
     {0x84, 0x1f, 255, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4}},
    {0x88,
     kNone,
     read,
     16,
     2,
     8,
     10,
     4,
     {0x88, 0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x89,
     kNone,
     compare_and_write,
     16,
     2,
     8,
     13,
     1,
     {0x89, 0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0, 4}},
    {0x8a,
     kNone,
     write,
     16,
     2,
     8,
     10,
     4,
     {0x8a, 0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x8e,
     kNone,
     write_and_verify,
     16,
     2,
     8,
     10,
     4,
     {0x8e, 0xf6, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x8f,
     kNone,
     verify,
     16,
     2,
     8,
     10,
     4,
     {0x8f, 0xf6, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x91,
     kNone,
     synchronize_cache,
     16,
     2,
     8,
     10,
     4,
     {0x91, 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x93,
     kNone,
     write_same,
     16,
     2,
     8,
     10,
     4,
     {0x93, 0xf9, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0x9e,
     0x10,
     read_capacity_16,
     16,
     2,
     8,
     10,
     4,
     {0x9e, 0x1f, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 4}},
    {0xa0, kNone, report_luns, 12, 0, 0, 6, 4, {0xa0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 4}},
    {0xa3,
     0x0a,
     report_port_groups,
     12,
     0,
     0,
     6,
     4,
     {0xa3, 0xff, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4}},
    {0xa3,
     0x0c,
     report_operation_codes,
     12,
     0,
     0,
     6,
     4,
     {0xa3, 0x1f, 0x87, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0xa4,
     0x0a,
     set_port_groups,
     12,
     0,
     0,
     6,
     4,
     {0xa4, 0x1f, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4}},
    {0xa8, kNone, read, 12, 2, 4, 6, 4, {0xa8, 0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0xaa,
     kNone,
     write,
     12,
     2,
     4,
     6,
     4,
     {0xaa, 0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0xae,
     kNone,
     write_and_verify,
     12,
     2,
     4,
     6,
     4,
     {0xae, 0xf6, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
    {0xaf,
     kNone,
     verify,
     12,
     2,
     4,
     6,
     4,
     {0xaf, 0xf6, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4}},
};

/// Operation code to its first row, plus 1; 0: none.
constexpr auto kFirstRow = [] {
  std::array<std::uint8_t, 256> rows{};
  for (std::size_t i = std::size(kFormats); i-- > 0;)
    rows[kFormats[i].opcode] = static_cast<std::uint8_t>(i + 1);
  return rows;
}();

std::uint64_t load(const std::array<std::uint8_t, Cdb::kBytesMax>& bytes, std::size_t at,
                   std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + i];
  return value;
}

}  // namespace

std::span<const CdbFormat> cdb_formats() { return kFormats; }

const CdbFormat* find_format(std::uint8_t opcode, std::uint8_t action) {
  for (std::size_t row = kFirstRow[opcode]; row > 0 && row <= std::size(kFormats); ++row) {
    const CdbFormat& format = kFormats[row - 1];
    if (format.opcode != opcode) return nullptr;
    if (!format.has_action() || format.action == action) return &format;
  }
  return nullptr;
}

bool has_actions(std::uint8_t opcode) {
  const std::size_t row = kFirstRow[opcode];
  return row > 0 && kFormats[row - 1].has_action();
}

std::expected<Cdb, Sense> decode_cdb(ByteSpan bytes) {
  if (bytes.empty()) return std::unexpected(illegal_request(SenseCode::invalid_operation_code));
  Cdb cdb;
  std::memcpy(cdb.bytes.data(), bytes.data(), std::min(bytes.size(), Cdb::kBytesMax));
  const std::uint8_t opcode = cdb.bytes[0];
  cdb.format = find_format(opcode, cdb.bytes[1] & 0x1f);
  if (cdb.format == nullptr) {
    return std::unexpected(has_actions(opcode)
                               ? invalid_field(1, 4)
                               : illegal_request(SenseCode::invalid_operation_code));
  }
  const CdbFormat& format = *cdb.format;
  if (bytes.size() < format.bytes)
    return std::unexpected(invalid_field(static_cast<std::uint16_t>(bytes.size())));
  const auto control = static_cast<std::uint16_t>(format.bytes - 1);
  if (cdb.has(control, kNaca)) return std::unexpected(invalid_field(control, 2));
  cdb.address = load(cdb.bytes, format.address_at, format.address_bytes);
  cdb.length = static_cast<std::uint32_t>(load(cdb.bytes, format.length_at, format.length_bytes));
  if (format.bytes == 6 && format.address_bytes > 0) {
    cdb.address &= 0x1fffff;
    if (cdb.length == 0) cdb.length = 256;
  }
  return cdb;
}

}  // namespace verbatim::ulp::scsi
