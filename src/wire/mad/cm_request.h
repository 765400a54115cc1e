#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// A path in a REQ: 44 bytes, for the primary and the alternate path (IBA 12.6.5).
///
///     byte   0-1     2-3      4-19    20-35    36-38.3  38.4-39.1  39.2-39.7
///          +-------+--------+-------+--------+--------+----------+------+
///          | local | remote | local | remote | flow   | rsvd     | rate |
///          | LID   | LID    | GID   | GID    | label  |          |      |
///          +-------+--------+-------+--------+--------+----------+------+
///     byte   40        41      42        42.4      42.5     43        43.5
///          +---------+-------+---------+---------+--------+---------+------+
///          | traffic | hop   | service | subnet  | rsvd   | ack     | rsvd |
///          | class   | limit | level   | local   |        | timeout |      |
///          +---------+-------+---------+---------+--------+---------+------+
///     bits     8       8       4         1         3        5         3
///
/// RoCE has no LIDs: both fields are 0xffff.
struct CmPath {
  static constexpr std::size_t kSize = 44;
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label = 0;
  std::uint8_t packet_rate = 0;  // As `enum ibv_rate`.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  // 4.096 us * 2^this.
  friend bool operator==(const CmPath&, const CmPath&) = default;
};

/// The service of the queue pair that asks for a connection. XRC is sent in the field "extended
/// transport type" (IBA annex A14).
enum class CmTransport : std::uint8_t { rc = 0, uc = 1, rd = 2, reserved = 3, xrc = 0x13 };

/// REQ, request for communication (IBA 12.6.5, table 106).
///
///     byte   0-3       4-7    8-15      16-23     24-27  28-31   32-34   35
///          +---------+------+---------+---------+------+-------+-------+-----------+
///          | local   | rsvd | service | local   | rsvd | local | local | responder |
///          | comm id |      | id      | CA GUID |      | Q_Key | QPN   | resources |
///          +---------+------+---------+---------+------+-------+-------+-----------+
///     byte   36-38   39          40-42    43 (5, 2, 1 bits)
///          +-------+-----------+--------+------------------+-----------+--------------+
///          | local | initiator | remote | remote response  | transport | end to end   |
///          | EECN  | depth     | EECN   | timeout          | type      | flow control |
///          +-------+-----------+--------+------------------+-----------+--------------+
///     byte   44-46      47 (5, 3)               48-49   50 (4, 1, 3)
///          +----------+----------------+-------+-------+-----+--------+-----------+
///          | starting | local response | retry | P_Key | MTU | RDC    | RNR retry |
///          | PSN      | timeout        | count |       |     | exists | count     |
///          +----------+----------------+-------+-------+-----+--------+-----------+
///     byte   51 (4, 1, 3)               52-95     96-139      140-231
///          +---------+-----+-----------+---------+-----------+---------+
///          | max CM  | SRQ | extended  | primary | alternate | private |
///          | retries |     | transport | path    | path      | data    |
///          +---------+-----+-----------+---------+-----------+---------+
///
/// EE contexts are for reliable datagrams, which no implementation has: ignored, sent as zero.
struct CmReq {
  static constexpr std::size_t kSize = kMadDataBytes;
  static constexpr std::size_t kPrivateDataBytes = 92;
  CommunicationId local_id{};
  ServiceId service_id{};
  std::uint64_t local_ca_guid = 0;
  QKey local_qkey{};
  Qpn local_qpn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t remote_response_timeout = 0;
  CmTransport transport = CmTransport::rc;
  bool end_to_end_flow_control = false;
  Psn starting_psn{};
  std::uint8_t local_response_timeout = 0;
  std::uint8_t retry_count = 0;
  PKey pkey = kDefaultPKey;
  std::uint8_t path_mtu = 0;  // 4 bits; a value of `Mtu` if the peer obeys the specification.
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t max_cm_retries = 0;
  bool srq = false;
  CmPath primary{};
  CmPath alternate{};
  CmPrivateData<kPrivateDataBytes> private_data{};
  friend bool operator==(const CmReq&, const CmReq&) = default;
};

CmReq decode_cm_req(CmBody body);
void encode(const CmReq& message, MutableCmBody out);

}  // namespace verbatim::wire
