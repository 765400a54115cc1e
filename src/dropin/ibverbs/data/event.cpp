#include <cerrno>

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Asynchronous events.
namespace verbatim::dropin {
namespace {

using adapter::AsyncEventType;
static_assert(int{raw(AsyncEventType::cq_error)} == IBV_EVENT_CQ_ERR);
static_assert(int{raw(AsyncEventType::qp_fatal)} == IBV_EVENT_QP_FATAL);
static_assert(int{raw(AsyncEventType::qp_request_error)} == IBV_EVENT_QP_REQ_ERR);
static_assert(int{raw(AsyncEventType::qp_access_error)} == IBV_EVENT_QP_ACCESS_ERR);
static_assert(int{raw(AsyncEventType::communication_established)} == IBV_EVENT_COMM_EST);
static_assert(int{raw(AsyncEventType::sq_drained)} == IBV_EVENT_SQ_DRAINED);
static_assert(int{raw(AsyncEventType::path_migrated)} == IBV_EVENT_PATH_MIG);
static_assert(int{raw(AsyncEventType::path_migration_error)} == IBV_EVENT_PATH_MIG_ERR);
static_assert(int{raw(AsyncEventType::device_fatal)} == IBV_EVENT_DEVICE_FATAL);
static_assert(int{raw(AsyncEventType::port_active)} == IBV_EVENT_PORT_ACTIVE);
static_assert(int{raw(AsyncEventType::port_error)} == IBV_EVENT_PORT_ERR);
static_assert(int{raw(AsyncEventType::lid_change)} == IBV_EVENT_LID_CHANGE);
static_assert(int{raw(AsyncEventType::pkey_change)} == IBV_EVENT_PKEY_CHANGE);
static_assert(int{raw(AsyncEventType::client_reregister)} == IBV_EVENT_CLIENT_REREGISTER);
static_assert(int{raw(AsyncEventType::sm_change)} == IBV_EVENT_SM_CHANGE);
static_assert(int{raw(AsyncEventType::srq_limit_reached)} == IBV_EVENT_SRQ_LIMIT_REACHED);
static_assert(int{raw(AsyncEventType::qp_last_request_reached)} == IBV_EVENT_QP_LAST_WQE_REACHED);
static_assert(int{raw(AsyncEventType::gid_change)} == IBV_EVENT_GID_CHANGE);
static_assert(int{raw(AsyncEventType::wq_fatal)} == IBV_EVENT_WQ_FATAL);
// IBV_EVENT_DEVICE_SPEED_CHANGE of rdma-core 61 and later.
static_assert(int{raw(AsyncEventType::device_speed_change)} == IBV_EVENT_WQ_FATAL + 1);

/// Fills `out` and counts the delivery. Returns false if the event's object is destroyed. Requires
/// Context::live_objects_lock.
bool deliver(Context& context, const adapter::AsyncEvent& event, ibv_async_event& out) {
  out.event_type = static_cast<ibv_event_type>(raw(event.type));
  if (event.object == nullptr) {
    out.element.port_num = event.port;
    return true;
  }
  if (!context.live_objects.contains(event.object)) return false;
  if (event.type == AsyncEventType::cq_error) {
    auto* cq = static_cast<CompletionQueue*>(event.object);
    ++cq->events_delivered;
    out.element.cq = to_verbs(*cq);
  } else if (event.type == AsyncEventType::srq_limit_reached) {
    auto* srq = static_cast<SharedReceiveQueue*>(event.object);
    ++srq->events_delivered;
    out.element.srq = &srq->verbs;
  } else if (event.type == AsyncEventType::wq_fatal) {
    auto* wq = static_cast<WorkQueue*>(event.object);
    ++wq->events_delivered;
    out.element.wq = &wq->verbs;
  } else {
    auto* qp = static_cast<QueuePair*>(event.object);
    ++qp->events_delivered;
    out.element.qp = &qp->verbs.qp_base;
  }
  return true;
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& condition, std::uint32_t& completed) {
  pthread_mutex_lock(&mutex);
  ++completed;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

void drop_async_events(Context& context, const void* object, const std::uint32_t& delivered,
                       const std::uint32_t& completed, pthread_mutex_t& mutex,
                       pthread_cond_t& condition) {
  {
    const std::lock_guard guard(context.live_objects_lock);
    context.live_objects.erase(object);  // No further delivery is counted from here on.
  }
  context.events.remove_if(
      [object](const adapter::AsyncEvent& event) { return event.object == object; });
  pthread_mutex_lock(&mutex);
  while (completed != delivered) pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Context& own = from(context);
  for (;;) {
    const auto next = own.events.wait();
    if (!next) return refused_minus_one("get_async_event", next.error());
    const std::lock_guard guard(own.live_objects_lock);
    if (deliver(own, *next, *event)) return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq* cq = event->element.cq;
      return acknowledge(cq->mutex, cq->cond, cq->async_events_completed);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp* qp = event->element.qp;
      return acknowledge(qp->mutex, qp->cond, qp->events_completed);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq* srq = event->element.srq;
      return acknowledge(srq->mutex, srq->cond, srq->events_completed);
    }
    case IBV_EVENT_WQ_FATAL: {
      ibv_wq* wq = event->element.wq;
      return acknowledge(wq->mutex, wq->cond, wq->events_completed);
    }
    default:
      return;  // Events of the device and its port belong to no object.
  }
}
