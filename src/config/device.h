#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What a device says that it is, and how much of everything it has: that of a card, of rdma_rxe,
/// or Verbatim's own.
namespace verbatim::config {

enum class AtomicCapability : std::uint32_t { none, hca, global };

/// As `ibv_query_device` reports them, under its names. Counts are of one program.
struct DeviceLimits {
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;  // Requests of one send or receive queue.
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_data = 0;  // Bytes.
  std::uint32_t max_cq = 0;
  std::uint32_t max_cqe = 0;  // Entries of one completion queue.
  std::uint32_t max_mr = 0;
  std::uint32_t max_mw = 0;
  std::uint32_t max_pd = 0;
  std::uint32_t max_srq = 0;
  std::uint32_t max_srq_wr = 0;
  std::uint32_t max_srq_sge = 0;
  std::uint32_t max_ah = 0;
  std::uint32_t max_qp_rd_atom = 0;       // READs and atomics as their target,
  std::uint32_t max_qp_init_rd_atom = 0;  // and as their initiator.
  std::uint32_t max_mtu = 0;              // 256, 512, 1024, 2048 or 4096.
  std::uint32_t atomic = 0;               // AtomicCapability.
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  std::uint32_t hw_ver = 0;
  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

/// One number of a device that a file may set.
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

/// Characters of a firmware's version, as `struct ibv_device_attr` has room for.
inline constexpr std::size_t kFirmwareMax = 63;

/// No vendor's: the bit of locally administered addresses is set. Programs take a known vendor's
/// number as leave to make that vendor's private calls.
inline constexpr std::uint32_t kVendorId = 0x025642;

/// What Verbatim can do, and the default. No device has more: adapter/limits.h is asserted to
/// agree.
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

/// All profiles; the first is the default. Of a card that has more of something than Verbatim, the
/// profile has what Verbatim has.
std::span<const Profile> profiles();
/// Null where there is none of that name.
const Profile* find_profile(std::string_view name);

}  // namespace verbatim::config
