#include "dropin/ibverbs/data/extended_post.h"

#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "adapter/queue_pair/core/carried.h"
#include "dropin/ibverbs/calls.h"

/// Builds requests: each function that a program calls adds a request to the batch, or fields to
/// its last request. The hot path of programs that post this way.
namespace verbatim::dropin {
namespace {

using transport::Operation;

// Missing in older headers.
constexpr std::uint64_t kWithFlush = 1 << 11;
using FlushFunction = void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                               std::uint8_t);

struct Served {
  std::uint64_t flag;
  Operation operation;
};
constexpr Served kServed[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, Operation::write},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, Operation::write_with_immediate},
    {IBV_QP_EX_WITH_SEND, Operation::send},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, Operation::send_with_immediate},
    {IBV_QP_EX_WITH_RDMA_READ, Operation::read},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, Operation::compare_and_swap},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, Operation::fetch_and_add},
    {IBV_QP_EX_WITH_LOCAL_INV, Operation::local_invalidate},
    {IBV_QP_EX_WITH_BIND_MW, Operation::bind_window},
    {IBV_QP_EX_WITH_SEND_WITH_INV, Operation::send_with_invalidate},
    {kWithFlush, Operation::flush},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, Operation::atomic_write},
};

SendBatch& batch(ibv_qp_ex* qp) { return *from(&qp->qp_base).batch; }

/// Starts a request with the fields that the program has set in the queue pair.
adapter::SendWork begin(const ibv_qp_ex* qp, Operation operation) {
  adapter::SendWork work;
  work.wr_id = qp->wr_id;
  work.flags = qp->wr_flags & (IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
  work.request.operation = operation;
  work.request.fence = (qp->wr_flags & IBV_SEND_FENCE) != 0;
  work.request.solicited = (qp->wr_flags & IBV_SEND_SOLICITED) != 0;
  return work;
}

adapter::SendWork begin(const ibv_qp_ex* qp, Operation operation, std::uint32_t rkey,
                        std::uint64_t address) {
  adapter::SendWork work = begin(qp, operation);
  work.request.remote_address = address;
  work.request.remote_key = MemoryKey{rkey};
  return work;
}

void send(ibv_qp_ex* qp) { batch(qp).add(begin(qp, Operation::send)); }

void send_with_immediate(ibv_qp_ex* qp, __be32 immediate) {
  adapter::SendWork work = begin(qp, Operation::send_with_immediate);
  work.request.immediate = immediate;
  batch(qp).add(work);
}

void write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  batch(qp).add(begin(qp, Operation::write, rkey, address));
}

void write_with_immediate(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                          __be32 immediate) {
  adapter::SendWork work = begin(qp, Operation::write_with_immediate, rkey, address);
  work.request.immediate = immediate;
  batch(qp).add(work);
}

void read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  batch(qp).add(begin(qp, Operation::read, rkey, address));
}

void compare_and_swap(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                      std::uint64_t compare, std::uint64_t swap) {
  adapter::SendWork work = begin(qp, Operation::compare_and_swap, rkey, address);
  work.request.compare_add = compare;
  work.request.swap = swap;
  batch(qp).add(work);
}

void fetch_and_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) {
  adapter::SendWork work = begin(qp, Operation::fetch_and_add, rkey, address);
  work.request.compare_add = add;
  batch(qp).add(work);
}

void send_with_invalidate(ibv_qp_ex* qp, std::uint32_t key) {
  batch(qp).add(begin(qp, Operation::send_with_invalidate, key, 0));
}

void local_invalidate(ibv_qp_ex* qp, std::uint32_t key) {
  batch(qp).add(begin(qp, Operation::local_invalidate, key, 0));
}

void bind_window(ibv_qp_ex* qp, ibv_mw* mw, std::uint32_t key, const ibv_mw_bind_info* info) {
  if (mw->type != IBV_MW_TYPE_2) {
    return batch(qp).fail(EINVAL, "windows of type 1 are bound by ibv_bind_mw");
  }
  adapter::SendWork work = begin(qp, Operation::bind_window, key, 0);
  work.binding = to_binding(*mw, key, *info);
  batch(qp).add(work);
}

void atomic_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, const void* value) {
  batch(qp).add(begin(qp, Operation::atomic_write, rkey, address));
  std::byte* const to = batch(qp).set_inline(sizeof(std::uint64_t));
  if (to != nullptr) std::memcpy(to, value, sizeof(std::uint64_t));
}

void flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::size_t length,
           std::uint8_t placement, std::uint8_t level) {
  if (length > std::numeric_limits<std::uint32_t>::max()) {
    return batch(qp).fail(EINVAL, "a flush reaches over 4 GiB at most");
  }
  adapter::SendWork work = begin(qp, Operation::flush, rkey, address);
  work.request.flush_bytes = static_cast<std::uint32_t>(length);
  work.request.flush = {.placement = placement,
                        .selectivity = static_cast<wire::Feth::Selectivity>(level & 3)};
  batch(qp).add(work);
}

void set_destination(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t remote_qpn,
                     std::uint32_t remote_qkey) {
  adapter::SendWork* const work = batch(qp).last();
  if (work == nullptr) return;
  if (ah == nullptr) return batch(qp).fail(EINVAL, "the address handle is a null pointer");
  work->destination = &from(ah).destination;
  work->remote_qpn = Qpn(remote_qpn);
  work->remote_qkey = QKey{remote_qkey};
}

void set_shared_receive(ibv_qp_ex* qp, std::uint32_t remote_srqn) {
  if (adapter::SendWork* const work = batch(qp).last()) {
    work->request.remote_srq = SrqNumber{remote_srqn & 0xffffff};
  }
}

void set_segments(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  batch(qp).set_segments({reinterpret_cast<const adapter::Segment*>(list), count});
}

void set_segment(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const ibv_sge segment{.addr = address, .length = length, .lkey = lkey};
  set_segments(qp, 1, &segment);
}

void set_inline(ibv_qp_ex* qp, void* address, std::size_t length) {
  std::byte* const to = batch(qp).set_inline(length);
  if (to != nullptr && length > 0) std::memcpy(to, address, length);
}

void set_inline_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < count; ++i) length += list[i].length;
  std::byte* to = batch(qp).set_inline(length);
  if (to == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    to = std::copy_n(static_cast<const std::byte*>(list[i].addr), list[i].length, to);
  }
}

void start(ibv_qp_ex* qp) { batch(qp).start(); }
int complete(ibv_qp_ex* qp) { return batch(qp).complete(); }
void abort(ibv_qp_ex* qp) { batch(qp).abort(); }

/// For an operation that the adapter does not have: the batch fails, instead of a crash of the
/// process.
template <typename... Arguments>
void refuse(ibv_qp_ex* qp, Arguments...) {
  batch(qp).fail(EINVAL, "the operation is not among the queue pair's send_ops_flags");
}

}  // namespace

Result<std::uint64_t> to_operations(adapter::QpType type, bool is_iwarp,
                                    std::uint64_t send_ops_flags) {
  std::uint64_t operations = 0;
  for (const Served& served : kServed) {
    const bool is_served =
        adapter::is_carried(served.operation, is_iwarp) && adapter::serves(type, served.operation);
    if ((send_ops_flags & served.flag) == 0 || !is_served) continue;
    operations |= std::uint64_t{1} << raw(served.operation);
    send_ops_flags &= ~served.flag;
  }
  if (send_ops_flags == 0) return operations;
  return verbatim::refuse(EOPNOTSUPP, fmt::format("send_ops_flags {:#x} are not served by {} queue "
                                                  "pairs{}",
                                                  send_ops_flags, adapter::name_of(type),
                                                  is_iwarp ? " over iWARP" : ""));
}

void extend(QueuePair& queue_pair, std::uint64_t operations) {
  queue_pair.batch = std::make_unique<SendBatch>(*queue_pair.queue_pair, operations);
  ibv_qp_ex& verbs = queue_pair.verbs;
  verbs.wr_start = start;
  verbs.wr_complete = complete;
  verbs.wr_abort = abort;
  verbs.wr_send = send;
  verbs.wr_send_imm = send_with_immediate;
  verbs.wr_send_inv = send_with_invalidate;
  verbs.wr_send_tso = refuse;
  verbs.wr_rdma_write = write;
  verbs.wr_rdma_write_imm = write_with_immediate;
  verbs.wr_rdma_read = read;
  verbs.wr_atomic_cmp_swp = compare_and_swap;
  verbs.wr_atomic_fetch_add = fetch_and_add;
  verbs.wr_atomic_write = atomic_write;
  verbs.wr_bind_mw = bind_window;
  verbs.wr_local_inv = local_invalidate;
  queue_pair.newer_fields = reinterpret_cast<void*>(static_cast<FlushFunction>(flush));
  verbs.wr_set_ud_addr = set_destination;
  verbs.wr_set_xrc_srqn = set_shared_receive;
  verbs.wr_set_inline_data = set_inline;
  verbs.wr_set_inline_data_list = set_inline_list;
  verbs.wr_set_sge = set_segment;
  verbs.wr_set_sge_list = set_segments;
}

}  // namespace verbatim::dropin
