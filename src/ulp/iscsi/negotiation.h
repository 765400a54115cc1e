#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "ulp/iscsi/wire/text.h"

namespace verbatim::ulp::iscsi {

/// What both sides have agreed upon (RFC 7143, section 13; RFC 7145, section 6). Begins with what
/// we want. Yes is 1.
struct Parameters {
  std::uint32_t max_connections = 1;
  std::uint32_t initial_r2t = 1;
  std::uint32_t immediate_data = 1;
  std::uint32_t max_burst = 262144;
  std::uint32_t first_burst = 8192;
  std::uint32_t time_to_wait = 2;
  std::uint32_t time_to_retain = 0;
  std::uint32_t outstanding_r2t = 1;
  std::uint32_t data_pdu_in_order = 1;
  std::uint32_t data_sequence_in_order = 1;
  std::uint32_t error_recovery_level = 0;
  std::uint32_t markers = 0;
  std::uint32_t protocol_level = 1;
  std::uint32_t rdma_extensions = 0;  // 1: over iSER.
  std::uint32_t unexpected_pdus = 0;
  /// MaxRecvDataSegmentLength of each side; over iSER InitiatorRecvDataSegmentLength and
  /// TargetRecvDataSegmentLength.
  std::uint32_t initiator_receives = 8192;
  std::uint32_t target_receives = 8192;

  bool may_send_unsolicited() const { return initial_r2t == 0; }
  friend bool operator==(const Parameters&, const Parameters&) = default;
};

/// Answers an initiator's operational key: adds our answer, and the result to `values`. The error
/// is why the login cannot go on. Keys that are not known are answered NotUnderstood.
std::expected<void, std::string> negotiate(const Key& key, Parameters& values, std::string& answer);

}  // namespace verbatim::ulp::iscsi
