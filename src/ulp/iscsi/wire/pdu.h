#pragma once

#include <array>
#include <cstdint>
#include <expected>

#include "base/bytes.h"

/// iSCSI's messages (RFC 7143, section 11): a basic header segment of 48 bytes, additional headers,
/// data. Fields of one name lie at one place in all of them:
///
///     byte 0      1       2          3        4       5-7          8-15          16        20
///         +------+-------+----------+--------+-------+------------+-------------+---------+--------
///         |I, op | flags | response | status | AHS/4 | data bytes | LUN or ISID | task    | see
///         |      |       | version  |        |       |            | and TSIH    | tag     | below
///         +------+-------+----------+--------+-------+------------+-------------+---------+--------
///     request   24 CmdSN    28 ExpStatSN   32 CDB, or RefCmdSN 32, DataSN 36, buffer offset 40
///     response  24 StatSN   28 ExpCmdSN    32 MaxCmdSN  36 DataSN or status  40 offset  44
///     residual
namespace verbatim::ulp::iscsi {

enum class Opcode : std::uint8_t {
  nop_out = 0x00,
  scsi_command = 0x01,
  task_management = 0x02,
  login = 0x03,
  text = 0x04,
  data_out = 0x05,
  logout = 0x06,
  snack = 0x10,
  nop_in = 0x20,
  scsi_response = 0x21,
  task_management_response = 0x22,
  login_response = 0x23,
  text_response = 0x24,
  data_in = 0x25,
  logout_response = 0x26,
  ready_to_transfer = 0x31,
  async_message = 0x32,
  reject = 0x3f,
};

/// Of a Reject (section 11.17.1).
enum class RejectReason : std::uint8_t {
  snack = 0x03,
  protocol_error = 0x04,
  command_not_supported = 0x05,
  immediate_command = 0x06,
  task_in_progress = 0x07,
  invalid_field = 0x09,
};

/// Class and detail of a login's answer (section 11.13.5).
enum class LoginStatus : std::uint16_t {
  success = 0x0000,
  initiator_error = 0x0200,
  authentication_failure = 0x0201,
  forbidden = 0x0202,
  not_found = 0x0203,
  unsupported_version = 0x0205,
  too_many_connections = 0x0206,
  missing_parameter = 0x0207,
  session_type_not_supported = 0x0209,
  session_does_not_exist = 0x020a,
  invalid_during_login = 0x020b,
  target_error = 0x0300,
  service_unavailable = 0x0301,
  out_of_resources = 0x0302,
};

inline constexpr std::uint32_t kHeaderBytes = 48;
inline constexpr std::uint32_t kNoTag32 = 0xffff'ffff;
inline constexpr std::uint8_t kFinal = 0x80;     // Login: T, transit.
inline constexpr std::uint8_t kContinue = 0x40;  // Login and text: C.
/// Of a SCSI command.
inline constexpr std::uint8_t kReads = 0x40, kWrites = 0x20;
/// Of Data-In: the status stands in it. And of residuals.
inline constexpr std::uint8_t kHasStatus = 0x01, kOverflow = 0x04, kUnderflow = 0x02;

/// What an initiator sends. Decoding checks what holds for each kind; reserved bits are ignored.
struct RequestHeader {
  Opcode opcode{};
  bool is_immediate = false;
  std::uint8_t flags = 0;        // Byte 1.
  std::uint8_t version_min = 0;  // Login: byte 3.
  std::uint32_t more_bytes = 0;  // Of additional headers.
  std::uint32_t data_bytes = 0;  // Without padding.
  std::uint64_t lun = 0;         // Login: ISID in the first 6 bytes, TSIH in the last 2.
  std::uint32_t task_tag = 0;
  std::uint32_t word_20 = 0;  // See the functions below.
  std::uint32_t cmd_sn = 0;
  std::uint32_t exp_stat_sn = 0;
  std::array<std::byte, 16> cdb{};  // From byte 32 on.

  std::uint32_t expected_bytes() const { return word_20; }   // SCSI command.
  std::uint32_t transfer_tag() const { return word_20; }     // NOP-Out, text, Data-Out.
  std::uint32_t referenced_task() const { return word_20; }  // Task management.
  std::uint16_t connection_id() const { return static_cast<std::uint16_t>(word_20 >> 16); }
  std::uint32_t data_sn() const { return load_be<std::uint32_t>(&cdb[4]); }
  std::uint32_t buffer_offset() const { return load_be<std::uint32_t>(&cdb[8]); }
  void set_data(std::uint32_t data_sn, std::uint32_t buffer_offset);

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  std::uint8_t low_flags() const { return flags & 0x7f; }  // Function, reason.
  std::uint8_t current_stage() const { return flags >> 2 & 3; }
  std::uint8_t next_stage() const { return flags & 3; }
  friend bool operator==(const RequestHeader&, const RequestHeader&) = default;
};

using HeaderSpan = std::span<const std::byte, kHeaderBytes>;
std::expected<RequestHeader, RejectReason> decode_request(HeaderSpan header);
std::array<std::byte, kHeaderBytes> encode(const RequestHeader& header);

/// What a target sends.
struct ResponseHeader {
  Opcode opcode{};
  std::uint8_t flags = kFinal;
  std::uint8_t response = 0;  // Login: the highest version, 0.
  std::uint8_t status = 0;    // Login: the version that is used, 0.
  std::uint32_t data_bytes = 0;
  std::uint64_t lun = 0;  // Login: as in the request, with our TSIH.
  std::uint32_t task_tag = kNoTag32;
  std::uint32_t transfer_tag = 0;
  std::uint32_t stat_sn = 0;
  std::uint32_t exp_cmd_sn = 0;
  std::uint32_t max_cmd_sn = 0;
  std::uint32_t data_sn = 0;   // R2TSN, ExpDataSN; login: class and detail in the first 2 bytes.
  std::uint32_t offset = 0;    // Logout: Time2Wait and Time2Retain.
  std::uint32_t residual = 0;  // R2T: bytes that are wanted.
  friend bool operator==(const ResponseHeader&, const ResponseHeader&) = default;
};
std::array<std::byte, kHeaderBytes> encode(const ResponseHeader& header);
/// For initiators. None: no opcode of a target.
std::expected<ResponseHeader, RejectReason> decode_response(HeaderSpan header);

/// Each segment ends at a multiple of 4 bytes.
constexpr std::uint32_t padded(std::uint32_t bytes) { return (bytes + 3) & ~3u; }

}  // namespace verbatim::ulp::iscsi
