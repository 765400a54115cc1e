#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <rdma/rdma_cma.h>

#include "api/party.h"
#include "api/shared_receives.h"

namespace verbatim::detail {

struct DestroyId {
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;

struct DestroyChannel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using Channel = std::unique_ptr<rdma_event_channel, DestroyChannel>;

/// A connected queue pair, and what connected it.
struct Connection {
  Connection(const ProtectionDomain& domain, const QueuePairOptions& options)
      : party(domain, options) {}
  ~Connection() { end(); }

  /// Ends the connection; requests under way fail. Again: nothing.
  void end();
  /// It is established: from now on, who waits for its requests learns of its end.
  void begin();
  /// Takes the events of rdma_cm. If the peer has ended the connection, so does this side: verbs
  /// leave the queue pair as it is, with receives that nothing will come to.
  void take_events();

  Channel channel;  // Of `id`, where rdma_cm connected it.
  Id id;
  std::vector<std::byte> peer_data;
  std::uint32_t peer_number = 0;
  Party party;

 private:
  Queue& where_it_receives() { return party.shared ? *party.shared->queue : *party.queue; }
  bool is_established_ = false;  // By rdma_cm.
};

}  // namespace verbatim::detail

namespace verbatim {

/// Makes queue pairs of connections.
class ConnectionMaker {
 public:
  static QueuePair make(std::unique_ptr<detail::Connection> connection) {
    return QueuePair(std::move(connection));
  }
  static CompletionQueue queue(std::shared_ptr<detail::Queue> queue) {
    return CompletionQueue(std::move(queue));
  }
};

}  // namespace verbatim
