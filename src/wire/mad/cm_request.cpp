#include "wire/mad/cm_request.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kPrimaryAt = 52;
constexpr std::size_t kAlternateAt = 96;
constexpr std::size_t kPrivateDataAt = 140;
static_assert(kPrivateDataAt + CmReq::kPrivateDataBytes == CmReq::kSize);

// Transport type 3 refers to the extended transport type, of which only XRC is supported.
constexpr unsigned kExtended = 3;
constexpr unsigned kExtendedXrc = 1;

CmTransport transport_of(unsigned type, unsigned extended) {
  if (type == kExtended && extended == kExtendedXrc) return CmTransport::xrc;
  return static_cast<CmTransport>(type);
}

CmPath decode_path(const std::byte* at) {
  return {
      .local_lid = load_be<std::uint16_t>(at),
      .remote_lid = load_be<std::uint16_t>(at + 2),
      .local_gid = load_gid(at + 4),
      .remote_gid = load_gid(at + 20),
      .flow_label = load_be<std::uint32_t>(at + 36) >> 12,
      .packet_rate = bits_of(at[39], 0, 6),
      .traffic_class = bits_of(at[40], 0, 8),
      .hop_limit = bits_of(at[41], 0, 8),
      .service_level = bits_of(at[42], 4, 4),
      .subnet_local = bits_of(at[42], 3, 1) != 0,
      .local_ack_timeout = bits_of(at[43], 3, 5),
  };
}

void encode_path(const CmPath& path, std::byte* at) {
  store_be(at, path.local_lid);
  store_be(at + 2, path.remote_lid);
  store_gid(at + 4, path.local_gid);
  store_gid(at + 20, path.remote_gid);
  store_be(at + 36, path.flow_label << 12 | (path.packet_rate & 0x3fu));
  at[40] = std::byte{path.traffic_class};
  at[41] = std::byte{path.hop_limit};
  at[42] = to_bits(path.service_level, 4, 4) | to_bits(path.subnet_local, 3, 1);
  at[43] = to_bits(path.local_ack_timeout, 3, 5);
}

}  // namespace

CmReq decode_cm_req(CmBody body) {
  const std::byte* at = body.data();
  CmReq message{
      .local_id = load_communication_id(at),
      .service_id = static_cast<ServiceId>(load_be<std::uint64_t>(at + 8)),
      .local_ca_guid = load_be<std::uint64_t>(at + 16),
      .local_qkey = static_cast<QKey>(load_be<std::uint32_t>(at + 28)),
      .local_qpn = Qpn(load_be24(at + 32)),
      .responder_resources = bits_of(at[35], 0, 8),
      .initiator_depth = bits_of(at[39], 0, 8),
      .remote_response_timeout = bits_of(at[43], 3, 5),
      .transport = transport_of(bits_of(at[43], 1, 2), bits_of(at[51], 0, 3)),
      .end_to_end_flow_control = bits_of(at[43], 0, 1) != 0,
      .starting_psn = Psn(load_be24(at + 44)),
      .local_response_timeout = bits_of(at[47], 3, 5),
      .retry_count = bits_of(at[47], 0, 3),
      .pkey = static_cast<PKey>(load_be<std::uint16_t>(at + 48)),
      .path_mtu = bits_of(at[50], 4, 4),
      .rdc_exists = bits_of(at[50], 3, 1) != 0,
      .rnr_retry_count = bits_of(at[50], 0, 3),
      .max_cm_retries = bits_of(at[51], 4, 4),
      .srq = bits_of(at[51], 3, 1) != 0,
      .primary = decode_path(at + kPrimaryAt),
      .alternate = decode_path(at + kAlternateAt),
  };
  load_bytes(message.private_data, at + kPrivateDataAt);
  return message;
}

void encode(const CmReq& message, MutableCmBody out) {
  std::ranges::fill(out, std::byte{0});
  std::byte* at = out.data();
  const unsigned extended = message.transport == CmTransport::xrc ? kExtendedXrc : 0;
  store_be(at, raw(message.local_id));
  store_be(at + 8, raw(message.service_id));
  store_be(at + 16, message.local_ca_guid);
  store_be(at + 28, raw(message.local_qkey));
  store_be24(at + 32, message.local_qpn.value());
  at[35] = std::byte{message.responder_resources};
  at[39] = std::byte{message.initiator_depth};
  at[43] = to_bits(message.remote_response_timeout, 3, 5) | to_bits(raw(message.transport), 1, 2) |
           to_bits(message.end_to_end_flow_control, 0, 1);
  store_be24(at + 44, message.starting_psn.value());
  at[47] = to_bits(message.local_response_timeout, 3, 5) | to_bits(message.retry_count, 0, 3);
  store_be(at + 48, raw(message.pkey));
  at[50] = to_bits(message.path_mtu, 4, 4) | to_bits(message.rdc_exists, 3, 1) |
           to_bits(message.rnr_retry_count, 0, 3);
  at[51] =
      to_bits(message.max_cm_retries, 4, 4) | to_bits(message.srq, 3, 1) | to_bits(extended, 0, 3);
  encode_path(message.primary, at + kPrimaryAt);
  encode_path(message.alternate, at + kAlternateAt);
  store_bytes(at + kPrivateDataAt, message.private_data);
}

}  // namespace verbatim::wire
