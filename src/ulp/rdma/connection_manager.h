#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <rdma/rdma_cma.h>

#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "ulp/engine/meeting.h"
#include "ulp/rdma/completions.h"
#include "ulp/rdma/connection_id.h"
#include "ulp/rdma/device.h"
#include "ulp/rdma/service_place.h"

namespace verbatim::ulp::rdma {

struct ConnectOptions {
  SocketAddress source;  // Empty: by the route.
  /// READs that this side has in flight, and that the peer may have: targets read, so initiators
  /// set `responder`.
  ReadDepths reads{.initiator = 0, .responder = 16};
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  QueueSizes sizes;
  PrivateData private_data;
};

/// What happens to connections. Each that was `Requested`, or that `connect` has returned, ends
/// with one event of the last three, exactly, and then with `release`.
struct Requested {
  ListenerId listener;
  ConnectionId connection;
  Meeting meeting;
};
struct Established {
  ConnectionId connection;
  ReadDepths reads;  // The least of both sides' and of the device's.
  PrivateData private_data;
};
struct Rejected {
  ConnectionId connection;
  int reason = 0;  // IBA 12.6.7.2; 28: the peer's protocol said no. Over iWARP an errno value.
  PrivateData private_data;
};
struct Unreachable {
  ConnectionId connection;
  std::string words;
};
struct Disconnected {
  ConnectionId connection;
  std::string words;  // Why, unless a side has ended it in order.
};
using ConnectionEvent = std::variant<Requested, Established, Rejected, Unreachable, Disconnected>;
ConnectionId connection_of(const ConnectionEvent& event);

/// All connections of a process, on one event channel: two descriptors, however many peers. No call
/// waits.
class ConnectionManager {
 public:
  struct Options {
    std::uint32_t connections_max = 4096;
    TimeNs answer_patience = 30 * kSecond;  // For `accept`; then the peer is rejected.
    TimeNs end_patience = 15 * kSecond;     // For the peer's answer to `disconnect`.
  };
  static Result<std::unique_ptr<ConnectionManager>> create(Device& device, Completions& completions,
                                                           ibv_srq* shared_receives,
                                                           const Options& options);
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  Result<ListenerId> listen(const ServicePlace& where, int backlog);
  void unlisten(ListenerId listener);
  /// Of a listener that has left the choice to rdma_cm.
  std::uint16_t port_of(ListenerId listener) const;

  Result<ConnectionId> connect(const ServicePlace& to, const ConnectOptions& options);
  /// Either answers `Requested`, within `answer_patience`. With an error the peer is rejected.
  Result<void> accept(ConnectionId connection, const QueueSizes& sizes, ByteSpan private_data);
  void reject(ConnectionId connection, ByteSpan private_data);

  /// In any state. The queue pair goes to the error state, and its work comes back as flushed.
  void disconnect(ConnectionId connection, TimeNs now);
  /// After the last event and the last completion: queue pair and id are destroyed.
  void release(ConnectionId connection);

  int descriptor() const { return channel_->fd; }
  std::optional<ConnectionEvent> take(TimeNs now);
  TimeNs deadline() const;
  void on_time(TimeNs now);
  /// The adapter is gone: every connection ends.
  void end_all();

  /// Null until `accept` or `Established`.
  ibv_qp* queue_pair(ConnectionId connection) const;
  /// As granted: the least of the wishes and of what the device has.
  const QueueSizes& sizes(ConnectionId connection) const;
  std::uint32_t count() const { return count_; }

 private:
  static constexpr int kRouteMs = 2000;
  enum class State : std::uint8_t {
    free,
    resolving,    // The peer's address.
    routing,      // The way to it.
    connecting,   // REQ is sent.
    requested,    // REQ has come.
    accepting,    // REP is sent.
    established,  //
    ending,       // DREQ is sent.
    ended,        // The last event is delivered, or waits in `events_`.
  };
  struct Entry {
    std::uint32_t number = 0;  // Its index.
    std::uint8_t uses = 0;     // Of the number, before.
    State state = State::free;
    rdma_cm_id* id = nullptr;
    bool is_active = false;
    ReadDepths reads{};  // requested: the peer's; later what both have agreed on.
    TimeNs deadline = kNever;
    std::uint32_t reserved = 0;  // Completions.
    QueueSizes sizes;
    std::unique_ptr<ConnectOptions> options;  // Until the request is sent.
  };
  ConnectionManager(Device& device, Completions& completions, ibv_srq* shared_receives,
                    const Options& options);

  Entry* find(ConnectionId connection);
  const Entry* find(ConnectionId connection) const;
  static ConnectionId id_of(const Entry& entry) { return connection_id(entry.number, entry.uses); }
  Entry* add(rdma_cm_id* id, State state);
  Result<void> make_queue_pair(Entry& entry);
  QueueSizes granted(const QueueSizes& wanted) const;
  Result<void> begin(Entry& entry, const ServicePlace& to);
  Result<void> request(Entry& entry);
  void set_deadline(Entry& entry, TimeNs deadline);
  void end(Entry& entry, ConnectionEvent event);
  void release(Entry& entry);

  void on_event(const rdma_cm_event& event, TimeNs now);
  void on_request(const rdma_cm_event& event, TimeNs now);
  void on_step(Entry& entry, const rdma_cm_event& event);
  void on_established(Entry& entry, const rdma_cm_event& event);
  void on_over(Entry& entry, const rdma_cm_event& event);

  Device& device_;
  Completions& completions_;
  ibv_srq* const shared_receives_;
  const Options options_;
  rdma_event_channel* channel_ = nullptr;
  std::vector<rdma_cm_id*> listeners_;  // By number; null: it listens no more.
  std::deque<Entry> entries_;           // They do not move.
  std::vector<std::uint32_t> free_;
  std::deque<ConnectionEvent> events_;
  std::vector<rdma_cm_id*> refused_;  // Requests beyond the limit, until their events are over.
  std::uint32_t count_ = 0;
  TimeNs first_deadline_ = kNever;
};

}  // namespace verbatim::ulp::rdma
