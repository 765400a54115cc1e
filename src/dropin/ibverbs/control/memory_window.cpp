#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Memory windows. Type 2 windows are bound by a send request, for which `to_binding` converts.
namespace verbatim::dropin {
namespace {

using region::EntryKind;

/// Checks what the call itself refuses for a type 1 binding; other errors show in its completion.
Result<void> check_bind(const ibv_mw& mw, const ibv_mw_bind& wanted) {
  const ibv_mw_bind_info& info = wanted.bind_info;
  constexpr unsigned kFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  if ((wanted.send_flags & ~kFlags) != 0) {
    return refuse(EINVAL, fmt::format("send_flags {:#x} make no sense", wanted.send_flags));
  }
  if (info.mr == nullptr && (info.addr != 0 || info.length != 0)) {
    return refuse(EINVAL, "bytes are named, but no memory region");
  }
  if (info.mr != nullptr && info.mr->pd->handle != mw.pd->handle) {
    return refuse(EPERM, "window and region are of different protection domains");
  }
  return {};
}

}  // namespace

region::WindowBinding to_binding(const ibv_mw& mw, std::uint32_t rkey,
                                 const ibv_mw_bind_info& info) {
  return {.window = MemoryKey{mw.rkey},
          .key = MemoryKey{rkey},
          .region = MemoryKey{info.mr != nullptr ? info.mr->lkey : 0},
          .address = info.addr,
          .length = info.length,
          .access = info.mw_access_flags};
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return refused_null("alloc_mw", {EINVAL, fmt::format("type {} is unknown", int{type})});
  }
  auto share = from(pd->context).usage().take(Resource::window);
  if (!share) return refused_null("alloc_mw", share.error());
  const auto key =
      from(pd->context)
          .adapter()
          .memory()
          .allocate_window(type == IBV_MW_TYPE_1 ? EntryKind::window_1 : EntryKind::window_2,
                           from(pd).number());
  if (!key) return refused_null("alloc_mw", key.error());
  auto* window = new MemoryWindow{.verbs = {.context = pd->context,
                                            .pd = pd,
                                            .rkey = raw(*key),
                                            .handle = raw(*key) >> 8,
                                            .type = type},
                                  .share = std::move(*share)};
  return &window->verbs;
}

int dealloc_mw(ibv_mw* mw) {
  const auto done = from(mw->context)
                        .adapter()
                        .memory()
                        .deallocate_window(MemoryKey{mw->rkey}, PdNumber{mw->pd->handle});
  if (!done) return refused("dealloc_mw", done.error());
  delete &from(mw);
  return 0;
}

/// Type 1 only: the inline function in the header checks the type.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* wanted) {
  if (auto valid = check_bind(*mw, *wanted); !valid) return refused("bind_mw", valid.error());
  adapter::QueuePair& queue_pair = *from(qp).queue_pair;
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  adapter::SendWork work;
  work.wr_id = wanted->wr_id;
  work.flags = wanted->send_flags & IBV_SEND_SIGNALED;
  work.request.operation = transport::Operation::bind_window;
  work.request.fence = (wanted->send_flags & IBV_SEND_FENCE) != 0;
  work.request.remote_key = MemoryKey{rkey};
  work.binding = to_binding(*mw, rkey, wanted->bind_info);
  if (const int code = queue_pair.post_send({&work, 1}); code != 0) {
    return refused("bind_mw", {code, fmt::format("QP {:#x} in {} takes no bind", qp->qp_num,
                                                 name_of(queue_pair.state()))});
  }
  mw->rkey = rkey;
  return 0;
}

}  // namespace verbatim::dropin
