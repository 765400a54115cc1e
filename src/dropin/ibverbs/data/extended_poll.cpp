#include <cerrno>
#include <ctime>

#include <fmt/format.h>

#include "base/time.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Polls extended completion queues: one entry at a time, whose fields are read by separate calls.
namespace verbatim::dropin {
namespace {

const adapter::Completion& entry(ibv_cq_ex* cq) { return from(cq).entry; }

/// Returns 0, or ENOENT if there is no entry.
int take(CompletionQueue& own, bool may_progress) {
  const std::span one(&own.entry, 1);
  const std::size_t taken =
      may_progress ? from(own.verbs.context).adapter().poll(*own.queue, one) : own.queue->poll(one);
  if (taken == 0) return ENOENT;
  own.verbs.wr_id = own.entry.wr_id;
  own.verbs.status = static_cast<ibv_wc_status>(raw(own.entry.status));
  return 0;
}

/// From a successful `start_poll` to `end_poll` one thread owns the queue.
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
  if (attributes->comp_mask != 0) {
    return refused("start_poll",
                   {EINVAL, fmt::format("comp_mask {:#x} is unknown", attributes->comp_mask)});
  }
  CompletionQueue& own = from(cq);
  if (!own.single_threaded) own.polling.lock();
  const int found = take(own, true);
  if (found != 0 && !own.single_threaded) own.polling.unlock();
  return found;
}

int next_poll(ibv_cq_ex* cq) { return take(from(cq), false); }

void end_poll(ibv_cq_ex* cq) {
  if (CompletionQueue& own = from(cq); !own.single_threaded) own.polling.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) {
  return static_cast<ibv_wc_opcode>(raw(entry(cq).opcode));
}
std::uint32_t read_vendor_error(ibv_cq_ex* cq) { return entry(cq).vendor_error; }
std::uint32_t read_byte_count(ibv_cq_ex* cq) { return entry(cq).byte_count; }
__be32 read_immediate(ibv_cq_ex* cq) { return entry(cq).immediate; }
std::uint32_t read_qpn(ibv_cq_ex* cq) { return entry(cq).qpn; }
std::uint32_t read_source_qpn(ibv_cq_ex* cq) { return entry(cq).source_qpn; }
unsigned read_flags(ibv_cq_ex* cq) { return entry(cq).flags; }
std::uint32_t read_source_lid(ibv_cq_ex* cq) { return entry(cq).source_lid; }
std::uint8_t read_service_level(ibv_cq_ex* cq) { return entry(cq).service_level; }
std::uint8_t read_path_bits(ibv_cq_ex* cq) { return entry(cq).path_bits; }
std::uint64_t read_timestamp(ibv_cq_ex* cq) { return entry(cq).timestamp; }
/// Raw packets have a flow tag in the field of immediate data.
std::uint32_t read_flow_tag(ibv_cq_ex* cq) { return entry(cq).immediate; }

void read_tag(ibv_cq_ex* cq, ibv_wc_tm_info* info) {
  *info = {.tag = entry(cq).tag, .priv = entry(cq).tag_context};
}

std::uint64_t read_wall_clock(ibv_cq_ex* cq) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const TimeNs wall = static_cast<TimeNs>(now.tv_sec) * kSecond + static_cast<TimeNs>(now.tv_nsec);
  return wall - (monotonic_now() - entry(cq).timestamp);
}

}  // namespace

void extend(CompletionQueue& queue) {
  ibv_cq_ex& verbs = queue.verbs;
  verbs.start_poll = start_poll;
  verbs.next_poll = next_poll;
  verbs.end_poll = end_poll;
  verbs.read_opcode = read_opcode;
  verbs.read_vendor_err = read_vendor_error;
  verbs.read_byte_len = read_byte_count;
  verbs.read_imm_data = read_immediate;
  verbs.read_qp_num = read_qpn;
  verbs.read_src_qp = read_source_qpn;
  verbs.read_wc_flags = read_flags;
  verbs.read_slid = read_source_lid;
  verbs.read_sl = read_service_level;
  verbs.read_dlid_path_bits = read_path_bits;
  verbs.read_completion_ts = read_timestamp;
  verbs.read_flow_tag = read_flow_tag;
  verbs.read_tm_info = read_tag;
  verbs.read_completion_wallclock_ns = read_wall_clock;
}

}  // namespace verbatim::dropin
