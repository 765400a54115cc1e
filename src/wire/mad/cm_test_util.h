#pragma once

#include "wire/mad/cm_message.h"

/// One message of each kind, all fields different, for tests and judges.
namespace verbatim::wire {

template <std::size_t N>
CmPrivateData<N> counting_bytes(unsigned first) {
  CmPrivateData<N> bytes;
  for (std::size_t i = 0; i < N; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

inline Gid sample_gid(std::uint8_t last) {
  return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

inline CmPath sample_path(std::uint8_t number) {
  return {.local_lid = static_cast<std::uint16_t>(0x1100 + number),
          .remote_lid = static_cast<std::uint16_t>(0x2200 + number),
          .local_gid = sample_gid(number),
          .remote_gid = sample_gid(static_cast<std::uint8_t>(number + 0x10)),
          .flow_label = 0x54321,
          .packet_rate = 0x22,
          .traffic_class = 0x9a,
          .hop_limit = 0x40,
          .service_level = 0x0b,
          .subnet_local = true,
          .local_ack_timeout = 0x13};
}

inline constexpr CommunicationId kSampleLocal{0x01020304};
inline constexpr CommunicationId kSampleRemote{0x05060708};

inline CmReq sample_req() {
  return {.local_id = kSampleLocal,
          .service_id = ServiceId{0x0000000001061234},
          .local_ca_guid = 0x1112131415161718,
          .local_qkey = QKey{0x21222324},
          .local_qpn = Qpn(0x313233),
          .responder_resources = 0x34,
          .initiator_depth = 0x35,
          .remote_response_timeout = 0x14,
          .transport = CmTransport::uc,
          .end_to_end_flow_control = true,
          .starting_psn = Psn(0x414243),
          .local_response_timeout = 0x15,
          .retry_count = 6,
          .pkey = PKey{0x8001},
          .path_mtu = 3,
          .rdc_exists = true,
          .rnr_retry_count = 5,
          .max_cm_retries = 0xd,
          .srq = true,
          .primary = sample_path(1),
          .alternate = sample_path(2),
          .private_data = counting_bytes<CmReq::kPrivateDataBytes>(0x80)};
}

inline CmMra sample_mra() {
  return {.local_id = kSampleLocal,
          .remote_id = kSampleRemote,
          .acknowledged = CmAbout::rep,
          .service_timeout = 0x16,
          .private_data = counting_bytes<CmMra::kPrivateDataBytes>(0x10)};
}

inline CmRej sample_rej() {
  return {.local_id = kSampleLocal,
          .remote_id = kSampleRemote,
          .rejected = CmAbout::other,
          .info_length = 0x48,
          .reason = RejectReason::stale_connection,
          .info = counting_bytes<CmRej::kInfoBytes>(0x20),
          .private_data = counting_bytes<CmRej::kPrivateDataBytes>(0x90)};
}

inline CmRep sample_rep() {
  return {.local_id = kSampleLocal,
          .remote_id = kSampleRemote,
          .local_qkey = QKey{0x21222324},
          .local_qpn = Qpn(0x313233),
          .local_eecn = Qpn(0x343536),
          .starting_psn = Psn(0x414243),
          .responder_resources = 0x44,
          .initiator_depth = 0x45,
          .target_ack_delay = 0x0f,
          .failover_accepted = 2,
          .end_to_end_flow_control = true,
          .rnr_retry_count = 6,
          .srq = true,
          .local_ca_guid = 0x1112131415161718,
          .private_data = counting_bytes<CmRep::kPrivateDataBytes>(0x30)};
}

inline CmRtu sample_rtu() {
  return {kSampleLocal, kSampleRemote, counting_bytes<CmRtu::kPrivateDataBytes>(1)};
}
inline CmDreq sample_dreq() {
  return {kSampleLocal, kSampleRemote, Qpn(0x616263), counting_bytes<CmDreq::kPrivateDataBytes>(2)};
}
inline CmDrep sample_drep() {
  return {kSampleLocal, kSampleRemote, counting_bytes<CmDrep::kPrivateDataBytes>(3)};
}
inline CmSidrReq sample_sidr_req() {
  return {kSampleLocal, PKey{0x8002}, ServiceId{0x0000000001114321},
          counting_bytes<CmSidrReq::kPrivateDataBytes>(4)};
}
inline CmSidrRep sample_sidr_rep() {
  return {.request_id = kSampleLocal,
          .status = SidrStatus::rejected,
          .info_length = 0x47,
          .qpn = Qpn(0x717273),
          .service_id = ServiceId{0x0000000001114321},
          .qkey = QKey{0x81828384},
          .info = counting_bytes<CmSidrRep::kInfoBytes>(5),
          .private_data = counting_bytes<CmSidrRep::kPrivateDataBytes>(6)};
}
inline CmLap sample_lap() {
  return {.local_id = kSampleLocal,
          .remote_id = kSampleRemote,
          .remote_qpn = Qpn(0x616263),
          .remote_response_timeout = 0x17,
          .alternate = sample_path(3),
          .private_data = counting_bytes<CmLap::kPrivateDataBytes>(7)};
}
inline CmApr sample_apr() {
  return {.local_id = kSampleLocal,
          .remote_id = kSampleRemote,
          .info_length = 0x46,
          .status = AlternatePathStatus::not_supported,
          .info = counting_bytes<CmApr::kInfoBytes>(8),
          .private_data = counting_bytes<CmApr::kPrivateDataBytes>(9)};
}

/// In the order of attribute ids.
inline std::array<CmMessage, std::variant_size_v<CmMessage>> sample_messages() {
  return {sample_req(),      sample_mra(),  sample_rej(),  sample_rep(),
          sample_rtu(),      sample_dreq(), sample_drep(), sample_sidr_req(),
          sample_sidr_rep(), sample_lap(),  sample_apr()};
}

}  // namespace verbatim::wire
