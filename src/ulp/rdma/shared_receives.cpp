#include "ulp/rdma/shared_receives.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace verbatim::ulp::rdma {

SharedReceives::SharedReceives(BufferPool buffers, Completions& completions)
    : buffers_(std::move(buffers)), completions_(completions), is_lent_(buffers_.count()) {
  to_post_.reserve(buffers_.count());
}

Result<std::unique_ptr<SharedReceives>> SharedReceives::create(const Device& device,
                                                               Completions& completions,
                                                               std::uint32_t count,
                                                               std::uint32_t bytes) {
  if (device.limits().shared_receives == 0)
    return refuse(EOPNOTSUPP, "the adapter has no shared receive queues");
  count = std::min(count + Completions::kBatch, device.limits().shared_receives);
  auto buffers = BufferPool::create(device, count, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (!buffers) return std::unexpected(buffers.error());
  if (auto room = completions.reserve(count); !room) return std::unexpected(room.error());
  std::unique_ptr<SharedReceives> receives(new SharedReceives(std::move(*buffers), completions));
  ibv_srq_init_attr wanted{.attr = {.max_wr = count, .max_sge = 1}};
  receives->queue_ = ibv_create_srq(device.domain(), &wanted);
  if (receives->queue_ == nullptr)
    return refuse_errno(fmt::format("ibv_create_srq of {} receives", count));
  for (std::uint32_t i = count; i-- > 0;) receives->to_post_.push_back(i);
  receives->post();
  return receives;
}

SharedReceives::~SharedReceives() {
  if (queue_ != nullptr) ibv_destroy_srq(queue_);
  completions_.release(buffers_.count());
}

Message SharedReceives::take(const Ended& ended) {
  const std::uint32_t index = ended.id.value;
  Message message{.receive = ReceiveId{index},
                  .memory = buffers_.at(index),
                  .immediate = ended.immediate,
                  .invalidated = ended.invalidated};
  message.memory.bytes = std::min(ended.bytes, message.memory.bytes);
  is_lent_[index] = true;
  ++lent_count_;
  --posted_;
  return message;
}

void SharedReceives::give_back(ReceiveId receive) {
  const std::uint32_t index = raw(receive);
  if (index >= is_lent_.size() || !is_lent_[index]) {
    ++mistakes_;
    return;
  }
  is_lent_[index] = false;
  --lent_count_;
  to_post_.push_back(index);
}

void SharedReceives::post() {
  while (!to_post_.empty()) {
    const std::size_t before = to_post_.size();
    post_some(std::min<std::size_t>(before, 32));
    if (to_post_.size() == before) return;  // Refused: next time.
  }
}

/// The last `count` of `to_post_`.
void SharedReceives::post_some(std::size_t count) {
  std::array<ibv_recv_wr, 32> requests;
  std::array<ibv_sge, 32> slices;
  const std::size_t first = to_post_.size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = to_post_[first + i];
    const Slice slice = buffers_.at(index);
    slices[i] = {reinterpret_cast<std::uint64_t>(slice.data), slice.bytes, raw(slice.local_key)};
    requests[i] = {.wr_id = WorkId{.kind = WorkId::Kind::receive, .value = index}.encoded(),
                   .next = i + 1 < count ? &requests[i + 1] : nullptr,
                   .sg_list = &slices[i],
                   .num_sge = 1};
  }
  ibv_recv_wr* refused = nullptr;
  std::size_t posted = count;
  if (ibv_post_srq_recv(queue_, requests.data(), &refused) != 0)
    posted = static_cast<std::size_t>(refused - requests.data());
  const auto begin = to_post_.begin() + static_cast<std::ptrdiff_t>(first);
  to_post_.erase(begin, begin + static_cast<std::ptrdiff_t>(posted));
  posted_ += static_cast<std::uint32_t>(posted);
}

}  // namespace verbatim::ulp::rdma
