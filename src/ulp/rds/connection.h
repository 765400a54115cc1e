#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "ulp/engine/work.h"
#include "ulp/rds/congestion.h"
#include "ulp/rds/outgoing.h"
#include "ulp/rds/reassembly.h"

namespace verbatim::ulp::rds {

/// All messages between two addresses: sequences, acknowledgements, repetition. It outlives the
/// queue pairs that carry it one after the other; a message stays until the peer has acknowledged
/// it, and is sent again by the next queue pair.
class Connection {
 public:
  /// `first`: the sequence of the first message. A node that begins anew takes a higher one, for
  /// its peer drops repeated messages that are older than what it has received.
  Connection(Fragments& pool, std::uint64_t first) : pool_(pool), next_sequence_(first) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(Outgoing message);
  /// What is sent next is the congestion map.
  void owe_map() { owes_map_ = true; }

  /// The peer has a queue pair with this node; it has received all up to `acknowledged`.
  void on_established(std::uint64_t acknowledged);
  /// The queue pair is gone, and all its work is over.
  void on_cut();
  /// For the private data of the next one.
  std::uint64_t received() const { return received_; }

  struct Arrival {
    enum class Kind : std::uint8_t { nothing, message, map, fault } kind{};
    Header header{};
    ByteSpan bytes{};        // Until the next call.
    const char* words = "";  // Of a fault: the queue pair must end.
  };
  Arrival on_message(ByteSpan fragment);
  /// The message of the last arrival is delivered, or will never be: it is acknowledged.
  void take(const Header& header);

  /// Appends work until nothing is left, the list is full, or enough is in flight. Returns an
  /// atomic operation that comes after this work: there may be more after it.
  std::optional<Atomic> fill(WorkList& work, const CongestionMap& own);
  /// The work up to this tag is over.
  void on_done(Tag tag);
  /// The work with this tag has failed; the queue pair ends.
  void on_failed(Tag tag, OperationStatus status);

  /// Messages that are acknowledged, and that the adapter reads no more. The caller gives their
  /// fragments back to the pool.
  std::vector<Outgoing>& released() { return released_; }
  /// Operations that are over, before the messages that they belong to are released.
  std::vector<EndedOperation>& ended() { return ended_; }
  /// Messages that are not acknowledged.
  std::size_t waiting() const { return queue_.size(); }
  std::uint64_t next_sequence() const { return next_sequence_; }
  const std::deque<Outgoing>& queue() const { return queue_; }
  bool was_sent(std::size_t index) const { return index < next_; }

  /// Drops the socket's messages to this port (0: to any) of which nothing is sent.
  void cancel(SocketId socket, std::uint16_t port);
  /// The socket is closed: nobody waits for its messages any more.
  void disown(SocketId socket);
  bool has_owner() const;
  /// Drops all that the peer has not acknowledged. Requires that no queue pair is there.
  void drop();

 private:
  /// SENDs in flight: as many as Linux has in its queue.
  static constexpr std::uint64_t kWindow = 256;
  static constexpr std::uint64_t kTagEach = 16;
  static constexpr std::uint32_t kAckEach = 8;

  Header header_of(const Outgoing& message) const;
  void push(WorkList& work, Outgoing& message, std::size_t fragment, const Header& header);
  void push_next(WorkList& work);
  void push_map(WorkList& work);
  void push_acknowledgement(WorkList& work);
  bool begin_operations(WorkList& work, Outgoing& message, std::optional<Atomic>& atomic);
  void end(Outgoing& message, Operation& operation, OperationStatus status);
  void end_done();
  void end_unsure(std::deque<Outgoing>& messages);
  using Meant = std::function<bool(std::size_t index, const Outgoing& message)>;
  void drop_if(OperationStatus status, const Meant& is_meant);
  bool begin_map(const CongestionMap& own);
  bool asks_for_ack(std::size_t index);
  void on_acknowledged(std::uint64_t sequence);
  void release_done();

  Fragments& pool_;
  std::deque<Outgoing> queue_;      // Sent, or to be sent; by sequence.
  std::size_t next_ = 0;            // The first of them that is not sent whole,
  std::size_t fragment_ = 0;        // and its first fragment that is not sent.
  std::deque<Outgoing> finishing_;  // Acknowledged, and maps: until their SENDs are over.
  std::vector<Outgoing> released_;
  std::vector<EndedOperation> ended_;
  std::size_t operations_ = 0;  // Not over.
  std::uint64_t next_sequence_;
  std::uint64_t posted_ = 0, done_ = 0;  // SENDs and operations.
  std::uint32_t unasked_ = 0;            // Messages since the last that asks for an ACK.

  Reassembly reassembly_;
  std::uint64_t received_ = 0;  // The last sequence.
  bool owes_ack_ = false;
  bool owes_map_ = false;
  Outgoing map_;  // Being sent.
  std::size_t map_fragment_ = 0;
};

}  // namespace verbatim::ulp::rds
