#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <variant>

#include "adapter/ethernet/frame_delivery.h"
#include "adapter/progress/task.h"
#include "adapter/queue_pair/core/core.h"
#include "adapter/queue_pair/core/direct_end.h"
#include "adapter/queue_pair/core/queue_pair_attributes.h"
#include "adapter/queue_pair/core/queue_pair_options.h"
#include "adapter/queue_pair/core/send_work.h"
#include "adapter/queue_pair/core/surroundings.h"
#include "adapter/services/connected.h"
#include "adapter/services/datagram.h"
#include "adapter/services/raw.h"
#include "adapter/services/stream/stream.h"
#include "adapter/services/stream/stream_start.h"
#include "arena/arena.h"
#include "arena/target.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/mutex.h"
#include "base/time.h"
#include "base/types.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter {

/// Whether queue pairs of this type do it.
bool serves(QpType type, transport::Operation operation);

using AnyService =
    std::variant<services::Connected, services::Datagram, services::Stream, services::Raw>;

/// One queue pair: its state machine, posting, and the service of its type. Any thread may call
/// anything; one lock a queue pair.
class QueuePair final : public Task {
 public:
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Qpn number() const { return core_.number; }
  QpType type() const { return core_.type(); }
  QpState state() const { return core_.state(); }
  const QueuePairOptions& options() const { return core_.options; }
  const observe::QueuePairCounters& counters() const { return core_.record.counters; }

  /// `ibv_modify_qp`: checks everything, then changes everything. Errors as in the manual page and
  /// of a card's driver, with a text.
  Result<void> modify(const QueuePairAttributes& attributes, std::uint32_t mask);
  QueuePairAttributes query();
  /// The number of its port.
  std::uint8_t port();

  /// Scope of one post call. Holds the queue pair's lock; the destructor sends what was queued. On
  /// the direct path requests are executed at once.
  class Posting {
   public:
    explicit Posting(QueuePair& queue_pair) : queue_pair_(queue_pair) {
      queue_pair_.lock_.lock();
      queue_pair_.executed_ = 0;
    }
    ~Posting() {
      if (queue_pair_.has_nothing_to_send()) {
        queue_pair_.lock_.unlock();
      } else {
        send_posted();
      }
    }
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;
    /// Posts all or none; returns 0 or an errno value (EINVAL: wrong state, operation, too many
    /// segments, too much inline data; ENOMEM: full).
    int post(std::span<const SendWork> works);
    int post(const SendWork& work);

   private:
    void send_posted();
    QueuePair& queue_pair_;
  };
  int post_send(std::span<const SendWork> works) { return Posting(*this).post(works); }
  int post_send(const SendWork& work) { return Posting(*this).post(work); }
  int post_receive(std::uint64_t wr_id, std::span<const Segment> segments);
  /// Sends output that was deferred to the program's next post or poll.
  void transmit();
  /// InfiniBand: after the port's LIDs, P_Key table or state have changed.
  void follow_port();

  /// Processes received segments. With `to_the_end` it reads until EAGAIN, so that an end of the
  /// connection right behind the data is seen too.
  void on_stream(TimeNs now, bool to_the_end = false);

  /// When its timer has something to do; kNever: it waits for no time.
  TimeNs deadline() const {
    const std::lock_guard guard(lock_);
    return next_deadline();
  }

  /// `ibv_modify_qp_rate_limit`: limits the rate and the size of bursts (0: chosen to suit the
  /// clock). A rate of 0: no limit. EINVAL above Limits::rate_kbps.
  Result<void> limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes);

 private:
  friend class Adapter;
  friend class Delivery;
  QueuePair(const Surroundings& around, const QueuePairOptions& options, Qpn number,
            QueuePairRecord& record, DirectTarget& target, SendQueue send_queue,
            std::unique_ptr<ReceiveQueue> receive_queue);

  // Modify: each under lock_.
  void enter(QpState to, std::uint32_t mask);
  Result<void> check_migration(const QueuePairAttributes& wanted, std::uint32_t mask) const;
  Result<void> use_paths(const QueuePairAttributes& wanted, std::uint32_t mask, std::uint8_t port);
  void use_pkey();
  void forget_everything();
  /// Everything outstanding completes as flushed.
  void enter_error();
  /// The same after the peer has been told why.
  void fail();

  // Sending: each under lock_, but the first two.
  void transmit_output(TimeNs now) override;
  void yield_if_unreliable() const;
  int check_post(const SendWork& work) const;
  void take_post(const SendWork& work);
  bool has_nothing_to_send() const {
    const auto* const connected = std::get_if<services::Connected>(&service_);
    return (direct_.is_open() || type() == QpType::ud) && core_.handed == core_.sends.posted() &&
           !core_.fatal && (connected == nullptr || !connected->has_response());
  }
  /// Executes a request at once, if no other is queued before it. Returns false if it did not
  /// complete; then it goes into the send queue. Requires lock_.
  bool execute_at_once(const SendWork& work);
  void transmit_locked(TimeNs now);
  /// After the service has done something: stops if that failed, arms the timer.
  void settle();
  TimeNs next_deadline() const;
  void rearm_timer();

  // During a turn; the first two under lock_.
  void on_packet(const wire::Packet& packet, const Path& from, const Path& to, TimeNs now);
  /// After the last of some packets. True when there is something to send now.
  bool end_reception();
  void on_timer(TimeNs now) override;
  void on_frame(const SteeredFrame& frame);

  Result<void> start_stream(StreamStart start);  // See Adapter.
  /// Whoever uses the program's regions under lock_ now has done when this returns.
  void wait_for_user() { const std::lock_guard guard(lock_); }
  void on_notifications();
  void on_peer_gone(const DirectPeer& peer);
  void on_attached_peer_gone();
  /// Who else has opened the queue pair (`ibv_open_qp`) hears its events too. `remove_listener` is
  /// true when nobody is left.
  void add_listener(AsyncEvents& events, void* owner);
  bool remove_listener(const void* owner);
  /// During no turn: an XRC queue is being destroyed. A message on its way into it fails the pair.
  void forget(const SharedReceiveQueue& queue);

  const std::uint32_t served_;  // Operations that may be posted: bits by their numbers.
  mutable Mutex lock_;          // Guards everything below.
  QueuePairCore core_;
  DirectEnd direct_;
  AnyService service_;
  std::uint64_t executed_ = 0;  // Bytes, at once, by the post that is under way.
  TimeNs armed_deadline_ = kNever;
};

}  // namespace verbatim::adapter
