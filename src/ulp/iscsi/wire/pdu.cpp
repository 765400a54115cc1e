#include "ulp/iscsi/wire/pdu.h"

#include <algorithm>

namespace verbatim::ulp::iscsi {
namespace {

constexpr std::uint8_t kImmediate = 0x40;
constexpr Opcode kRequests[] = {Opcode::nop_out, Opcode::scsi_command, Opcode::task_management,
                                Opcode::login,   Opcode::text,         Opcode::data_out,
                                Opcode::logout,  Opcode::snack};
constexpr Opcode kResponses[] = {
    Opcode::nop_in,          Opcode::scsi_response,     Opcode::task_management_response,
    Opcode::login_response,  Opcode::text_response,     Opcode::data_in,
    Opcode::logout_response, Opcode::ready_to_transfer, Opcode::async_message,
    Opcode::reject};

std::uint8_t byte_at(HeaderSpan header, std::size_t at) {
  return std::to_integer<std::uint8_t>(header[at]);
}

}  // namespace

void RequestHeader::set_data(std::uint32_t data_sn, std::uint32_t buffer_offset) {
  store_be(&cdb[4], data_sn);
  store_be(&cdb[8], buffer_offset);
}

std::expected<RequestHeader, RejectReason> decode_request(HeaderSpan header) {
  RequestHeader out;
  out.opcode = Opcode{static_cast<std::uint8_t>(byte_at(header, 0) & 0x3f)};
  if (std::ranges::find(kRequests, out.opcode) == std::end(kRequests))
    return std::unexpected(RejectReason::command_not_supported);
  out.is_immediate = (byte_at(header, 0) & kImmediate) != 0;
  out.flags = byte_at(header, 1);
  if (out.opcode == Opcode::login) out.version_min = byte_at(header, 3);
  out.more_bytes = 4u * byte_at(header, 4);
  out.data_bytes = load_be24(&header[5]);
  out.lun = load_be<std::uint64_t>(&header[8]);
  out.task_tag = load_be<std::uint32_t>(&header[16]);
  out.word_20 = load_be<std::uint32_t>(&header[20]);
  out.cmd_sn = load_be<std::uint32_t>(&header[24]);
  out.exp_stat_sn = load_be<std::uint32_t>(&header[28]);
  std::ranges::copy(header.subspan<32>(), out.cdb.begin());
  return out;
}

std::array<std::byte, kHeaderBytes> encode(const RequestHeader& header) {
  std::array<std::byte, kHeaderBytes> out{};
  out[0] = static_cast<std::byte>(static_cast<std::uint8_t>(header.opcode) |
                                  (header.is_immediate ? kImmediate : 0));
  out[1] = std::byte{header.flags};
  out[3] = std::byte{header.version_min};
  out[4] = static_cast<std::byte>(header.more_bytes / 4);
  store_be24(&out[5], header.data_bytes);
  store_be(&out[8], header.lun);
  store_be(&out[16], header.task_tag);
  store_be(&out[20], header.word_20);
  store_be(&out[24], header.cmd_sn);
  store_be(&out[28], header.exp_stat_sn);
  std::ranges::copy(header.cdb, &out[32]);
  return out;
}

std::array<std::byte, kHeaderBytes> encode(const ResponseHeader& header) {
  std::array<std::byte, kHeaderBytes> out{};
  out[0] = std::byte{static_cast<std::uint8_t>(header.opcode)};
  out[1] = std::byte{header.flags};
  out[2] = std::byte{header.response};
  out[3] = std::byte{header.status};
  store_be24(&out[5], header.data_bytes);
  store_be(&out[8], header.lun);
  store_be(&out[16], header.task_tag);
  store_be(&out[20], header.transfer_tag);
  store_be(&out[24], header.stat_sn);
  store_be(&out[28], header.exp_cmd_sn);
  store_be(&out[32], header.max_cmd_sn);
  store_be(&out[36], header.data_sn);
  store_be(&out[40], header.offset);
  store_be(&out[44], header.residual);
  return out;
}

std::expected<ResponseHeader, RejectReason> decode_response(HeaderSpan header) {
  const auto opcode = Opcode{static_cast<std::uint8_t>(byte_at(header, 0) & 0x3f)};
  if (std::ranges::find(kResponses, opcode) == std::end(kResponses))
    return std::unexpected(RejectReason::command_not_supported);
  return ResponseHeader{.opcode = opcode,
                        .flags = byte_at(header, 1),
                        .response = byte_at(header, 2),
                        .status = byte_at(header, 3),
                        .data_bytes = load_be24(&header[5]),
                        .lun = load_be<std::uint64_t>(&header[8]),
                        .task_tag = load_be<std::uint32_t>(&header[16]),
                        .transfer_tag = load_be<std::uint32_t>(&header[20]),
                        .stat_sn = load_be<std::uint32_t>(&header[24]),
                        .exp_cmd_sn = load_be<std::uint32_t>(&header[28]),
                        .max_cmd_sn = load_be<std::uint32_t>(&header[32]),
                        .data_sn = load_be<std::uint32_t>(&header[36]),
                        .offset = load_be<std::uint32_t>(&header[40]),
                        .residual = load_be<std::uint32_t>(&header[44])};
}

}  // namespace verbatim::ulp::iscsi
