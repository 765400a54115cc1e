#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Operations on the tag lists of tag matching queues.
namespace verbatim::dropin {
namespace {

using adapter::TagOperation;
using Kind = TagOperation::Kind;
static_assert(int{raw(Kind::add)} == IBV_WR_TAG_ADD);
static_assert(int{raw(Kind::remove)} == IBV_WR_TAG_DEL);
static_assert(int{raw(Kind::synchronize)} == IBV_WR_TAG_SYNC);

Result<void> check(const ibv_ops_wr& theirs) {
  if (theirs.opcode > IBV_WR_TAG_SYNC) {
    return refuse(EINVAL, fmt::format("opcode {} is unknown", static_cast<int>(theirs.opcode)));
  }
  if (const int unknown = theirs.flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC); unknown != 0) {
    return refuse(EINVAL, fmt::format("flags {:#x} are unknown", unknown));
  }
  if (theirs.opcode == IBV_WR_TAG_ADD && theirs.tm.add.num_sge < 0) {
    return refuse(EINVAL, fmt::format("num_sge {} is negative", theirs.tm.add.num_sge));
  }
  return {};
}

TagOperation to_operation(const ibv_ops_wr& theirs) {
  TagOperation own{.kind = static_cast<Kind>(theirs.opcode),
                   .wr_id = theirs.wr_id,
                   .signaled = (theirs.flags & IBV_OPS_SIGNALED) != 0};
  if ((theirs.flags & IBV_OPS_TM_SYNC) != 0 || own.kind == Kind::synchronize) {
    own.handled = theirs.tm.unexpected_cnt;
  }
  if (own.kind == Kind::remove) own.handle = theirs.tm.handle;
  if (own.kind != Kind::add) return own;
  own.receive_wr_id = theirs.tm.add.recv_wr_id;
  own.tag = theirs.tm.add.tag;
  own.mask = theirs.tm.add.mask;
  own.segments = {reinterpret_cast<const adapter::Segment*>(theirs.tm.add.sg_list),
                  static_cast<std::size_t>(theirs.tm.add.num_sge)};
  return own;
}

Result<void> post(adapter::SharedReceiveQueue& queue, ibv_ops_wr& theirs) {
  if (!queue.matches_tags()) return refuse(EINVAL, "the queue was not created with IBV_SRQT_TM");
  if (auto valid = check(theirs); !valid) return valid;
  const int code = queue.post_tag_operation(to_operation(theirs), theirs.tm.handle);
  if (code == 0) return {};
  return refuse(code, fmt::format("the list has room for {} tags of {} segments",
                                  queue.options().tags, adapter::Limits::segments));
}

}  // namespace

int post_srq_ops(ibv_srq* srq, ibv_ops_wr* operation, ibv_ops_wr** bad) {
  for (; operation != nullptr; operation = operation->next) {
    const auto posted = post(*from(srq).queue, *operation);
    if (posted) continue;
    *bad = operation;
    return refused("post_srq_ops", posted.error());
  }
  return 0;
}

}  // namespace verbatim::dropin
