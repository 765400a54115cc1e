#pragma once

#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// DREQ, request for communication release (IBA 12.6.10, table 112).
///
///     byte   0-3       4-7       8-10         11     12-231
///          +---------+---------+------------+------+--------------+
///          | local   | remote  | remote QPN | rsvd | private data |
///          | comm id | comm id |            |      |              |
///          +---------+---------+------------+------+--------------+
struct CmDreq {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 220;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  Qpn remote_qpn{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

inline CmDreq decode_cm_dreq(CmBody body) {
  CmDreq message{.local_id = load_communication_id(&body[0]),
                 .remote_id = load_communication_id(&body[4]),
                 .remote_qpn = Qpn(load_be24(&body[8]))};
  load_bytes(message.private_data, &body[12]);
  return message;
}

inline void encode(const CmDreq& message, MutableCmBody out) {
  store_be(&out[0], raw(message.local_id));
  store_be(&out[4], raw(message.remote_id));
  store_be24(&out[8], message.remote_qpn.value());
  out[11] = std::byte{0};
  store_bytes(&out[12], message.private_data);
}

/// DREP, reply to a request for communication release (IBA 12.6.11, table 113).
///
///     byte   0-3       4-7       8-231
///          +---------+---------+--------------+
///          | local   | remote  | private data |
///          | comm id | comm id |              |
///          +---------+---------+--------------+
struct CmDrep {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 224;
  CommunicationId local_id{};
  CommunicationId remote_id{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

inline CmDrep decode_cm_drep(CmBody body) {
  CmDrep message{.local_id = load_communication_id(&body[0]),
                 .remote_id = load_communication_id(&body[4])};
  load_bytes(message.private_data, &body[8]);
  return message;
}

inline void encode(const CmDrep& message, MutableCmBody out) {
  store_be(&out[0], raw(message.local_id));
  store_be(&out[4], raw(message.remote_id));
  store_bytes(&out[8], message.private_data);
}

}  // namespace verbatim::wire
