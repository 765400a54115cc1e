#include <cstring>
#include <vector>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Channels and their events. As in rdma-core, the thread that takes an event moves the queue pair:
/// when the program sees ESTABLISHED, its queue pair is ready.
namespace verbatim::rdmacm {
namespace {

/// Prepares the passive side's new id like its listener as that is now: context, device,
/// synchronous or not.
Result<void> on_connect_request(Manager& manager, Event& event) {
  Id& listener = *event.subject;
  Id& id = from(event.verbs.id);
  id.verbs.context = listener.verbs.context;
  if (auto attached = manager.attach_device(id); !attached) return attached;
  if (listener.is_synchronous) {
    if (rdma_migrate_id(&id.verbs, nullptr) != 0) return refuse(errno, "no channel for a new id");
  }
  const std::lock_guard guard(manager.lock);
  manager.note_taken(id);
  show_addresses(id);
  return show_path(id);
}

/// The active side's answer: makes the queue pair ready, then tells the peer.
void on_connect_response(Manager& manager, Event& event) {
  Id& id = from(event.verbs.id);
  const std::lock_guard guard(manager.lock);
  if (id.verbs.qp == nullptr) return;  // The program calls rdma_establish.
  auto established = make_ready(id);
  if (established) established = manager.connections().establish(id.connection.number);
  if (established) {
    id.state = IdState::connected;
    event.verbs.event = RDMA_CM_EVENT_ESTABLISHED;
    return;
  }
  static_cast<void>(stop_queue_pair(id));
  id.connect_failed = true;
  event.verbs.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.verbs.status = -dropin::refused("rdma_get_cm_event", established.error());
}

void on_rejected(Manager& manager, Id& id) {
  const std::lock_guard guard(manager.lock);  // The queue pair is not destroyed meanwhile.
  static_cast<void>(stop_queue_pair(id));
}

void on_multicast_join(Manager& manager, Event& event) {
  const Multicast& multicast = *event.multicast;
  const std::lock_guard guard(manager.lock);
  ibv_qp* const qp = event.verbs.id->qp;
  if (qp == nullptr || multicast.join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER) return;
  if (const int error = ibv_attach_mcast(qp, &multicast.group, multicast.lid)) {
    event.verbs.event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event.verbs.status = -error;
  }
}

/// Returns false if the program does not get the event.
bool prepare(Manager& manager, Event& event) {
  switch (event.verbs.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      if (auto done = on_connect_request(manager, event); !done) {
        dropin::refused("rdma_get_cm_event", done.error());
        event.subject->events.acknowledge();
        rdma_destroy_id(event.verbs.id);
        return false;
      }
      return true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      on_connect_response(manager, event);
      return true;
    case RDMA_CM_EVENT_REJECTED:
      if (event.subject->connect_failed) break;
      on_rejected(manager, *event.subject);
      return true;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (event.subject->connect_failed) break;
      return true;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      on_multicast_join(manager, event);
      return true;
    default:
      return true;
  }
  event.subject->events.acknowledge();
  return false;
}

Result<Event*> next_event(Channel& channel) {
  const auto manager = Manager::get();
  if (!manager) return std::unexpected(manager.error());
  for (;;) {
    const auto event = channel.events.wait([](Event* taken) {
      taken->subject->events.deliver();
      if (taken->multicast != nullptr) taken->multicast->events.deliver();
    });
    if (!event) return event;
    if (prepare(**manager, **event)) return event;
    delete *event;
  }
}

}  // namespace

Result<std::unique_ptr<Channel>> make_channel() {
  if (const auto manager = Manager::get(); !manager) return std::unexpected(manager.error());
  auto semaphore = adapter::Semaphore::create();
  if (!semaphore) return std::unexpected(semaphore.error());
  const int fd = semaphore->fd();
  return std::unique_ptr<Channel>(new Channel{
      .verbs = {.fd = fd}, .events = adapter::EventQueue<Event*>(std::move(*semaphore))});
}

int complete(Id& id) {
  if (!id.is_synchronous) return 0;
  if (rdma_cm_event* const last = std::exchange(id.verbs.event, nullptr)) rdma_ack_cm_event(last);
  if (rdma_get_cm_event(id.verbs.channel, &id.verbs.event) != 0) return -1;
  const int status = id.verbs.event->status;
  if (status == 0) return 0;
  const bool rejected = id.verbs.event->event == RDMA_CM_EVENT_REJECTED;
  errno = rejected ? ECONNREFUSED : std::abs(status);
  return -1;
}

}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

rdma_event_channel* rdma_create_event_channel() {
  auto channel = make_channel();
  if (!channel) return dropin::refused_null("rdma_create_event_channel", channel.error());
  return &channel->release()->verbs;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  Channel& own = from(channel);
  // Frees the events of ids that the program has not destroyed.
  own.events.remove_if([](Event* event) {
    delete event;
    return true;
  });
  delete &own;
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) {
    return answer("rdma_get_cm_event", refuse(EINVAL, "no channel, or nowhere to put the event"));
  }
  const auto next = next_event(from(channel));
  if (!next) return dropin::refused_minus_one("rdma_get_cm_event", next.error());
  *event = &(*next)->verbs;
  return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return answer("rdma_ack_cm_event", refuse(EINVAL, "no event"));
  Event& own = from(event);
  if (own.multicast != nullptr) own.multicast->events.acknowledge();
  own.subject->events.acknowledge();
  delete &own;
  return 0;
}

int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, std::uint64_t arg) {
  if (event != kUserEvent) {
    return answer("rdma_write_cm_event", refuse(EINVAL, "only RDMA_CM_EVENT_USER can be written"));
  }
  auto written = make_event(from(id), event, status);
  std::memcpy(&written->verbs.param, &arg, sizeof arg);
  Manager& cm = manager();
  const std::lock_guard guard(cm.lock);
  cm.push(from(id), std::move(written));
  return 0;
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  Id& own = from(id);
  if (own.is_synchronous && channel == nullptr) {
    return answer("rdma_migrate_id", refuse(EINVAL, "the id is synchronous already"));
  }
  std::unique_ptr<Channel> made;
  if (channel == nullptr) {
    auto fresh = make_channel();
    if (!fresh) return dropin::refused_minus_one("rdma_migrate_id", fresh.error());
    made = std::move(*fresh);
    channel = &made->verbs;
  }
  if (own.is_synchronous) {
    if (rdma_cm_event* const last = std::exchange(id->event, nullptr)) rdma_ack_cm_event(last);
  }
  Manager& cm = manager();
  rdma_event_channel* const before = id->channel;
  {
    const std::lock_guard guard(cm.lock);  // No event is added meanwhile.
    std::vector<Event*> moved;
    from(before).events.remove_if([&](Event* event) {
      if (event->subject != &own) return false;
      moved.push_back(event);
      return true;
    });
    id->channel = channel;
    for (Event* event : moved) {
      if (event->verbs.event == RDMA_CM_EVENT_CONNECT_REQUEST) event->verbs.id->channel = channel;
      from(channel).events.push(event);
    }
  }
  // So that the program handles none of them after this call.
  own.events.wait_for_acknowledgements();
  if (own.is_synchronous) rdma_destroy_event_channel(before);
  own.is_synchronous = made != nullptr;
  if (made) static_cast<void>(made.release());
  return 0;
}
