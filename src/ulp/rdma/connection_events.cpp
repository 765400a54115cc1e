// What rdma_cm tells, as events of connections.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "ulp/rdma/connection_manager.h"
#include "ulp/rdma/rdma_cm_id.h"

namespace verbatim::ulp::rdma {

std::optional<ConnectionEvent> ConnectionManager::take(TimeNs now) {
  rdma_cm_event* event = nullptr;
  while (events_.empty() && rdma_get_cm_event(channel_, &event) == 0) {
    on_event(*event, now);
    rdma_ack_cm_event(event);
    for (rdma_cm_id* const id : refused_) rdma_destroy_id(id);
    refused_.clear();
  }
  if (events_.empty()) return std::nullopt;
  ConnectionEvent first = std::move(events_.front());
  events_.pop_front();
  return first;
}

void ConnectionManager::on_event(const rdma_cm_event& event, TimeNs now) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event, now);
  const auto whose = from_context(*event.id);
  const auto* const connection = std::get_if<ConnectionId>(&whose);
  Entry* const entry = connection == nullptr ? nullptr : find(*connection);
  if (entry == nullptr || entry->state == State::ended) return;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return on_step(*entry, event);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(*entry, event);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return on_over(*entry, event);
    default:
      return;
  }
}

void ConnectionManager::on_request(const rdma_cm_event& event, TimeNs now) {
  const auto whose = from_context(*event.listen_id);
  const bool is_here = event.id->verbs == device_.context();
  Entry* const entry = is_here ? add(event.id, State::requested) : nullptr;
  if (entry == nullptr) {
    rdma_reject(event.id, nullptr, 0);
    refused_.push_back(event.id);
    return;
  }
  const Meeting meeting = meeting_of(event, device_.limits().is_iwarp);
  entry->reads = meeting.reads;
  set_deadline(*entry, now + options_.answer_patience);
  events_.push_back(Requested{std::get<ListenerId>(whose), id_of(*entry), meeting});
}

void ConnectionManager::on_step(Entry& entry, const rdma_cm_event& event) {
  Result<void> went;
  if (event.event == RDMA_CM_EVENT_ADDR_RESOLVED && entry.state == State::resolving) {
    entry.state = State::routing;
    if (entry.id->verbs != device_.context()) {
      went =
          refuse(EXDEV, fmt::format("the way leads over {}, not {}",
                                    ibv_get_device_name(entry.id->verbs->device), device_.name()));
    } else if (rdma_resolve_route(entry.id, kRouteMs) != 0) {
      went = refuse_errno("rdma_resolve_route");
    }
  } else if (event.event == RDMA_CM_EVENT_ROUTE_RESOLVED && entry.state == State::routing) {
    entry.state = State::connecting;
    went = request(entry);
  }
  if (!went) end(entry, Unreachable{id_of(entry), went.error().text});
}

/// The route is known: makes the queue pair and sends the request.
Result<void> ConnectionManager::request(Entry& entry) {
  const auto options = std::exchange(entry.options, nullptr);
  const Limits& has = device_.limits();
  entry.sizes = granted(options->sizes);
  entry.reads = {.initiator = std::min(options->reads.initiator, has.reads_as_initiator),
                 .responder = std::min(options->reads.responder, has.reads_as_responder)};
  if (auto made = make_queue_pair(entry); !made) return made;
  rdma_conn_param parameters{
      .private_data = options->private_data.begin(),
      .private_data_len = static_cast<std::uint8_t>(options->private_data.size()),
      .responder_resources = entry.reads.responder,
      .initiator_depth = entry.reads.initiator,
      .flow_control = 1,
      .retry_count = options->retry_count,
      .rnr_retry_count = options->rnr_retry_count};
  if (rdma_connect(entry.id, &parameters) != 0) return refuse_errno("rdma_connect");
  return {};
}

void ConnectionManager::on_established(Entry& entry, const rdma_cm_event& event) {
  if (entry.state != State::connecting && entry.state != State::accepting) return;
  entry.state = State::established;
  Established established{.connection = id_of(entry), .private_data = private_data_of(event)};
  if (entry.is_active) {
    const ReadDepths peer = reads_of(event);
    entry.reads = {.initiator = std::min(entry.reads.initiator, peer.initiator),
                   .responder = std::min(entry.reads.responder, peer.responder)};
  }
  established.reads = entry.reads;
  events_.emplace_back(std::move(established));
}

void ConnectionManager::on_over(Entry& entry, const rdma_cm_event& event) {
  const ConnectionId connection = id_of(entry);
  const bool was_connected = entry.state == State::accepting || entry.state == State::established;
  const bool begins = entry.is_active && !was_connected && entry.state != State::ending;
  if (event.event == RDMA_CM_EVENT_DISCONNECTED && was_connected) {
    // Answers the peer, and moves the queue pair.
    if (rdma_disconnect(entry.id) != 0) stop_queue_pair(entry.id);
  } else {
    stop_queue_pair(entry.id);
  }
  if (begins && event.event == RDMA_CM_EVENT_REJECTED)
    return end(entry, Rejected{connection, event.status, private_data_of(event)});
  std::string words;
  if (event.event != RDMA_CM_EVENT_DISCONNECTED || begins) words = rdma_event_str(event.event);
  if (event.status != 0) words += fmt::format(": {}", std::strerror(std::abs(event.status)));
  if (!begins) return end(entry, Disconnected{connection, std::move(words)});
  end(entry, Unreachable{connection, std::move(words)});
}

void ConnectionManager::end(Entry& entry, ConnectionEvent event) {
  entry.state = State::ended;
  entry.deadline = kNever;
  entry.options.reset();
  events_.push_back(std::move(event));
}

void ConnectionManager::set_deadline(Entry& entry, TimeNs deadline) {
  entry.deadline = deadline;
  first_deadline_ = std::min(first_deadline_, deadline);
}

TimeNs ConnectionManager::deadline() const { return events_.empty() ? first_deadline_ : 0; }

void ConnectionManager::on_time(TimeNs now) {
  if (now < first_deadline_) return;
  first_deadline_ = kNever;
  for (Entry& entry : entries_) {
    if (entry.state == State::free || entry.deadline == kNever) continue;
    if (entry.deadline > now) {
      first_deadline_ = std::min(first_deadline_, entry.deadline);
    } else if (entry.state == State::requested) {
      reject(id_of(entry), {});
    } else {
      stop_queue_pair(entry.id);
      end(entry, Disconnected{id_of(entry), "the peer does not answer the end"});
    }
  }
}

void ConnectionManager::end_all() {
  for (Entry& entry : entries_) {
    if (entry.state == State::free || entry.state == State::ended) continue;
    stop_queue_pair(entry.id);
    end(entry, Disconnected{id_of(entry), "the adapter is gone"});
  }
}

}  // namespace verbatim::ulp::rdma
