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

/// A queue pair's way to a peer on the direct path: executes requests, in order, with the checks
/// that the peer's responder would make. Used under the queue pair's lock.
class DirectLink {
 public:
  struct Config {
    bool reliable = true;  // Else the peer's refusals lose a message, and nobody hears of it.
    Qpn own_qpn;
    arena::PeerName own_name;  // By which the peer's target knows this side.
    Qpn peer_qpn;
    std::uint8_t timeout = 0;  // As in `ibv_qp_attr`, as are the next two.
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    TimeNs rnr_grace = 0;  // Before the first of those retries, or the error where there is none.
    /// iWARP: beside a stream, which tells of the end. Where the peer refuses what it would not
    /// have answered, the request is done, and the stream ends.
    bool has_stream = false;
    /// XRC: the program at the peer's address that has the queue of this number. Null: none.
    std::function<std::shared_ptr<DirectPeer>(SrqNumber)> find_queue_owner;
  };
  /// What became of a request.
  enum class Outcome : std::uint8_t {
    completed,   // With `status()`.
    unfinished,  // There is more to do; at once, for it is long.
    waits,  // For the peer, until `deadline()` at least: then, or earlier, it may be tried again.
  };

  DirectLink(std::shared_ptr<DirectPeer> peer, const Config& config);
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;

  const DirectPeer& peer() const { return own_.peer(); }
  /// iWARP: the peer's target serves this queue pair from now on, if it still invites.
  bool accept();
  /// XRC: a program has ended.
  void forget_queue_owner(const DirectPeer& queue_owner) { queue_owners_.forget(queue_owner); }
  /// UD: one message, whose bytes come behind its header. It completes at once, and with success
  /// also where the peer does not take it (IBA 9.8.3): only its own memory may refuse.
  Outcome send_datagram(const transport::SendRequest& request, const LocalMemory& local,
                        const Datagram& datagram);
  /// The peer's queue pair exists, whatever its state.
  bool is_there() const {
    return !peer().is_gone() &&
           target_.qpn.load(std::memory_order_relaxed) == config_.peer_qpn.value();
  }
  /// The oldest request that has not completed. Takes up to `kBytesPerCall` bytes at a time.
  Outcome execute(const transport::SendRequest& request, const LocalMemory& local);
  transport::Status status() const { return status_; }
  TimeNs deadline() const { return deadline_; }
  /// A request has begun and not completed.
  bool has_begun() const { return begun_; }

  /// So many bytes keep a caller for a tenth of a millisecond or so.
  static constexpr std::uint64_t kBytesPerCall = 1 << 20;

 private:
  /// Pause before the next look: for help, for a receive (it doubles), or without a time limit.
  static constexpr TimeNs kLookAgain = kMillisecond / 20;

  Outcome complete(transport::Status status) {
    status_ = status;
    begun_ = false;
    moved_ = 0;
    tried_ = 0;
    deadline_ = kNever;
    return Outcome::completed;
  }
  /// It has reached the peer, and done there what it should.
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
  /// What a request waits for, each with a patience of its own.
  enum class Awaited : std::uint8_t {
    answer,   // Of a peer that does not serve it, or has ended.
    grace,    // A receive request, and does not count as RNR yet.
    receive,  // A receive request, by the rules of RNR.
  };
  /// For an answer that comes soon.
  Outcome look_again();
  Outcome wait(Awaited awaited, TimeNs pause, unsigned tries, transport::Status at_last);
  bool is_served() const {
    return target_.peer_qpn == config_.own_qpn && target_.peer_name == config_.own_name;
  }

  Outcome attempt(const transport::SendRequest& request, const LocalMemory& local);
  Outcome with_stream(const transport::SendRequest& request, Outcome outcome);
  Outcome execute_locked(const transport::SendRequest& request, const LocalMemory& local);
  Outcome execute_at_queue_owner(const transport::SendRequest& request, const LocalMemory& local);
  Outcome execute_there(const transport::SendRequest& request, const LocalMemory& local);
  /// The peer's region that the request names.
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
  bool take_receive() { return at_->take_receive(); }
  /// The queue pair's owner hears of it.
  void notify(std::uint32_t notifications) const { own_.notify(notifications); }

  const Config config_;
  MappedTarget own_;      // The queue pair's.
  DirectTarget& target_;  // Of that.
  MappedTarget* at_;      // Where requests are executed: there, or XRC, at another program.
  XrcQueueOwners queue_owners_;
  std::optional<std::uint32_t> found_proxy_;  // Of the host that `find_host` names.
  transport::Status status_{};
  // Of the request that has begun.
  bool begun_ = false;
  std::uint64_t moved_ = 0;  // Bytes.
  // Of waiting. What stands in `awaited_` concerns a former request while there is no deadline.
  Awaited awaited_{};
  TimeNs deadline_ = kNever;
  TimeNs grace_ends_at_ = 0;
  unsigned tried_ = 0;
};

}  // namespace verbatim::adapter
