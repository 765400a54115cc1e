#pragma once

#include <cerrno>

#include "dropin/ibverbs/refusal.h"
#include "dropin/rdmacm/manager.h"

/// What the entry points share.
namespace verbatim::rdmacm {

/// What libibverbs.so.1 has refused, in words of its own.
inline std::unexpected<Error> refused_below(int error) { return refuse(error, ""); }

/// 0, or -1 with errno set and the refusal logged under the call's name.
inline int answer(const char* call, const Result<void>& result) {
  if (result) return 0;
  if (!result.error().text.empty()) return dropin::refused_minus_one(call, result.error());
  errno = result.error().code;
  return -1;
}

/// Calls on an id exist only where the manager does.
inline Manager& manager() { return **Manager::get(); }

/// A synchronous id: waits for the event that ends what the call began, leaves it in `id->event`,
/// and makes its status the call's result. Else 0 at once.
int complete(Id& id);

/// Moves the queue pair of the id, where it has one.
Result<void> make_ready(Id& id);  // To RTR and RTS, as the connection says.
Result<void> stop_queue_pair(Id& id);
/// The attributes for `state` as the connection says, and their mask.
Result<int> attributes_for(Id& id, ibv_qp_state state, ibv_qp_attr& attributes);

/// Frees the id: nobody else knows it any more.
void forget(Id& id);

/// The calls behind entry points that others need.
Result<void> bind_to(Id& id, const sockaddr* address);
Result<std::unique_ptr<Channel>> make_channel();

}  // namespace verbatim::rdmacm
