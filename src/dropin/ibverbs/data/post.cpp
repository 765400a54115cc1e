#include <cerrno>
#include <cstring>

#include "adapter/queue_pair/core/carried.h"
#include "base/log.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"

/// Posting: the hot path.
namespace verbatim::dropin {
namespace {

using adapter::Segment;
static_assert(sizeof(Segment) == sizeof(ibv_sge));
static_assert(offsetof(Segment, address) == offsetof(ibv_sge, addr));
static_assert(offsetof(Segment, length) == offsetof(ibv_sge, length));
static_assert(offsetof(Segment, key) == offsetof(ibv_sge, lkey));

using transport::Operation;
static_assert(int{raw(Operation::write)} == IBV_WR_RDMA_WRITE);
static_assert(int{raw(Operation::write_with_immediate)} == IBV_WR_RDMA_WRITE_WITH_IMM);
static_assert(int{raw(Operation::send)} == IBV_WR_SEND);
static_assert(int{raw(Operation::send_with_immediate)} == IBV_WR_SEND_WITH_IMM);
static_assert(int{raw(Operation::read)} == IBV_WR_RDMA_READ);
static_assert(int{raw(Operation::compare_and_swap)} == IBV_WR_ATOMIC_CMP_AND_SWP);
static_assert(int{raw(Operation::fetch_and_add)} == IBV_WR_ATOMIC_FETCH_AND_ADD);
static_assert(int{raw(Operation::local_invalidate)} == IBV_WR_LOCAL_INV);
static_assert(int{raw(Operation::bind_window)} == IBV_WR_BIND_MW);
static_assert(int{raw(Operation::send_with_invalidate)} == IBV_WR_SEND_WITH_INV);
static_assert(int{raw(Operation::atomic_write)} == IBV_WR_ATOMIC_WRITE);

static_assert(adapter::kPostSignaled == IBV_SEND_SIGNALED);
static_assert(adapter::kPostInline == IBV_SEND_INLINE);
static_assert(adapter::kPostFillChecksums == IBV_SEND_IP_CSUM);

std::span<const Segment> segments_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const Segment*>(list), static_cast<std::size_t>(count)};
}

void add_remote(const ibv_send_wr& theirs, transport::SendRequest& own) {
  switch (theirs.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
      own.remote_address = theirs.wr.rdma.remote_addr;
      own.remote_key = MemoryKey{theirs.wr.rdma.rkey};
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      own.remote_address = theirs.wr.atomic.remote_addr;
      own.remote_key = MemoryKey{theirs.wr.atomic.rkey};
      own.compare_add = theirs.wr.atomic.compare_add;
      own.swap = theirs.wr.atomic.swap;
      break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      own.immediate = 0;
      own.remote_key = MemoryKey{theirs.invalidate_rkey};
      break;
    default:
      break;
  }
}

/// Adds a bind of a type 2 window (`ibv_bind_mw` binds the others). Returns 0 or an errno value.
int add_binding(const ibv_send_wr& theirs, adapter::SendWork& own) {
  const ibv_mw* mw = theirs.bind_mw.mw;
  if (mw == nullptr || mw->type != IBV_MW_TYPE_2) return EINVAL;
  own.request.remote_key = MemoryKey{theirs.bind_mw.rkey};
  own.binding = to_binding(*mw, theirs.bind_mw.rkey, theirs.bind_mw.bind_info);
  return 0;
}

/// Returns 0 or an errno value.
int post(const ibv_qp& qp, adapter::QueuePair::Posting& posting, const ibv_send_wr& theirs) {
  // ibv_send_wr cannot express a FLUSH; ibv_wr_flush posts it.
  const auto operation = static_cast<Operation>(theirs.opcode);
  if (theirs.opcode > IBV_WR_ATOMIC_WRITE || !transport::info(operation).known ||
      operation == Operation::flush) {
    return EOPNOTSUPP;
  }
  if (theirs.num_sge < 0) return EINVAL;
  adapter::SendWork own;
  own.wr_id = theirs.wr_id;
  own.segments = segments_of(theirs.sg_list, theirs.num_sge);
  own.flags = theirs.send_flags;
  own.request.operation = operation;
  own.request.fence = (theirs.send_flags & IBV_SEND_FENCE) != 0;
  own.request.solicited = (theirs.send_flags & IBV_SEND_SOLICITED) != 0;
  own.request.immediate = theirs.imm_data;
  for (const Segment& segment : own.segments) own.request.length += segment.length;
  if (qp.qp_type == IBV_QPT_UD) {
    if (theirs.wr.ud.ah == nullptr) return EINVAL;
    own.destination = &from(theirs.wr.ud.ah).destination;
    own.remote_qpn = Qpn(theirs.wr.ud.remote_qpn);
    own.remote_qkey = QKey{theirs.wr.ud.remote_qkey};
  } else {
    add_remote(theirs, own.request);
    if (qp.qp_type == IBV_QPT_XRC_SEND) {
      own.request.remote_srq = SrqNumber{theirs.qp_type.xrc.remote_srqn & 0xffffff};
    }
  }
  if (operation == Operation::bind_window) {
    if (const int refused = add_binding(theirs, own); refused != 0) return refused;
  }
  return posting.post(own);
}

/// Returns the reason that the logged numbers of a refused request do not show; empty if they show
/// it.
const char* why_refused(ibv_qp& qp, const ibv_send_wr& request) {
  const adapter::QueuePair& queue_pair = *from(&qp).queue_pair;
  const auto operation = static_cast<Operation>(request.opcode);
  const bool is_known = request.opcode <= IBV_WR_ATOMIC_WRITE;
  if (!is_known || !adapter::serves(queue_pair.type(), operation)) {
    return ": its type has no such request";
  }
  std::uint64_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) length += request.sg_list[i].length;
  if (transport::info(operation).is_eight_bytes && length != 8) {
    return ": an atomic operation is of 8 bytes";
  }
  const bool is_iwarp = from(qp.context).adapter().node().is_iwarp();
  if (!adapter::is_carried(operation, is_iwarp)) return ": iWARP has no such request";
  switch (queue_pair.state()) {
    case adapter::QpState::reset:
    case adapter::QpState::init:
    case adapter::QpState::rtr:
      return ": a queue pair sends from RTS on";
    default:
      return "";
  }
}

/// A full queue is normal for programs that post until it is full.
LogLevel level_of(int code) { return code == ENOMEM ? LogLevel::debug : LogLevel::warn; }

void report(ibv_qp& verbs, const ibv_send_wr& request, int code) {
  const adapter::QueuePair& qp = *from(&verbs).queue_pair;
  const auto& limits = qp.options().capacity;
  std::uint64_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) length += request.sg_list[i].length;
  log(level_of(code),
      "post_send: {}: {} QP {:#x} in {}, {}, {} of at most {} segments, {} bytes, flags {:#x} "
      "(inline at "
      "most {} bytes, {} requests outstanding){}",
      std::strerror(code), name_of(qp.type()), qp.number().value(), name_of(qp.state()),
      ibv_wr_opcode_str(request.opcode), request.num_sge, limits.send_segments, length,
      request.send_flags, limits.inline_bytes, limits.send_requests,
      code == ENOMEM ? "" : why_refused(verbs, request));
}

void report(const adapter::QueuePair& qp, const ibv_recv_wr& request, int code) {
  const auto& limits = qp.options().capacity;
  log(level_of(code),
      "post_recv: {}: {} QP {:#x} in {}, {} of at most {} segments, at most {} requests "
      "outstanding",
      std::strerror(code), name_of(qp.type()), qp.number().value(), name_of(qp.state()),
      request.num_sge, limits.receive_segments, limits.receive_requests);
}

void report(const adapter::SharedReceiveQueue& queue, const ibv_recv_wr& request, int code) {
  log(level_of(code),
      "post_srq_recv: {}: SRQ {:#x}, {} of at most {} segments, at most {} requests outstanding",
      std::strerror(code), raw(queue.number()), request.num_sge, queue.segments_max(),
      queue.capacity());
}

/// Posts a list; returns 0, or an errno value and the first request that was refused.
template <typename Queue>
int post_list(Queue& queue, ibv_recv_wr* request, ibv_recv_wr** bad) {
  for (; request != nullptr; request = request->next) {
    const int code =
        request->num_sge < 0
            ? EINVAL
            : queue.post_receive(request->wr_id, segments_of(request->sg_list, request->num_sge));
    if (code == 0) continue;
    *bad = request;
    report(queue, *request, code);
    return code;
  }
  return 0;
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  adapter::QueuePair& queue_pair = *from(qp).queue_pair;
  int code = 0;
  {
    // Requests before a bad one are sent.
    adapter::QueuePair::Posting posting(queue_pair);
    while (request != nullptr && (code = post(*qp, posting, *request)) == 0) {
      request = request->next;
    }
  }
  if (code == 0) return 0;
  *bad = request;
  report(*qp, *request, code);
  return code;
}

int post_receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  return post_list(*from(qp).queue_pair, request, bad);
}

int post_shared_receive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  return post_list(*from(srq).queue, request, bad);
}

}  // namespace verbatim::dropin
