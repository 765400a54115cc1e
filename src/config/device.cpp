#include "config/device.h"

#include <algorithm>
#include <array>

namespace verbatim::config {
namespace {

constexpr auto kLimitFields = std::to_array<LimitField>({
    {"max_qp", &DeviceLimits::max_qp, 1, "queue pairs of one program"},
    {"max_qp_wr", &DeviceLimits::max_qp_wr, 1, "requests of a send or receive queue"},
    {"max_sge", &DeviceLimits::max_sge, 1, "segments of a request"},
    {"max_inline_data", &DeviceLimits::max_inline_data, 0, "bytes of inline data of a request"},
    {"max_cq", &DeviceLimits::max_cq, 1, "completion queues of one program"},
    {"max_cqe", &DeviceLimits::max_cqe, 1, "entries of a completion queue"},
    {"max_mr", &DeviceLimits::max_mr, 1, "memory regions of one program"},
    {"max_mw", &DeviceLimits::max_mw, 0, "memory windows of one program"},
    {"max_pd", &DeviceLimits::max_pd, 1, "protection domains of one program"},
    {"max_srq", &DeviceLimits::max_srq, 0, "shared receive queues of one program"},
    {"max_srq_wr", &DeviceLimits::max_srq_wr, 1, "requests of a shared receive queue"},
    {"max_srq_sge", &DeviceLimits::max_srq_sge, 1, "segments of a shared receive queue's request"},
    {"max_ah", &DeviceLimits::max_ah, 0, "address handles of one program"},
    {"max_qp_rd_atom", &DeviceLimits::max_qp_rd_atom, 0,
     "READs and atomics that a queue pair takes at once"},
    {"max_qp_init_rd_atom", &DeviceLimits::max_qp_init_rd_atom, 0,
     "READs and atomics that a queue pair sends at once"},
});

constexpr std::uint32_t least(std::uint32_t card, std::uint32_t DeviceLimits::* member) {
  return std::min(card, kVerbatimLimits.*member);
}

/// Limits a card's numbers to those of Verbatim.
constexpr DeviceLimits as_far_as_possible(DeviceLimits limits) {
  for (const LimitField& field : kLimitFields) {
    limits.*field.member = least(limits.*field.member, field.member);
  }
  return limits;
}

constexpr auto kHca = static_cast<std::uint32_t>(AtomicCapability::hca);

/// From `ibv_devinfo -v` of mlx5 cards on Ethernet, which agree in the counts: ConnectX-5 (firmware
/// 16.32.1010), ConnectX-6 Dx, and for identity and firmware the ConnectX-7 of openucx/ucx issue
/// 10317. Inline: 1024 bytes of a work queue entry, less control and remote address segments (16
/// each) and the inline header (4), as rdma-core's providers/mlx5 computes for RC.
constexpr DeviceLimits kConnectX7 = as_far_as_possible({
    .max_qp = 131'072,
    .max_qp_wr = 32'768,
    .max_sge = 30,
    .max_inline_data = 988,
    .max_cq = 16'777'216,
    .max_cqe = 4'194'303,
    .max_mr = 16'777'216,
    .max_mw = 16'777'216,
    .max_pd = 8'388'608,
    .max_srq = 8'388'608,
    .max_srq_wr = 32'767,
    .max_srq_sge = 31,
    .max_ah = 2'147'483'647,
    .max_qp_rd_atom = 16,
    .max_qp_init_rd_atom = 16,
    .max_mtu = 4096,
    .atomic = kHca,
    .vendor_id = 0x02c9,
    .vendor_part_id = 4129,
    .hw_ver = 0,
});

/// Linux's drivers/infiniband/sw/rxe/rxe_param.h, release 6.x.
constexpr DeviceLimits kRxe = as_far_as_possible({
    .max_qp = (1 << 20) - 16,
    .max_qp_wr = 1 << 20,
    .max_sge = 32,
    .max_inline_data = 512,
    .max_cq = 1 << 20,
    .max_cqe = (1 << 15) - 1,
    .max_mr = (1 << 19) - 1,
    .max_mw = (1 << 19) - 1,
    .max_pd = 1 << 20,
    .max_srq = (1 << 20) - 0x20001,
    .max_srq_wr = 1 << 20,
    .max_srq_sge = 27,
    .max_ah = (1 << 15) - 1,
    .max_qp_rd_atom = 128,
    .max_qp_init_rd_atom = 128,
    .max_mtu = 4096,
    .atomic = kHca,
    .vendor_id = 0xffffff,
    .vendor_part_id = 0,
    .hw_ver = 0,
});

/// No real card: small limits, with which a program fails early that relies on more than the
/// specification promises.
constexpr DeviceLimits kTiny{
    .max_qp = 8,
    .max_qp_wr = 16,
    .max_sge = 2,
    .max_inline_data = 32,
    .max_cq = 8,
    .max_cqe = 63,
    .max_mr = 16,
    .max_mw = 4,
    .max_pd = 4,
    .max_srq = 2,
    .max_srq_wr = 16,
    .max_srq_sge = 1,
    .max_ah = 8,
    .max_qp_rd_atom = 1,
    .max_qp_init_rd_atom = 1,
    .max_mtu = 1024,
    .atomic = static_cast<std::uint32_t>(AtomicCapability::none),
    .vendor_id = kVendorId,
    .vendor_part_id = 2,
    .hw_ver = 1,
};

constexpr auto kProfiles = std::to_array<Profile>({
    {"verbatim", "all that Verbatim can do", VERBATIM_VERSION, "VERBATIM", kVerbatimLimits},
    {"connectx-7", "NVIDIA ConnectX-7", "28.39.2048", "MT_0000000838", kConnectX7},
    {"rxe", "Linux's rdma_rxe", "", "", kRxe},
    {"tiny", "a few of everything, no atomics", VERBATIM_VERSION, "VERBATIM", kTiny},
});

}  // namespace

std::span<const LimitField> limit_fields() { return kLimitFields; }

std::span<const Profile> profiles() { return kProfiles; }

const Profile* find_profile(std::string_view name) {
  const auto* const found = std::ranges::find(kProfiles, name, &Profile::name);
  return found == kProfiles.end() ? nullptr : found;
}

}  // namespace verbatim::config
