#pragma once

#include "wire/mad/cm_request.h"

namespace verbatim::wire {

/// LAP, load alternate path (IBA 12.8.1, table 115). The path's layout differs from that in a REQ.
///
///     byte   0-3       4-7       8-11   12-14    15 (5, 3)                16-19
///          +---------+---------+------+--------+-----------------+------+------+
///          | local   | remote  | rsvd | remote | remote response | rsvd | rsvd |
///          | comm id | comm id |      | QPN    | timeout         |      |      |
///          +---------+---------+------+--------+-----------------+------+------+
///     byte   20-21   22-23    24-39   40-55    56-58.3 58.4   59        60
///          +-------+--------+-------+--------+-------+------+---------+-------+
///          | local | remote | local | remote | flow  | rsvd | traffic | hop   |
///          | LID   | LID    | GID   | GID    | label |      | class   | limit |
///          +-------+--------+-------+--------+-------+------+---------+-------+
///     byte   61 (2, 6)     62 (4, 1, 3)            63 (5, 3)        64-231
///          +------+------+---------+--------+------+---------+------+--------------+
///          | rsvd | rate | service | subnet | rsvd | ack     | rsvd | private data |
///          |      |      | level   | local  |      | timeout |      |              |
///          +------+------+---------+--------+------+---------+------+--------------+
struct CmLap {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 168;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  Qpn remote_qpn{};
  std::uint8_t remote_response_timeout = 0;
  CmPath alternate{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmLap&, const CmLap&) = default;
};

inline CmLap decode_cm_lap(CmBody body) {
  const std::byte* at = body.data();
  CmLap message{.local_id = load_communication_id(at),
                .remote_id = load_communication_id(at + 4),
                .remote_qpn = Qpn(load_be24(at + 12)),
                .remote_response_timeout = bits_of(at[15], 3, 5),
                .alternate = {
                    .local_lid = load_be<std::uint16_t>(at + 20),
                    .remote_lid = load_be<std::uint16_t>(at + 22),
                    .local_gid = load_gid(at + 24),
                    .remote_gid = load_gid(at + 40),
                    .flow_label = load_be<std::uint32_t>(at + 56) >> 12,
                    .packet_rate = bits_of(at[61], 0, 6),
                    .traffic_class = bits_of(at[59], 0, 8),
                    .hop_limit = bits_of(at[60], 0, 8),
                    .service_level = bits_of(at[62], 4, 4),
                    .subnet_local = bits_of(at[62], 3, 1) != 0,
                    .local_ack_timeout = bits_of(at[63], 3, 5),
                }};
  load_bytes(message.private_data, at + 64);
  return message;
}

inline void encode(const CmLap& message, MutableCmBody out) {
  std::ranges::fill(out, std::byte{0});
  std::byte* at = out.data();
  const CmPath& path = message.alternate;
  store_be(at, raw(message.local_id));
  store_be(at + 4, raw(message.remote_id));
  store_be24(at + 12, message.remote_qpn.value());
  at[15] = to_bits(message.remote_response_timeout, 3, 5);
  store_be(at + 20, path.local_lid);
  store_be(at + 22, path.remote_lid);
  store_gid(at + 24, path.local_gid);
  store_gid(at + 40, path.remote_gid);
  store_be(at + 56, path.flow_label << 12 | path.traffic_class);
  at[60] = std::byte{path.hop_limit};
  at[61] = to_bits(path.packet_rate, 0, 6);
  at[62] = to_bits(path.service_level, 4, 4) | to_bits(path.subnet_local, 3, 1);
  at[63] = to_bits(path.local_ack_timeout, 3, 5);
  store_bytes(at + 64, message.private_data);
}

/// Status of the answer to a LAP (IBA 12.8.2.1). Other values name the wrong field.
enum class AlternatePathStatus : std::uint8_t {
  loaded = 0,
  invalid_communication_id = 1,
  not_supported = 2,
  rejected = 3,
};

/// APR, alternate path response (IBA 12.8.2, table 116).
///
///     byte   0-3       4-7       8        9        10-11  12-83        84-231
///          +---------+---------+--------+--------+------+------------+--------------+
///          | local   | remote  | info   | status | rsvd | additional | private data |
///          | comm id | comm id | length |        |      | info       |              |
///          +---------+---------+--------+--------+------+------------+--------------+
struct CmApr {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kInfoBytes = 72;
  static constexpr std::size_t kPrivateDataBytes = 148;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  std::uint8_t info_length = 0;
  AlternatePathStatus status{};
  CmPrivateData<kInfoBytes> info{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmApr&, const CmApr&) = default;
};

inline CmApr decode_cm_apr(CmBody body) {
  const std::byte* at = body.data();
  CmApr message{.local_id = load_communication_id(at),
                .remote_id = load_communication_id(at + 4),
                .info_length = bits_of(at[8], 0, 8),
                .status = static_cast<AlternatePathStatus>(at[9])};
  load_bytes(message.info, at + 12);
  load_bytes(message.private_data, at + 84);
  return message;
}

inline void encode(const CmApr& message, MutableCmBody out) {
  std::byte* at = out.data();
  store_be(at, raw(message.local_id));
  store_be(at + 4, raw(message.remote_id));
  at[8] = std::byte{message.info_length};
  at[9] = static_cast<std::byte>(message.status);
  store_be(at + 10, std::uint16_t{0});
  store_bytes(at + 12, message.info);
  store_bytes(at + 84, message.private_data);
}

}  // namespace verbatim::wire
