// The calls of librdmacm.
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "ulp/rdma/fake/fake_adapter_for_test.h"

using namespace verbatim::ulp::rdma;

namespace {

FakeId& own(rdma_cm_id* id) { return static_cast<FakeId&>(*id); }

/// Returns true, with errno, if this call is refused.
bool is_refused(int of_thousand) {
  if (!FakeAdapter::get().happens(of_thousand)) return false;
  errno = EIO;
  return true;
}

/// ESTABLISHED, or what may come instead of it.
void answer(FakeId& id, bool is_active) {
  FakeAdapter& fake = FakeAdapter::get();
  if (!fake.happens(fake.faults.not_connected)) {
    id.coming.push_back(RDMA_CM_EVENT_ESTABLISHED);
    id.is_connected = true;
    return;
  }
  constexpr rdma_cm_event_type kOthers[] = {RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE,
                                            RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_DISCONNECTED};
  int which = 0;
  while (which < (is_active ? 2 : 3) && fake.happens(500)) ++which;
  id.coming.push_back(kOthers[which]);
}

void keep(const rdma_conn_param* parameters) {
  FakeAdapter& fake = FakeAdapter::get();
  fake.last_parameters = *parameters;
  fake.last_private_data.assign(static_cast<const char*>(parameters->private_data),
                                parameters->private_data_len);
}

}  // namespace

extern "C" {

ibv_context** rdma_get_devices(int* count) {
  *count = 1;
  auto** const list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
  list[0] = &FakeAdapter::get().context;
  FakeAdapter::get().note("list of devices", 1);
  return list;
}
void rdma_free_devices(ibv_context** list) {
  FakeAdapter::get().note("list of devices", -1);
  std::free(list);
}

rdma_event_channel* rdma_create_event_channel() {
  FakeAdapter::get().note("event channel", 1);
  return &FakeAdapter::get().channel;
}
void rdma_destroy_event_channel(rdma_event_channel*) {
  FakeAdapter::get().note("event channel", -1);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space) {
  auto* const made = new FakeId{};
  made->channel = channel;
  made->context = context;
  FakeAdapter::get().ids.push_back(made);
  FakeAdapter::get().note("id", 1);
  *id = made;
  return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
  FakeAdapter& fake = FakeAdapter::get();
  if (own(id).unacknowledged != 0) fake.violation("an id is destroyed in its event: it waits");
  if (id->qp != nullptr) fake.violation("an id is destroyed before its queue pair");
  fake.drop(own(id));
  fake.note("id", -1);
  delete &own(id);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr*) {
  id->verbs = &FakeAdapter::get().context;
  return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
  own(id).listens = true;
  return 0;
}
int rdma_set_option(rdma_cm_id*, int, int, void*, size_t) { return 0; }
__be16 rdma_get_src_port(rdma_cm_id*) { return 0; }

int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr*, int) {
  FakeAdapter& fake = FakeAdapter::get();
  if (is_refused(fake.faults.call_refused)) return -1;
  id->verbs = &fake.context;
  own(id).coming.push_back(fake.happens(fake.faults.not_connected) ? RDMA_CM_EVENT_ADDR_ERROR
                                                                   : RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  FakeAdapter& fake = FakeAdapter::get();
  if (is_refused(fake.faults.call_refused)) return -1;
  own(id).coming.push_back(fake.happens(fake.faults.not_connected) ? RDMA_CM_EVENT_ROUTE_ERROR
                                                                   : RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* wanted) {
  FakeAdapter& fake = FakeAdapter::get();
  if (is_refused(fake.faults.queue_pair_refused)) return -1;
  id->qp = fake.make_queue_pair(domain, *wanted);
  return id->qp == nullptr ? -1 : 0;
}
void rdma_destroy_qp(rdma_cm_id* id) {
  FakeAdapter::get().destroy(static_cast<FakeQueuePair*>(id->qp));
  id->qp = nullptr;
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (is_refused(FakeAdapter::get().faults.call_refused)) return -1;
  keep(parameters);
  answer(own(id), true);
  return 0;
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  if (is_refused(FakeAdapter::get().faults.call_refused)) return -1;
  keep(parameters);
  static_cast<FakeQueuePair&>(*id->qp).at = IBV_QPS_RTS;
  answer(own(id), false);
  return 0;
}
int rdma_reject(rdma_cm_id*, const void* data, uint8_t length) {
  FakeAdapter::get().last_private_data.assign(static_cast<const char*>(data), length);
  return 0;
}
int rdma_disconnect(rdma_cm_id* id) {
  FakeAdapter& fake = FakeAdapter::get();
  if (id->qp != nullptr) fake.to_error(static_cast<FakeQueuePair&>(*id->qp));
  if (is_refused(fake.faults.call_refused)) return -1;
  own(id).is_connected = false;
  if (!fake.happens(fake.faults.event_lost)) own(id).coming.push_back(RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}

int rdma_get_cm_event(rdma_event_channel*, rdma_cm_event** event) {
  FakeAdapter& fake = FakeAdapter::get();
  if (fake.events.empty()) show(fake.channel_fd, false);
  if (fake.events.empty()) return errno = EAGAIN, -1;
  *event = fake.events.front();
  fake.events.pop_front();
  ++own((*event)->id).unacknowledged;
  ibv_qp* const queue_pair = (*event)->id->qp;
  if ((*event)->event == RDMA_CM_EVENT_ESTABLISHED && queue_pair != nullptr) {
    auto& own_pair = static_cast<FakeQueuePair&>(*queue_pair);
    if (own_pair.at == IBV_QPS_INIT) own_pair.at = IBV_QPS_RTS;
  }
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  --own(event->id).unacknowledged;
  delete event;
  return 0;
}
const char* rdma_event_str(rdma_cm_event_type) { return "event"; }

}  // extern "C"
