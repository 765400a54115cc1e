#pragma once

#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// Which message a REJ or an MRA is about (IBA 12.6.6, 12.6.7).
enum class CmAbout : std::uint8_t { req = 0, rep = 1, other = 2 };

/// Reason of a REJ (IBA 12.6.7.2, table 109). A peer may send other values.
enum class RejectReason : std::uint16_t {
  no_qp = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported_request = 5,
  invalid_communication_id = 6,
  invalid_communication_instance = 7,
  invalid_service_id = 8,
  invalid_transport = 9,
  stale_connection = 10,
  rdc_does_not_exist = 11,
  primary_gid = 12,
  primary_lid = 13,
  primary_service_level = 14,
  primary_traffic_class = 15,
  primary_hop_limit = 16,
  primary_packet_rate = 17,
  alternate_gid = 18,
  alternate_lid = 19,
  alternate_service_level = 20,
  alternate_traffic_class = 21,
  alternate_hop_limit = 22,
  alternate_packet_rate = 23,
  port_and_cm_redirection = 24,
  port_redirection = 25,
  invalid_path_mtu = 26,
  insufficient_responder_resources = 27,
  consumer = 28,
  rnr_retry_count = 29,
  duplicate_communication_id = 30,
  unsupported_class_version = 31,
  primary_flow_label = 32,
  alternate_flow_label = 33,
  vendor_option_not_supported = 35,
};

/// REJ, reject (IBA 12.6.7, table 108).
///
///     byte   0-3       4-7       8 (2, 6)          9 (7, 1)       10-11    12-83        84-231
///          +---------+---------+----------+------+--------+------+--------+------------+---------+
///          | local   | remote  | message  | rsvd | info   | rsvd | reason | additional | private |
///          | comm id | comm id | rejected |      | length |      |        | info (ARI) | data    |
///          +---------+---------+----------+------+--------+------+--------+------------+---------+
struct CmRej {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kInfoBytes = 72;
  static constexpr std::size_t kPrivateDataBytes = 148;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  CmAbout rejected{};
  std::uint8_t info_length = 0;  // 7 bits: the number of valid bytes of `info`, as the peer says.
  RejectReason reason{};
  CmPrivateData<kInfoBytes> info{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) = default;
};

inline CmRej decode_cm_rej(CmBody body) {
  const std::byte* at = body.data();
  CmRej message{.local_id = load_communication_id(at),
                .remote_id = load_communication_id(at + 4),
                .rejected = static_cast<CmAbout>(bits_of(at[8], 6, 2)),
                .info_length = bits_of(at[9], 1, 7),
                .reason = static_cast<RejectReason>(load_be<std::uint16_t>(at + 10))};
  load_bytes(message.info, at + 12);
  load_bytes(message.private_data, at + 84);
  return message;
}

inline void encode(const CmRej& message, MutableCmBody out) {
  std::byte* at = out.data();
  store_be(at, raw(message.local_id));
  store_be(at + 4, raw(message.remote_id));
  at[8] = to_bits(raw(message.rejected), 6, 2);
  at[9] = to_bits(message.info_length, 1, 7);
  store_be(at + 10, raw(message.reason));
  store_bytes(at + 12, message.info);
  store_bytes(at + 84, message.private_data);
}

/// MRA, message receipt acknowledgement (IBA 12.6.6, table 107): the message has arrived, and the
/// answer takes up to `service_timeout`. Until then its sender waits and does not repeat it.
///
///     byte   0-3       4-7       8 (2, 6)         9 (5, 3)         10-231
///          +---------+---------+---------+------+---------+------+--------------+
///          | local   | remote  | message | rsvd | service | rsvd | private data |
///          | comm id | comm id | MRAed   |      | timeout |      |              |
///          +---------+---------+---------+------+---------+------+--------------+
struct CmMra {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 222;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  CmAbout acknowledged{};  // `other` means a LAP.
  std::uint8_t service_timeout = 0;
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) = default;
};

inline CmMra decode_cm_mra(CmBody body) {
  const std::byte* at = body.data();
  CmMra message{.local_id = load_communication_id(at),
                .remote_id = load_communication_id(at + 4),
                .acknowledged = static_cast<CmAbout>(bits_of(at[8], 6, 2)),
                .service_timeout = bits_of(at[9], 3, 5)};
  load_bytes(message.private_data, at + 10);
  return message;
}

inline void encode(const CmMra& message, MutableCmBody out) {
  std::byte* at = out.data();
  store_be(at, raw(message.local_id));
  store_be(at + 4, raw(message.remote_id));
  at[8] = to_bits(raw(message.acknowledged), 6, 2);
  at[9] = to_bits(message.service_timeout, 3, 5);
  store_bytes(at + 10, message.private_data);
}

}  // namespace verbatim::wire
