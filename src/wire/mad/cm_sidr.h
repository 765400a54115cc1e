#pragma once

#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// SIDR_REQ, service id resolution request (IBA 12.11.1, table 119): asks for the queue pair and
/// Q_Key of a datagram service.
///
///     byte   0-3          4-5     6-7    8-15         16-231
///          +------------+-------+------+------------+--------------+
///          | request id | P_Key | rsvd | service id | private data |
///          +------------+-------+------+------------+--------------+
struct CmSidrReq {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 216;
  CommunicationId request_id{};
  PKey pkey = kDefaultPKey;
  ServiceId service_id{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

inline CmSidrReq decode_cm_sidr_req(CmBody body) {
  CmSidrReq message{.request_id = load_communication_id(&body[0]),
                    .pkey = static_cast<PKey>(load_be<std::uint16_t>(&body[4])),
                    .service_id = static_cast<ServiceId>(load_be<std::uint64_t>(&body[8]))};
  load_bytes(message.private_data, &body[16]);
  return message;
}

inline void encode(const CmSidrReq& message, MutableCmBody out) {
  store_be(&out[0], raw(message.request_id));
  store_be(&out[4], raw(message.pkey));
  store_be(&out[6], std::uint16_t{0});
  store_be(&out[8], raw(message.service_id));
  store_bytes(&out[16], message.private_data);
}

/// Result of a service resolution (IBA 12.11.2.3).
enum class SidrStatus : std::uint8_t {
  found = 0,
  service_not_supported = 1,
  rejected = 2,
  no_qp = 3,
  redirected = 4,
  version_not_supported = 5,
};

/// SIDR_REP, service id resolution response (IBA 12.11.2, table 120).
///
///     byte   0-3          4        5             6-7    8-10  11     12-19
///          +------------+--------+-------------+------+-----+------+------------+
///          | request id | status | info length | rsvd | QPN | rsvd | service id |
///          +------------+--------+-------------+------+-----+------+------------+
///     byte   20-23   24-95             96-231
///          +-------+-----------------+--------------+
///          | Q_Key | additional info | private data |
///          +-------+-----------------+--------------+
struct CmSidrRep {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kInfoBytes = 72;
  static constexpr std::size_t kPrivateDataBytes = 136;
  CommunicationId request_id{};
  SidrStatus status{};
  std::uint8_t info_length = 0;
  Qpn qpn{};
  ServiceId service_id{};
  QKey qkey{};
  CmPrivateData<kInfoBytes> info{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

inline CmSidrRep decode_cm_sidr_rep(CmBody body) {
  const std::byte* at = body.data();
  CmSidrRep message{.request_id = load_communication_id(at),
                    .status = static_cast<SidrStatus>(at[4]),
                    .info_length = bits_of(at[5], 0, 8),
                    .qpn = Qpn(load_be24(at + 8)),
                    .service_id = static_cast<ServiceId>(load_be<std::uint64_t>(at + 12)),
                    .qkey = static_cast<QKey>(load_be<std::uint32_t>(at + 20))};
  load_bytes(message.info, at + 24);
  load_bytes(message.private_data, at + 96);
  return message;
}

inline void encode(const CmSidrRep& message, MutableCmBody out) {
  std::byte* at = out.data();
  store_be(at, raw(message.request_id));
  at[4] = static_cast<std::byte>(message.status);
  at[5] = std::byte{message.info_length};
  store_be(at + 6, std::uint16_t{0});
  store_be24(at + 8, message.qpn.value());
  at[11] = std::byte{0};
  store_be(at + 12, raw(message.service_id));
  store_be(at + 20, raw(message.qkey));
  store_bytes(at + 24, message.info);
  store_bytes(at + 96, message.private_data);
}

}  // namespace verbatim::wire
