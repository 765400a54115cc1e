#include "ulp/rdma/completions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>

namespace verbatim::ulp::rdma {
namespace {

Ended ended_of(const ibv_wc& from) {
  Ended ended{.id = WorkId::decode(from.wr_id),
              .status = static_cast<CompletionStatus>(from.status),
              .own = Qpn(from.qp_num)};
  if (from.status != IBV_WC_SUCCESS) return ended;
  ended.bytes = from.byte_len;
  if ((from.wc_flags & IBV_WC_WITH_IMM) != 0) ended.immediate = ntohl(from.imm_data);
  if ((from.wc_flags & IBV_WC_WITH_INV) != 0) ended.invalidated = MemoryKey{from.invalidated_rkey};
  ended.source = Qpn(from.src_qp);
  ended.source_lid = from.slid;
  ended.has_grh = (from.wc_flags & IBV_WC_GRH) != 0;
  return ended;
}

}  // namespace

Result<std::unique_ptr<Completions>> Completions::create(const Device& device,
                                                         std::uint32_t entries) {
  std::unique_ptr<Completions> completions(new Completions);
  if (auto opened = completions->open(device, entries); !opened)
    return std::unexpected(opened.error());
  return completions;
}

Result<void> Completions::open(const Device& device, std::uint32_t entries) {
  channel_ = ibv_create_comp_channel(device.context());
  if (channel_ == nullptr) return refuse_errno("ibv_create_comp_channel");
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return refuse_errno("fcntl");
  entries_max_ = device.limits().completions;
  const auto wanted = std::clamp(entries, 1u, std::max(entries_max_, 1u));
  queue_ = ibv_create_cq(device.context(), static_cast<int>(wanted), nullptr, channel_, 0);
  if (queue_ == nullptr) return refuse_errno(fmt::format("ibv_create_cq of {} entries", wanted));
  return {};
}

Completions::~Completions() {
  if (queue_ != nullptr) {
    ibv_ack_cq_events(queue_, unacknowledged_);
    ibv_destroy_cq(queue_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

Result<void> Completions::reserve(std::uint32_t entries) {
  const std::uint64_t needed = std::uint64_t{reserved_} + entries;
  if (needed > entries_max_) {
    return refuse(ENOSPC,
                  fmt::format("{} completions are reserved, {} more are wanted, the adapter "
                              "has {}",
                              reserved_, entries, entries_max_));
  }
  const auto has = static_cast<std::uint32_t>(queue_->cqe);
  if (needed > has) {
    const auto wanted = std::min(std::max<std::uint64_t>(needed, std::uint64_t{has} * 2),
                                 std::uint64_t{entries_max_});
    if (const int error = ibv_resize_cq(queue_, static_cast<int>(wanted))) {
      return refuse(ENOSPC, fmt::format("ibv_resize_cq from {} to {} entries: {}", has, wanted,
                                        std::strerror(error > 0 ? error : errno)));
    }
  }
  reserved_ += entries;
  return {};
}

std::span<const Ended> Completions::poll() {
  std::array<ibv_wc, kBatch> found;  // Filled in by the adapter as far as it says.
  const int count = ibv_poll_cq(queue_, kBatch, found.data());
  if (count < kBatch) ++times_empty_;
  for (int i = 0; i < count; ++i) ended_[i] = ended_of(found[i]);
  return std::span(ended_).first(count > 0 ? static_cast<std::size_t>(count) : 0);
}

Result<void> Completions::arm() {
  if (const int error = ibv_req_notify_cq(queue_, 0))
    return refuse(error, fmt::format("ibv_req_notify_cq: {}", std::strerror(error)));
  return {};
}

void Completions::take_event() {
  constexpr std::uint32_t kAcknowledgeAt = 1000;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  // One, for it was armed once; if there were more, the descriptor would be readable again.
  if (ibv_get_cq_event(channel_, &queue, &context) == 0) ++unacknowledged_;
  if (unacknowledged_ < kAcknowledgeAt) return;
  ibv_ack_cq_events(queue_, unacknowledged_);
  unacknowledged_ = 0;
}

}  // namespace verbatim::ulp::rdma
