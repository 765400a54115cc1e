#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "service/loop.h"
#include "ulp/engine/meeting.h"
#include "ulp/engine/work.h"
#include "ulp/rdma/completions.h"
#include "ulp/rdma/connection.h"
#include "ulp/rdma/connection_manager.h"
#include "ulp/rdma/device.h"
#include "ulp/rdma/shared_receives.h"
#include "ulp/rdma/turn.h"

namespace verbatim::ulp::rdma {

/// Why a connection is over, for the log: "" if one side has ended it in order.
struct End {
  std::string words;
  std::optional<Rejected> rejected{};
};

/// A protocol's side of its connections: it finds the connection's engine and asks it. `work` is
/// empty, and carried out after the call. A call may use all of `Driver`, which never calls back
/// from within.
class Handler {
 public:
  virtual ~Handler() = default;
  /// A peer asks. `Driver::accept` or `reject` answers, now or within 30 s.
  virtual void on_requested(const Requested& requested, TimeNs now) = 0;
  /// A message may come before it.
  virtual void on_established(const Established& established, TimeNs now, WorkList& work);
  virtual ReceiveUse on_message(ConnectionId connection, const Message& message, TimeNs now,
                                WorkList& work) = 0;
  /// The work with this tag, and all before it, is over.
  virtual void on_done(ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
                       WorkList& work);
  /// Once for each connection that was requested, or that `connect` has returned: all tags have
  /// come back, and the adapter touches none of its memory any more. Receives that were kept are
  /// given back here (`PostAgain`, by `Driver::post_again`).
  virtual void on_end(ConnectionId connection, const End& end, TimeNs now) = 0;
  /// Completions of a `DatagramPort` (kinds datagram and datagram_receive).
  virtual void on_datagram(const Ended& ended, TimeNs now);
  virtual void on_device(const DeviceNotice& notice, TimeNs now);
};

/// What a `Handler` asks of whatever carries its connections: the adapter (`Driver`), or TCP
/// (`ulp/tcp`). None of it calls back from within.
class Carrier {
 public:
  virtual Result<void> accept(ConnectionId connection, const QueueSizes& sizes,
                              ByteSpan private_data) = 0;
  virtual void reject(ConnectionId connection, ByteSpan private_data) = 0;
  /// `words`: why, for `on_end`; "" in order.
  virtual void disconnect(ConnectionId connection, const std::string& words, TimeNs now) = 0;
  /// Work that no call of the handler has returned: after an answer of a store.
  virtual void carry_out(ConnectionId connection, std::span<const Work> work, TimeNs now) = 0;
  /// A receive that an engine has kept.
  virtual void post_again(ReceiveId receive) = 0;

 protected:
  ~Carrier() = default;
};

/// The one thread's driver: joins completions, connections, receives and the loop. It is a source
/// of the loop: while there is work, or was within `spin`, its deadline has always come.
class Driver final : public Carrier, public service::Source {
 public:
  struct Options {
    std::string device;  // A name, an address, or empty.
    std::uint32_t connections_max = 4096;
    std::uint32_t receives = 1024;
    std::uint32_t receive_bytes = 4096;
    std::uint32_t headers = 256;  // Buffers for headers that are too long to be sent inline.
    std::uint32_t header_bytes = 1024;
    TimeNs spin = Turn::kDefaultSpin;
    TimeNs end_patience = 2 * kSecond;  // For completions, after the last event.
  };
  /// The handler outlives it.
  static Result<std::unique_ptr<Driver>> create(Handler& handler, const Options& options);
  ~Driver();

  /// Until `detach`, or the end of the loop.
  Result<void> attach(service::Loop& loop);
  void detach(service::Loop& loop);

  Result<ListenerId> listen(const ServicePlace& where, int backlog = 128);
  void unlisten(ListenerId listener) { manager_->unlisten(listener); }
  std::uint16_t port_of(ListenerId listener) const { return manager_->port_of(listener); }
  Result<ConnectionId> connect(const ServicePlace& to, const ConnectOptions& options);
  Result<void> accept(ConnectionId connection, const QueueSizes& sizes,
                      ByteSpan private_data = {}) override;
  void reject(ConnectionId connection, ByteSpan private_data = {}) override;
  void disconnect(ConnectionId connection, const std::string& words, TimeNs now) override;
  void disconnect_all(TimeNs now);

  void carry_out(ConnectionId connection, std::span<const Work> work, TimeNs now) override;
  void post_again(ReceiveId receive) override { receives_->give_back(receive); }
  /// For `Windows`. Null: the connection is over, or not yet there.
  Connection* connection(ConnectionId id);

  Device& device() { return *device_; }
  Completions& completions() { return *completions_; }
  const SharedReceives& receives() const { return *receives_; }
  std::uint32_t connection_count() const { return manager_->count(); }

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

 private:
  /// What the driver has of a connection, by its number.
  struct Peer {
    ConnectionId id{};
    std::unique_ptr<Connection> connection;  // From `accept` or `Established` on.
    std::unique_ptr<End> end;                // Why it is over, if that is known already.
    bool is_known = false;                   // The handler has it.
    bool is_over = false;                    // The manager's last event has come.
    /// None of the shared receives is on its way to it: those that were are in the completion
    /// queue, which had been empty so often by then.
    std::optional<std::uint64_t> last_receive;
    TimeNs gives_up = kNever;
  };
  Driver(Handler& handler, const Options& options);
  Result<void> open();

  Peer* find(ConnectionId id);
  void know(ConnectionId id);
  void make_connection(ConnectionId id);
  bool serve_completions(TimeNs now);
  void on_completion(const Ended& ended, TimeNs now);
  void on_receive(const Ended& ended, TimeNs now);
  void on_work(const Ended& ended, TimeNs now);
  void resume_waiting(TimeNs now);
  void serve_events(TimeNs now);
  void on_event(const ConnectionEvent& event, TimeNs now);
  void on_over(const ConnectionEvent& event, TimeNs now);
  void serve_device(TimeNs now);
  void sleep_unless_found(TimeNs now);
  bool is_back(const Peer& peer) const;
  void finish_ended(TimeNs now);
  void finish(Peer& peer, TimeNs now);

  Handler& handler_;
  const Options options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Completions> completions_;
  std::unique_ptr<SharedReceives> receives_;
  std::unique_ptr<BufferPool> headers_;
  std::unique_ptr<ConnectionManager> manager_;
  Turn turn_;
  std::deque<Peer> peers_;  // By connection number; they do not move.
  std::unordered_map<std::uint32_t, ConnectionId> by_queue_pair_;
  std::vector<ConnectionId> ending_;   // Over, but something is still out.
  std::vector<ConnectionId> waiting_;  // For a buffer for a header.
  TimeNs posts_again_ = kNever;
  WorkList work_;
};

}  // namespace verbatim::ulp::rdma
