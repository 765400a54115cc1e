#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// Identity and limits that a device reports: a card's, rdma_rxe's, or Verbatim's own.
namespace verbatim::config {

enum class AtomicCapability : std::uint32_t { none, hca, global };

/// As `ibv_query_device` reports them, with the same names. Counts are for one program.
struct DeviceLimits {
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;  // Requests in a send or receive queue.
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_data = 0;  // Bytes.
  std::uint32_t max_cq = 0;
  std::uint32_t max_cqe = 0;  // Entries in a completion queue.
  std::uint32_t max_mr = 0;
  std::uint32_t max_mw = 0;
  std::uint32_t max_pd = 0;
  std::uint32_t max_srq = 0;
  std::uint32_t max_srq_wr = 0;
  std::uint32_t max_srq_sge = 0;
  std::uint32_t max_ah = 0;
  std::uint32_t max_qp_rd_atom = 0;       // READs and atomics outstanding as responder,
  std::uint32_t max_qp_init_rd_atom = 0;  // and as initiator.
  std::uint32_t max_mtu = 0;              // 256, 512, 1024, 2048 or 4096.
  std::uint32_t atomic = 0;               // AtomicCapability.
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  std::uint32_t hw_ver = 0;
  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

/// A limit that a file can set.
struct LimitField {
  std::string_view name;
  std::uint32_t DeviceLimits::* member;
  std::uint32_t least;
  std::string_view meaning;
};
std::span<const LimitField> limit_fields();

struct Profile {
  std::string_view name;
  std::string_view meaning;
  std::string_view firmware;
  std::string_view board_id;
  DeviceLimits limits;
};

/// Length of a firmware version; the room in `struct ibv_device_attr`.
inline constexpr std::size_t kFirmwareMax = 63;

/// No real vendor: the bit of locally administered addresses is set. For a known vendor's id,
/// programs would make that vendor's private calls.
inline constexpr std::uint32_t kVendorId = 0x025642;

/// The limits of Verbatim itself, which are the default. No device has more; adapter/limits.h
/// asserts that both agree.
inline constexpr DeviceLimits kVerbatimLimits{
    .max_qp = (1 << 14) - 1,
    .max_qp_wr = 1 << 15,
    .max_sge = 32,
    .max_inline_data = 1024,
    .max_cq = 1 << 16,
    .max_cqe = 1 << 22,
    .max_mr = (1 << 20) - 1,
    .max_mw = (1 << 20) - 1,
    .max_pd = 1 << 16,
    .max_srq = (1 << 14) - 1,
    .max_srq_wr = 1 << 15,
    .max_srq_sge = 32,
    .max_ah = 1 << 20,
    .max_qp_rd_atom = 128,
    .max_qp_init_rd_atom = 128,
    .max_mtu = 4096,
    .atomic = static_cast<std::uint32_t>(AtomicCapability::hca),
    .vendor_id = kVendorId,
    .vendor_part_id = 1,
    .hw_ver = 1,
};

inline constexpr std::string_view kDefaultProfile = "verbatim";

/// Returns all profiles; the first is the default. If a card has more of something than Verbatim,
/// its profile has Verbatim's number.
std::span<const Profile> profiles();
/// Returns null if there is no profile with that name.
const Profile* find_profile(std::string_view name);

}  // namespace verbatim::config
