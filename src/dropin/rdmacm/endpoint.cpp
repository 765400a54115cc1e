#include "dropin/rdmacm/calls.h"

/// Endpoints: one call creates an id with its addresses and queue pair; always synchronous.
namespace verbatim::rdmacm {
namespace {

int make_passive(Id& id, const rdma_addrinfo& where, ibv_pd* pd,
                 const ibv_qp_init_attr* attributes) {
  if (rdma_bind_addr(&id.verbs, where.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.verbs.pd = pd;
  if (attributes == nullptr) return 0;
  id.queue_pair_attributes = std::make_unique<ibv_qp_init_attr>(*attributes);
  id.queue_pair_attributes->qp_type = static_cast<ibv_qp_type>(where.ai_qp_type);
  return 0;
}

int make_active(Id& id, const rdma_addrinfo& where, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  constexpr int kTimeoutMs = 2000;
  rdma_cm_id* const verbs = &id.verbs;
  if (rdma_resolve_addr(verbs, where.ai_src_addr, where.ai_dst_addr, kTimeoutMs) != 0) return -1;
  if (where.ai_route_len != 0) {
    const int set = rdma_set_option(verbs, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, where.ai_route,
                                    where.ai_route_len);
    if (set != 0 || complete(id) != 0) return -1;
  } else if (rdma_resolve_route(verbs, kTimeoutMs) != 0) {
    return -1;
  }
  if (attributes != nullptr) {
    attributes->qp_type = static_cast<ibv_qp_type>(where.ai_qp_type);
    if (rdma_create_qp(verbs, pd, attributes) != 0) return -1;
  }
  if (where.ai_connect_len != 0) {
    id.connect_data.assign(static_cast<const char*>(where.ai_connect), where.ai_connect_len);
  }
  return 0;
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd,
                   ibv_qp_init_attr* qp_init_attr) {
  rdma_cm_id* made = nullptr;
  const auto space = static_cast<rdma_port_space>(res->ai_port_space);
  if (rdma_create_id(nullptr, &made, nullptr, space) != 0) return -1;
  made->qp_type = static_cast<ibv_qp_type>(res->ai_qp_type);
  const int result = (res->ai_flags & RAI_PASSIVE) != 0
                         ? make_passive(from(made), *res, pd, qp_init_attr)
                         : make_active(from(made), *res, pd, qp_init_attr);
  if (result != 0) {
    const int error = errno;
    rdma_destroy_ep(made);
    errno = error;
    return -1;
  }
  *id = made;
  return 0;
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
  Id& own = from(listen);
  if (!own.is_synchronous) {
    return answer("rdma_get_request", refuse(EINVAL, "the listener is not synchronous"));
  }
  if (rdma_cm_event* const last = std::exchange(listen->event, nullptr)) rdma_ack_cm_event(last);
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listen->channel, &event) != 0) return -1;
  const auto keep = [&](int error) {
    listen->event = event;
    errno = error;
    return -1;
  };
  if (event->event == RDMA_CM_EVENT_REJECTED) return keep(ECONNREFUSED);
  if (event->status != 0) return keep(std::abs(event->status));
  if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) return keep(EINVAL);
  if (own.queue_pair_attributes) {
    ibv_qp_init_attr attributes = *own.queue_pair_attributes;
    if (rdma_create_qp(event->id, listen->pd, &attributes) != 0) return keep(errno);
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}
