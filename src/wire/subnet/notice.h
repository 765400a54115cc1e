#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/fields.h"
#include "wire/mad/mad.h"

namespace verbatim::wire {

enum class NoticeType : std::uint8_t {
  fatal = 0,
  urgent = 1,
  security = 2,
  subnet_management = 3,
  informational = 4,
};

/// Producer of a generic notice: a value of `NodeType`, or the subnet manager.
enum class NoticeProducer : std::uint32_t {
  channel_adapter = 1,
  switch_node = 2,
  router = 3,
  class_manager = 4,
};

/// Generic traps of subnet management (IBA 14.2.5.1).
enum class TrapNumber : std::uint16_t {
  gid_in_service = 64,
  gid_out_of_service = 65,
  multicast_group_created = 66,
  multicast_group_deleted = 67,
  link_state_change = 128,
  local_link_integrity = 129,
  excessive_buffer_overrun = 130,
  flow_control_update_watchdog = 131,
  local_changes = 144,
  system_image_guid_change = 145,
  bad_m_key = 256,
  bad_p_key = 257,
  bad_q_key = 258,
  bad_p_key_at_switch = 259,
};

/// The data of a trap, or the Notice attribute (IBA 13.4.8.2). The layout of `details` depends on
/// the trap: one of the structures below.
struct Notice {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kDetailsBytes = 54;
  bool is_generic = true;  // If not, `producer` is a vendor id and `trap` a device id.
  NoticeType type{};
  NoticeProducer producer{};  // 24 bits.
  TrapNumber trap{};
  Lid issuer{};
  bool toggle = false;
  std::uint16_t count = 0;  // 15 bits.
  std::array<std::uint8_t, kDetailsBytes> details{};
  friend bool operator==(const Notice&, const Notice&) = default;
  static constexpr auto kFields = std::tuple(
      field(&Notice::is_generic, 0, 1), field(&Notice::type, 1, 7), field(&Notice::producer, 8, 24),
      field(&Notice::trap, 32), field(&Notice::issuer, 48), field(&Notice::toggle, 64, 1),
      field(&Notice::count, 65, 15), field(&Notice::details, 80));
};

/// Traps 64 to 67: the GID that came into or out of service, or that was created or deleted.
struct GidDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Gid gid{};
  friend bool operator==(const GidDetails&, const GidDetails&) = default;
  static constexpr auto kFields = std::tuple(field(&GidDetails::gid, 48));
};

/// Trap 128: a port of this switch has changed its state.
struct SwitchDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Lid lid{};
  friend bool operator==(const SwitchDetails&, const SwitchDetails&) = default;
  static constexpr auto kFields = std::tuple(field(&SwitchDetails::lid, 0));
};

/// Traps 129 to 131: a port with errors.
struct PortErrorDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Lid lid{};
  std::uint8_t port = 0;
  friend bool operator==(const PortErrorDetails&, const PortErrorDetails&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortErrorDetails::lid, 16), field(&PortErrorDetails::port, 32));
};

/// Trap 144: a port's changed capabilities or, if `is_other`, the bits of `changes`.
struct LocalChangesDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  static constexpr std::uint16_t kNodeDescription = 0x01;
  static constexpr std::uint16_t kWidthEnabled = 0x02;
  static constexpr std::uint16_t kSpeedEnabled = 0x04;
  static constexpr std::uint16_t kSmPriority = 0x08;
  static constexpr std::uint16_t kCapabilities2 = 0x20;
  Lid lid{};
  bool is_other = false;
  std::uint32_t capabilities = 0;
  std::uint16_t changes = 0;
  std::uint16_t capabilities2 = 0;
  friend bool operator==(const LocalChangesDetails&, const LocalChangesDetails&) = default;
  static constexpr auto kFields = std::tuple(
      field(&LocalChangesDetails::lid, 16), field(&LocalChangesDetails::is_other, 47, 1),
      field(&LocalChangesDetails::capabilities, 48), field(&LocalChangesDetails::changes, 80),
      field(&LocalChangesDetails::capabilities2, 96));
};

/// Trap 145.
struct SystemImageGuidDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Lid lid{};
  std::uint64_t system_image_guid = 0;
  friend bool operator==(const SystemImageGuidDetails&, const SystemImageGuidDetails&) = default;
  static constexpr auto kFields = std::tuple(field(&SystemImageGuidDetails::lid, 16),
                                             field(&SystemImageGuidDetails::system_image_guid, 48));
};

/// Trap 256: an SMP with a wrong M_Key, and its route.
struct BadMKeyDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Lid lid{};  // Of the sender.
  Lid route_source_lid{};
  MadMethod method{};
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;
  std::uint64_t m_key = 0;
  bool is_directed = false;
  bool is_path_truncated = false;
  std::uint8_t hop_count = 0;  // 6 bits.
  std::array<std::uint8_t, 30> return_path{};
  friend bool operator==(const BadMKeyDetails&, const BadMKeyDetails&) = default;
  static constexpr auto kFields = std::tuple(
      field(&BadMKeyDetails::lid, 16), field(&BadMKeyDetails::route_source_lid, 32),
      field(&BadMKeyDetails::method, 48), field(&BadMKeyDetails::attribute, 64),
      field(&BadMKeyDetails::modifier, 80), field(&BadMKeyDetails::m_key, 112),
      field(&BadMKeyDetails::is_directed, 184, 1),
      field(&BadMKeyDetails::is_path_truncated, 185, 1), field(&BadMKeyDetails::hop_count, 186, 6),
      field(&BadMKeyDetails::return_path, 192));
};

/// Traps 257 and 258: a packet whose P_Key or Q_Key does not match its queue pair.
struct BadKeyDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  Lid source_lid{};
  Lid destination_lid{};
  std::uint32_t key = 0;
  std::uint8_t service_level = 0;
  std::uint32_t source_qpn = 0;  // 24 bits, like the next field.
  std::uint32_t destination_qpn = 0;
  Gid source_gid{};
  Gid destination_gid{};
  friend bool operator==(const BadKeyDetails&, const BadKeyDetails&) = default;
  static constexpr auto kFields = std::tuple(
      field(&BadKeyDetails::source_lid, 16), field(&BadKeyDetails::destination_lid, 32),
      field(&BadKeyDetails::key, 48), field(&BadKeyDetails::service_level, 80, 4),
      field(&BadKeyDetails::source_qpn, 88, 24), field(&BadKeyDetails::destination_qpn, 120, 24),
      field(&BadKeyDetails::source_gid, 144), field(&BadKeyDetails::destination_gid, 272, 128));
};

/// Trap 259: a packet whose P_Key a switch's port refuses.
struct SwitchBadPKeyDetails {
  static constexpr std::size_t kSize = Notice::kDetailsBytes;
  std::uint16_t valid = 0;  // Bits: which fields are valid.
  Lid source_lid{};
  Lid destination_lid{};
  PKey p_key{};
  std::uint8_t service_level = 0;
  std::uint32_t source_qpn = 0;  // 24 bits, like the next field.
  std::uint32_t destination_qpn = 0;
  Gid source_gid{};
  Gid destination_gid{};
  Lid switch_lid{};
  std::uint8_t port = 0;
  friend bool operator==(const SwitchBadPKeyDetails&, const SwitchBadPKeyDetails&) = default;
  static constexpr auto kFields = std::tuple(
      field(&SwitchBadPKeyDetails::valid, 0), field(&SwitchBadPKeyDetails::source_lid, 16),
      field(&SwitchBadPKeyDetails::destination_lid, 32), field(&SwitchBadPKeyDetails::p_key, 48),
      field(&SwitchBadPKeyDetails::service_level, 64, 4),
      field(&SwitchBadPKeyDetails::source_qpn, 72, 24),
      field(&SwitchBadPKeyDetails::destination_qpn, 104, 24),
      field(&SwitchBadPKeyDetails::source_gid, 128),
      field(&SwitchBadPKeyDetails::destination_gid, 256),
      field(&SwitchBadPKeyDetails::switch_lid, 384), field(&SwitchBadPKeyDetails::port, 400));
};

template <Fields T>
T details_as(const Notice& notice) {
  return decode<T>(std::as_bytes(std::span(notice.details)));
}
template <Fields T>
void set_details(Notice& notice, const T& details) {
  encode(details, std::as_writable_bytes(std::span(notice.details)));
}

}  // namespace verbatim::wire
