#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <rdma/rdma_cma.h>

#include "api/party.h"
#include "api/shared_receives.h"

namespace verbatim::inline v1::detail {

struct DestroyId {
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;

struct DestroyChannel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using Channel = std::unique_ptr<rdma_event_channel, DestroyChannel>;

/// A connected queue pair, and the means of its connection.
struct Connection {
  Connection(const ProtectionDomain& domain, const QueuePairOptions& options)
      : party(domain, options) {}
  ~Connection() { end(); }

  /// Ends the connection; outstanding requests fail. Later calls do nothing.
  void end();
  /// The connection is established: from now on, a thread that waits for its requests also sees its
  /// end.
  void begin();
  /// Takes the events of rdma_cm. If the peer has disconnected, this side ends the connection, too:
  /// otherwise the receives of the queue pair would stay outstanding.
  void take_events();

  Channel channel;  // Of `id`, if rdma_cm connected it.
  Id id;
  std::vector<std::byte> peer_data;
  std::uint32_t peer_number = 0;
  Party party;

 private:
  Queue& where_it_receives() { return party.shared ? *party.shared->queue : *party.queue; }
  bool is_established_ = false;  // By rdma_cm.
};

}  // namespace verbatim::inline v1::detail

namespace verbatim::inline v1 {

/// Creates queue pairs of connections.
class ConnectionMaker {
 public:
  static QueuePair make(std::unique_ptr<detail::Connection> connection) {
    return QueuePair(std::move(connection));
  }
  static CompletionQueue queue(std::shared_ptr<detail::Queue> queue) {
    return CompletionQueue(std::move(queue));
  }
};

}  // namespace verbatim::inline v1
