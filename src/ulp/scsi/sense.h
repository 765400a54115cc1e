#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/inplace_vector.h"

/// What a command's end says: status (SAM-5, 5.3) and sense data (SPC-4, 4.5).
namespace verbatim::ulp::scsi {

enum class Status : std::uint8_t {
  good = 0x00,
  check_condition = 0x02,
  busy = 0x08,
  reservation_conflict = 0x18,
  task_set_full = 0x28,
  task_aborted = 0x40,
};

enum class SenseKey : std::uint8_t {
  no_sense = 0x0,
  not_ready = 0x2,
  medium_error = 0x3,
  illegal_request = 0x5,
  unit_attention = 0x6,
  data_protect = 0x7,
  copy_aborted = 0xa,
  aborted_command = 0xb,
  miscompare = 0xe,
};

/// Additional sense code and qualifier in one number.
enum class SenseCode : std::uint16_t {
  none = 0x0000,
  port_in_standby = 0x040b,
  port_unavailable = 0x040c,
  port_offline = 0x0412,
  write_error = 0x0c00,
  invalid_field_in_information_unit = 0x0e03,
  third_party_device_failure = 0x0d01,
  copy_target_not_reachable = 0x0d02,
  unrecovered_read_error = 0x1100,
  parameter_list_length_error = 0x1a00,
  miscompare_during_verify = 0x1d00,
  invalid_operation_code = 0x2000,
  block_address_out_of_range = 0x2100,
  invalid_field_in_cdb = 0x2400,
  unit_not_supported = 0x2500,
  invalid_field_in_parameters = 0x2600,
  invalid_release = 0x2604,
  too_many_targets = 0x2606,
  unsupported_target_type = 0x2607,
  too_many_segments = 0x2608,
  unsupported_segment_type = 0x2609,
  write_protected = 0x2700,
  space_allocation_failed = 0x2707,
  power_on_or_reset = 0x2900,
  device_reset = 0x2903,
  nexus_loss = 0x2907,
  mode_parameters_changed = 0x2a01,
  reservations_preempted = 0x2a03,
  reservations_released = 0x2a04,
  registrations_preempted = 0x2a05,
  access_state_changed = 0x2a06,
  capacity_changed = 0x2a09,
  commands_cleared_by_another = 0x2f00,
  saving_not_supported = 0x3900,
  inquiry_data_changed = 0x3f03,
  luns_changed = 0x3f0e,
  data_phase_error = 0x4b00,
  insufficient_registration_resources = 0x5504,
};

/// Which field of the CDB, or of the parameters, is refused (SPC-4, 4.5.2.4.2). `bit` is the most
/// significant one of the field; none if the whole byte is meant.
struct FieldPointer {
  std::uint16_t byte = 0;
  std::optional<std::uint8_t> bit;
  bool is_in_parameters = false;
  friend bool operator==(const FieldPointer&, const FieldPointer&) = default;
};

struct Sense {
  SenseKey key{};
  SenseCode code{};
  std::optional<std::uint64_t> information{};  // Miscompare: the first byte that differs.
  std::optional<FieldPointer> field{};
  friend bool operator==(const Sense&, const Sense&) = default;
};

inline Sense illegal_request(SenseCode code) { return {SenseKey::illegal_request, code, {}, {}}; }
inline Sense write_protected() {
  return {SenseKey::data_protect, SenseCode::write_protected, {}, {}};
}
inline Sense invalid_field(std::uint16_t byte, std::optional<std::uint8_t> bit = {}) {
  return {SenseKey::illegal_request,
          SenseCode::invalid_field_in_cdb,
          {},
          FieldPointer{byte, bit, false}};
}
inline Sense invalid_parameter(std::uint16_t byte, std::optional<std::uint8_t> bit = {}) {
  return {SenseKey::illegal_request,
          SenseCode::invalid_field_in_parameters,
          {},
          FieldPointer{byte, bit, true}};
}

/// Which of its two forms a unit uses: the control mode page's D_SENSE.
enum class SenseFormat : std::uint8_t { fixed, descriptor };

/// Fixed: 18 bytes. Descriptor: 8, 12 for information, 8 for a field.
using SenseBytes = InplaceVector<std::byte, 28>;
SenseBytes encode(const Sense& sense, SenseFormat format);

}  // namespace verbatim::ulp::scsi
