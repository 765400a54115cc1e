#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "adapter/direct/mapped_target.h"
#include "adapter/direct/xrc_queue_owners.h"
#include "base/always_inline.h"
#include "base/time.h"
#include "port/receive_header.h"
#include "region/region_table.h"
#include "transport/work.h"
#include "wire/ib/aeth.h"

namespace verbatim::adapter {

/// A queue pair's connection to a peer on the direct path: executes requests in order, with the
/// checks of the peer's responder. Requires the queue pair's lock.
class DirectLink {
 public:
  struct Config {
    bool reliable = true;  // RC and XRC. If false (UC, UD), a message that the peer refuses is
                           // dropped and the request completes with success.
    Qpn own_qpn;
    Qpn peer_qpn;
    std::uint8_t timeout = 0;  // As in `ibv_qp_attr`, like the next two.
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    // Before the first of those retries, or before the error if there are none.
    TimeNs rnr_grace = 0;
    /// iWARP: the queue pair also has a TCP connection, which reports errors by its end. If the
    /// peer refuses a WRITE or SEND, that request completes with success, and the stream ends.
    bool has_stream = false;
    /// XRC: returns the process at the peer's address that owns receive queue `number`, or null.
    std::function<std::shared_ptr<DirectPeer>(SrqNumber)> find_queue_owner;
    /// InfiniBand: the peer has refused a datagram for this Q_Key, or a request for its P_Key.
    /// Called with the target's lock.
    std::function<void(std::optional<QKey> q_key)> report_bad_key;
  };
  /// Result of executing a request.
  enum class Outcome : std::uint8_t {
    completed,   // With `status()`.
    unfinished,  // Long request: call again at once.
    waits,       // The peer is not ready: call again at `deadline()`. Calling earlier is harmless.
  };

  /// `own_name`: by which the peer's target knows this side.
  DirectLink(std::shared_ptr<DirectPeer> peer, const Config& config,
             const arena::PeerName& own_name);
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;

  const DirectPeer& peer() const { return own_.peer(); }
  void set_own_name(const arena::PeerName& name) { own_name_ = name; }
  /// iWARP: connects the peer's target to this queue pair. Returns false if the target no longer
  /// accepts.
  bool accept();
  /// XRC: the process has ended.
  void forget_queue_owner(const DirectPeer& queue_owner) { queue_owners_.forget(queue_owner); }
  /// UD: delivers one message (40 bytes for the GRH, then the payload). Always completes: with
  /// success also if the peer drops it (IBA 9.8.3), with local_protection_error if the sender's
  /// buffer cannot be read.
  Outcome send_datagram(const transport::SendRequest& request, const LocalMemory& local,
                        const port::Datagram& datagram);
  /// The peer's queue pair exists, whatever its state.
  bool is_there() const {
    return !peer().is_gone() &&
           target_.qpn.load(std::memory_order_relaxed) == config_.peer_qpn.value();
  }
  /// Executes the oldest request that has not completed, at most `kBytesPerCall` bytes per call.
  Outcome execute(const transport::SendRequest& request, const LocalMemory& local);
  transport::Status status() const { return status_; }
  TimeNs deadline() const { return deadline_; }
  /// Returns true if a request has begun and not completed.
  bool has_begun() const { return begun_; }

  /// This many bytes take a caller about a tenth of a millisecond.
  static constexpr std::uint64_t kBytesPerCall = 1 << 20;

 private:
  /// Interval of retries while waiting for the owner or a receive (then it doubles), or for a peer
  /// if the ACK time-out is 0 (infinite).
  static constexpr TimeNs kLookAgain = kMillisecond / 20;

  Outcome complete(transport::Status status) {
    status_ = status;
    begun_ = false;
    moved_ = 0;
    tried_ = 0;
    deadline_ = kNever;
    return Outcome::completed;
  }
  /// Counts the request at the target and completes it with success.
  VERBATIM_ALWAYS_INLINE Outcome serve(const transport::SendRequest& request) {
    target_.received.messages.add_exclusive();
    target_.received.bytes.add_exclusive(request.length);
    return complete(transport::Status::success);
  }
  Outcome refuse(transport::Status status, std::uint32_t notifications);
  Outcome refuse_access() { return refuse(transport::Status::remote_access_error, kAccessError); }
  Outcome refuse_request() {
    return refuse(transport::Status::remote_invalid_request, kRequestError);
  }
  Outcome fail_receive(transport::Status receives, transport::Status sends);
  bool is_on_its_way();
  Outcome not_ready();
  TimeNs silence() const;
  Outcome no_answer();
  Outcome busy();
  /// What a request waits for; each has its own time-out.
  enum class Awaited : std::uint8_t {
    lock,     // The lock of a target, which another process that lives has held for long.
    answer,   // An answer of a peer that does not serve requests, or has ended.
    grace,    // A receive request, before it counts as RNR.
    receive,  // A receive request, by the rules of RNR.
  };
  /// Tries again soon, for an answer that is expected soon.
  Outcome look_again();
  Outcome wait(Awaited awaited, TimeNs pause, unsigned tries, transport::Status at_last);
  bool is_served() const {
    return target_.serves(config_.own_qpn, own_name_) || is_served_as_limited_member();
  }
  /// Out of line, with no argument but this object: others' requests pay nothing for it.
  bool is_served_as_limited_member() const;
  Outcome not_served();
  bool was_given_up();
  Outcome given_up();
  void on_bad_p_key() const;
  void on_bad_q_key(QKey key) const;

  Outcome attempt(const transport::SendRequest& request, const LocalMemory& local);
  Outcome with_stream(const transport::SendRequest& request, Outcome outcome);
  Outcome execute_locked(const transport::SendRequest& request, const LocalMemory& local);
  Outcome execute_at_queue_owner(const transport::SendRequest& request, const LocalMemory& local);
  Outcome execute_there(const transport::SendRequest& request, const LocalMemory& local);
  /// Looks up the peer's region that the request names.
  std::expected<const region::Region*, region::KeyError> find_locked(
      const transport::SendRequest& request, std::uint64_t length, std::uint32_t right) {
    return at_->find_locked(request.remote_key, request.remote_address, length, right,
                            config_.peer_qpn);
  }
  Outcome send(const transport::SendRequest& request, const LocalMemory& local);
  std::optional<Outcome> move_bytes(const transport::SendRequest& request, const LocalMemory& local,
                                    bool to_peer);
  Outcome write(const transport::SendRequest& request, const LocalMemory& local);
  Outcome read(const transport::SendRequest& request, const LocalMemory& local);
  Outcome atomic(const transport::SendRequest& request, const LocalMemory& local);
  Outcome flush(const transport::SendRequest& request);
  Outcome request_owner(const OwnerRequest& wanted);
  Outcome deliver(const transport::SendRequest& request);
  Outcome complete_receive(const Completion& completion, const transport::SendRequest& request);
  Outcome lose(const LocalMemory& local);
  std::optional<Outcome> deliver_datagram(const transport::SendRequest& request,
                                          const LocalMemory& local, const port::Datagram& datagram);
  bool takes_from_port(const port::Datagram& datagram) const;
  bool take_receive() { return at_->take_receive(); }
  /// Notifies the process that owns the target queue pair.
  void notify(std::uint32_t notifications) { own_.notify(notifications); }

  const Config config_;
  arena::PeerName own_name_;
  MappedTarget own_;      // The target of the peer's queue pair.
  DirectTarget& target_;  // That of `own_`.
  MappedTarget*
      at_;  // Where requests are executed: `own_` or, for XRC, a target at another process.
  XrcQueueOwners queue_owners_;
  std::optional<std::uint32_t>
      found_proxy_;  // The proxy at the process that `find_queue_owner` returned.
  transport::Status status_{};
  // The request that has begun.
  bool begun_ = false;
  std::uint64_t moved_ = 0;   // Bytes.
  bool has_arrived_ = false;  // The peer has its completion.
  // Waiting. Without a deadline, `awaited_` belongs to an earlier request.
  Awaited awaited_{};
  TimeNs deadline_ = kNever;
  TimeNs grace_ends_at_ = 0;
  unsigned tried_ = 0;
};

}  // namespace verbatim::adapter
