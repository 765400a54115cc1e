#pragma once

#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// REP, reply to a request for communication (IBA 12.6.8, table 110).
///
///     byte   0-3       4-7       8-11    12-14   15     16-18   19     20-22      23
///          +---------+---------+-------+-------+------+-------+------+----------+------+
///          | local   | remote  | local | local | rsvd | local | rsvd | starting | rsvd |
///          | comm id | comm id | Q_Key | QPN   |      | EECN  |      | PSN      |      |
///          +---------+---------+-------+-------+------+-------+------+----------+------+
///     byte   24          25          26 (5, 2, 1 bits)
///          +-----------+-----------+------------+----------+--------------+
///          | responder | initiator | target ack | failover | end to end   |
///          | resources | depth     | delay      | accepted | flow control |
///          +-----------+-----------+------------+----------+--------------+
///     byte   27 (3, 1, 4)            28-35     36-231
///          +-----------+-----+------+---------+--------------+
///          | RNR retry | SRQ | rsvd | local   | private data |
///          | count     |     |      | CA GUID |              |
///          +-----------+-----+------+---------+--------------+
///
/// An XRC target sends its queue pair number in the EECN field.
struct CmRep {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 196;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  QKey local_qkey{};
  Qpn local_qpn{};
  Qpn local_eecn{};
  Psn starting_psn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;
  std::uint8_t failover_accepted = 0;
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) = default;
};

inline CmRep decode_cm_rep(CmBody body) {
  const std::byte* at = body.data();
  CmRep message{
      .local_id = load_communication_id(at),
      .remote_id = load_communication_id(at + 4),
      .local_qkey = static_cast<QKey>(load_be<std::uint32_t>(at + 8)),
      .local_qpn = Qpn(load_be24(at + 12)),
      .local_eecn = Qpn(load_be24(at + 16)),
      .starting_psn = Psn(load_be24(at + 20)),
      .responder_resources = bits_of(at[24], 0, 8),
      .initiator_depth = bits_of(at[25], 0, 8),
      .target_ack_delay = bits_of(at[26], 3, 5),
      .failover_accepted = bits_of(at[26], 1, 2),
      .end_to_end_flow_control = bits_of(at[26], 0, 1) != 0,
      .rnr_retry_count = bits_of(at[27], 5, 3),
      .srq = bits_of(at[27], 4, 1) != 0,
      .local_ca_guid = load_be<std::uint64_t>(at + 28),
  };
  load_bytes(message.private_data, at + 36);
  return message;
}

inline void encode(const CmRep& message, MutableCmBody out) {
  std::ranges::fill(out, std::byte{0});
  std::byte* at = out.data();
  store_be(at, raw(message.local_id));
  store_be(at + 4, raw(message.remote_id));
  store_be(at + 8, raw(message.local_qkey));
  store_be24(at + 12, message.local_qpn.value());
  store_be24(at + 16, message.local_eecn.value());
  store_be24(at + 20, message.starting_psn.value());
  at[24] = std::byte{message.responder_resources};
  at[25] = std::byte{message.initiator_depth};
  at[26] = to_bits(message.target_ack_delay, 3, 5) | to_bits(message.failover_accepted, 1, 2) |
           to_bits(message.end_to_end_flow_control, 0, 1);
  at[27] = to_bits(message.rnr_retry_count, 5, 3) | to_bits(message.srq, 4, 1);
  store_be(at + 28, message.local_ca_guid);
  store_bytes(at + 36, message.private_data);
}

/// RTU, ready to use (IBA 12.6.9, table 111): the third and last message of the handshake.
///
///     byte   0-3       4-7       8-231
///          +---------+---------+--------------+
///          | local   | remote  | private data |
///          | comm id | comm id |              |
///          +---------+---------+--------------+
struct CmRtu {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 224;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

inline CmRtu decode_cm_rtu(CmBody body) {
  CmRtu message{.local_id = load_communication_id(&body[0]),
                .remote_id = load_communication_id(&body[4])};
  load_bytes(message.private_data, &body[8]);
  return message;
}

inline void encode(const CmRtu& message, MutableCmBody out) {
  store_be(&out[0], raw(message.local_id));
  store_be(&out[4], raw(message.remote_id));
  store_bytes(&out[8], message.private_data);
}

}  // namespace verbatim::wire
