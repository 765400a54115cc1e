#include <memory>
#include <utility>

#include <unistd.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Opening and closing the device.
namespace verbatim::dropin {
namespace {

void fill_in(Context& context, Device& device) {
  ibv_context& verbs = context.verbs.context;
  verbs.device = &device.verbs;
  verbs.cmd_fd = context.command_fd.get();
  verbs.async_fd = context.events.fd();
  verbs.num_comp_vectors = 1;
  verbs.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&verbs.mutex, nullptr);
  verbs.ops._compat_query_device = ibv_query_device;
  verbs.ops._compat_query_port = ibv_query_port;
  verbs.ops.poll_cq = poll_cq;
  verbs.ops.req_notify_cq = request_notification;
  verbs.ops.post_send = post_send;
  verbs.ops.post_recv = post_receive;
  verbs.ops.post_srq_recv = post_shared_receive;
  context.verbs.sz = sizeof(verbs_context);
  context.verbs.query_port = query_port;
  context.verbs.query_device_ex = query_device_ex;
  context.verbs.alloc_td = alloc_td;
  context.verbs.dealloc_td = dealloc_td;
  context.verbs.alloc_parent_domain = alloc_parent_domain;
  context.verbs.query_rt_values = query_rt_values;
  context.verbs.create_cq_ex = create_cq_ex;
  context.verbs.modify_qp_rate_limit = modify_qp_rate_limit;
  context.verbs.create_qp_ex = create_qp_ex;
  context.verbs.create_counters = create_counters;
  context.verbs.destroy_counters = destroy_counters;
  context.verbs.attach_counters_point_flow = attach_counters_point_flow;
  context.verbs.read_counters = read_counters;
  context.verbs.create_wq = create_wq;
  context.verbs.modify_wq = modify_wq;
  context.verbs.destroy_wq = destroy_wq;
  context.verbs.create_rwq_ind_table = create_rwq_ind_table;
  context.verbs.destroy_rwq_ind_table = destroy_rwq_ind_table;
  context.verbs.ibv_create_flow = create_flow;
  context.verbs.ibv_destroy_flow = destroy_flow;
  context.verbs.open_qp = open_qp;
  context.verbs.create_srq_ex = create_srq_ex;
  context.verbs.get_srq_num = get_srq_num;
  context.verbs.post_srq_ops = post_srq_ops;
  context.verbs.open_xrcd = open_xrcd;
  context.verbs.close_xrcd = close_xrcd;
  verbs.ops.alloc_mw = alloc_mw;
  verbs.ops.dealloc_mw = dealloc_mw;
  verbs.ops.bind_mw = bind_mw;
  context.verbs.alloc_null_mr = alloc_null_mr;
  context.verbs.advise_mr = advise_mr;
  context.verbs.alloc_dm = alloc_dm;
  context.verbs.free_dm = free_dm;
  context.verbs.reg_dm_mr = reg_dm_mr;
  refuse_the_rest(context.verbs);
}

}  // namespace

Result<Context*> open_context(Device& device, UniqueFd command_fd, Exporter exporter) {
  auto joined = program();
  if (!joined) return std::unexpected(joined.error());
  auto semaphore = adapter::Semaphore::create();
  if (!semaphore) return std::unexpected(semaphore.error());
  std::unique_ptr<Context> context(
      new Context{.verbs = {},
                  .program = *joined,
                  .device = &device,
                  .command_fd = std::move(command_fd),
                  .exporter = exporter,
                  .events = adapter::AsyncEvents(std::move(*semaphore)),
                  .live_objects_lock = {},
                  .live_objects = {},
                  .queue_pairs = {},
                  .shared_receives = {},
                  .xrc_domains = {}});
  fill_in(*context, device);
  context->adapter().port_events().add_listener(context->events);
  return context.release();
}

}  // namespace verbatim::dropin

using namespace verbatim::dropin;

ibv_context* ibv_open_device(ibv_device* device) {
  Device& own = from(device);
  const auto joined = program();
  if (!joined) return refused_null("open_device", joined.error());
  const verbatim::adapter::Adapter& adapter = *(*joined)->adapter;
  auto command_fd = make_command_file(adapter);
  if (!command_fd) return refused_null("open_device", command_fd.error());
  auto context =
      open_context(own, std::move(*command_fd), {getpid(), adapter.membership().first_qpn});
  if (!context) return refused_null("open_device", context.error());
  return &(*context)->verbs.context;
}

/// Objects that the program has not destroyed are treated as by the kernel when a device is closed:
/// queue pairs and shared receive queues stop, because other contexts of the program may reach them
/// (XRC). The structures stay, because the program may still have pointers to them.
int ibv_close_device(ibv_context* context) {
  Context& own = from(context);
  own.adapter().port_events().remove_listener(own.events);
  for (QueuePair* const left : own.queue_pairs) {
    own.adapter().release_queue_pair(left->queue_pair, left);
  }
  for (SharedReceiveQueue* const left : own.shared_receives) {
    // Cannot be refused as in use: its queue pairs are gone.
    static_cast<void>(own.adapter().destroy_shared_receive_queue(left->queue));
  }
  for (const XrcDomain* const left : own.xrc_domains) {
    static_cast<void>(own.adapter().xrc_domains().close(left->number));  // XRC domains likewise.
  }
  pthread_mutex_destroy(&context->mutex);
  delete &own;
  return 0;
}
