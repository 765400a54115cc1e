#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <rdma/rdma_cma.h>

#include "ulp/engine/meeting.h"
#include "ulp/rdma/connection_id.h"
#include "ulp/rdma/service_place.h"

/// What `ConnectionManager` writes into and reads from the ids and events of rdma_cm.
namespace verbatim::ulp::rdma {

/// The context of an id: whose it is. A request's id comes with its listener's.
void* to_context(ListenerId listener);
void* to_context(ConnectionId connection);
std::variant<ListenerId, ConnectionId> from_context(const rdma_cm_id& id);

Meeting meeting_of(const rdma_cm_event& event, bool is_iwarp);
PrivateData private_data_of(const rdma_cm_event& event);
ReadDepths reads_of(const rdma_cm_event& event);

/// To the error state; nothing if there is no queue pair.
void stop_queue_pair(rdma_cm_id* id);

/// For messages: an address, or a service and GID.
std::string text_of(const ServicePlace& place);

}  // namespace verbatim::ulp::rdma
