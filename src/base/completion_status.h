#pragma once

#include <cstdint>

namespace verbatim {

/// Status of a completion, with the values of `enum ibv_wc_status`.
enum class CompletionStatus : std::uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  memory_window_bind_error = 6,
  bad_response = 7,
  local_access_error = 8,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  tag_matching_error = 22,
  rendezvous_incomplete = 23,
};

}  // namespace verbatim
