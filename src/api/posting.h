#pragma once

#include <arpa/inet.h>

#include "api/party.h"
#include "base/always_inline.h"

/// The hot path of posting. Each function is inlined: if the caller's operation is constant, no
/// test of it remains.
namespace verbatim::inline v1::detail {

constexpr std::size_t kMaxSlices = 32;

struct OpcodeRow {
  Operation operation;
  ibv_wr_opcode opcode;
};
constexpr OpcodeRow kOpcodes[] = {
    {Operation::send, IBV_WR_SEND},
    {Operation::send_with_immediate, IBV_WR_SEND_WITH_IMM},
    {Operation::write, IBV_WR_RDMA_WRITE},
    {Operation::write_with_immediate, IBV_WR_RDMA_WRITE_WITH_IMM},
    {Operation::read, IBV_WR_RDMA_READ},
    {Operation::compare_and_swap, IBV_WR_ATOMIC_CMP_AND_SWP},
    {Operation::fetch_and_add, IBV_WR_ATOMIC_FETCH_AND_ADD},
};
static_assert(kOpcodes[static_cast<int>(Operation::fetch_and_add) - 1].operation ==
              Operation::fetch_and_add);

VERBATIM_ALWAYS_INLINE ibv_wr_opcode opcode_of(Operation operation) {
  return kOpcodes[static_cast<std::size_t>(operation) - 1].opcode;
}

VERBATIM_ALWAYS_INLINE bool names_remote(Operation operation) {
  return operation != Operation::send && operation != Operation::send_with_immediate;
}

VERBATIM_ALWAYS_INLINE unsigned flags_of(const Flags& flags) {
  constexpr unsigned kFence = IBV_SEND_FENCE;
  constexpr unsigned kInline = IBV_SEND_INLINE;
  constexpr unsigned kSolicited = IBV_SEND_SOLICITED;
  return (flags.fenced ? kFence : 0) | (flags.inlined ? kInline : 0) |
         (flags.solicited ? kSolicited : 0);
}

/// Returns true if one slice can be posted without a lock and without an error; `post` reports
/// errors in all other cases.
VERBATIM_ALWAYS_INLINE bool Party::is_plain(const Order& order, const Slice& local) const {
  const bool fits =
      !names_remote(order.operation) || (order.remote.is_valid && local.size <= order.remote.size);
  const bool fits_inline = !order.flags.inlined || local.size <= max_inline;
  return is_plain_ && local.is_valid && fits && fits_inline && !sends.is_full();
}

VERBATIM_ALWAYS_INLINE bool Party::wants_completion(std::uint64_t sequence) const {
  // Now and then also without a token: only a completion shows that the queue has room again.
  return sequence - sends.signaled >= (sends.depth + 3) / 4;
}

VERBATIM_ALWAYS_INLINE void Party::fill(ibv_send_wr& request, const Order& order,
                                        std::uint64_t sequence, std::span<ibv_sge> segments,
                                        std::span<const Slice> local, bool signals) {
  for (std::size_t i = 0; i < local.size(); ++i) {
    std::uint32_t size = local[i].size;
    // The caller has just written size and key separately: a single load of both would wait for the
    // store buffer.
    asm("" : "+r"(size));
    segments[i] = {reinterpret_cast<std::uintptr_t>(local[i].data), size, local[i].local_key};
  }
  request.wr_id = work_id(Side::send, sequence);
  request.next = nullptr;
  request.sg_list = segments.data();
  request.num_sge = static_cast<int>(local.size());
  request.opcode = opcode_of(order.operation);
  request.send_flags =
      flags_of(order.flags) | (signals ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0);
  if (order.operation == Operation::send_with_immediate ||
      order.operation == Operation::write_with_immediate)
    request.imm_data = htonl(order.immediate);
  switch (order.operation) {
    case Operation::compare_and_swap:
    case Operation::fetch_and_add:
      request.wr.atomic = {order.remote.address, order.compare_add, order.swap,
                           order.remote.remote_key};
      break;
    case Operation::send:
    case Operation::send_with_immediate:
      if (order.address != nullptr)
        request.wr.ud = {order.address, order.remote_queue_pair, order.remote_key};
      break;
    default:
      request.wr.rdma = {order.remote.address, order.remote.remote_key};
  }
}

VERBATIM_ALWAYS_INLINE void Party::submit(Pending* pending, Failure* failed, const Order& order,
                                          std::span<const Slice> local) {
  const std::uint64_t sequence = sends.posted() + 1;
  const bool signals = pending != nullptr || wants_completion(sequence);
  ibv_send_wr request;
  ibv_sge segments[kMaxSlices];
  fill(request, order, sequence, segments, local, signals);
  Ring::Slot& slot = sends.push(sequence, pending, order.operation);
  if (pending != nullptr) pending->begin(*queue, slot.pending, order.operation, queue_pair->qp_num);
  if (signals) sends.signaled = sequence;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(queue_pair, &request, &bad); code != 0) [[unlikely]]
    take_back(pending, failed, order.operation, code);
}

VERBATIM_ALWAYS_INLINE RequestToken Party::post(const Order& order, const Slice& local) {
  RequestToken token(Pending::Unset{});
  if (is_plain(order, local)) [[likely]] {
    submit(&token, nullptr, order, {&local, 1});
  } else {
    post_with_care(&token, nullptr, order, local);
  }
  return token;
}

VERBATIM_ALWAYS_INLINE Result<void> Party::post_without_token(const Order& order,
                                                              const Slice& local) {
  Failure failure;
  if (is_plain(order, local)) [[likely]] {
    submit(nullptr, &failure, order, {&local, 1});
  } else {
    post_with_care(nullptr, &failure, order, local);
  }
  return failure;
}

}  // namespace verbatim::inline v1::detail
