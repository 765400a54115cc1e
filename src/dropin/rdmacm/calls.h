#pragma once

#include <cerrno>

#include "dropin/ibverbs/refusal.h"
#include "dropin/rdmacm/manager.h"

/// Helpers of the entry points.
namespace verbatim::rdmacm {

/// A refusal of libibverbs.so.1, which has logged it.
inline std::unexpected<Error> refused_below(int error) { return refuse(error, ""); }

/// Returns 0, or -1 with errno set and the refusal logged under the call's name.
inline int answer(const char* call, const Result<void>& result) {
  if (result) return 0;
  if (!result.error().text.empty()) return dropin::refused_minus_one(call, result.error());
  errno = result.error().code;
  return -1;
}

/// Requires that the manager exists, as it does for every id.
inline Manager& manager() { return **Manager::get(); }

/// Synchronous ids: waits for the event that completes the call, stores it in `id->event` and
/// returns its status. Otherwise returns 0 at once.
int complete(Id& id);

/// Change the state of the id's queue pair, if it has one.
Result<void> make_ready(Id& id);  // To RTR and RTS, with the connection's attributes.
Result<void> stop_queue_pair(Id& id);
/// Returns the attributes for `state` from the connection, and their mask.
Result<int> attributes_for(Id& id, ibv_qp_state state, ibv_qp_attr& attributes);

/// The service that the id names, by a port: its own as a listener, its peer's as a client.
connect::ServiceId service_of(const Id& id, std::uint16_t port);

/// Frees the id. Requires that no other reference to it is left.
void forget(Id& id);

/// Implementations that several entry points use.
Result<void> bind_to(Id& id, const sockaddr* address);
Result<std::unique_ptr<Channel>> make_channel();

}  // namespace verbatim::rdmacm
