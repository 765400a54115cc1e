#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "adapter/direct/direct_link.h"
#include "adapter/direct/xrc_queue_owners.h"
#include "adapter/ethernet/frame_delivery.h"
#include "adapter/progress/task.h"
#include "adapter/queue_pair/pacer.h"
#include "adapter/queue_pair/queue_pair_attributes.h"
#include "adapter/queue_pair/send_queue.h"
#include "adapter/queue_pair/send_work.h"
#include "adapter/queues/async_event.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/services/datagram_path.h"
#include "arena/arena.h"
#include "arena/target.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/mutex.h"
#include "base/time.h"
#include "base/types.h"
#include "link/ethernet/frame_batch.h"
#include "link/udp/udp.h"
#include "port/route.h"
#include "region/cached_hold.h"
#include "transport/ib/datagram.h"
#include "transport/ib/requester/requester.h"
#include "transport/ib/responder/responder.h"

namespace verbatim::transport::iwarp {
struct TaggedAddress;
}

namespace verbatim::adapter {

class Adapter;
class Burst;
struct ReceiveScaling;
struct Stream;
struct StreamStart;

struct QueuePairOptions {
  QpType type = QpType::rc;
  PdNumber pd{};                          // None for an XRC target: the shared queues have theirs.
  CompletionQueue* send_cq = nullptr;     // None for an XRC target.
  CompletionQueue* receive_cq = nullptr;  // None for XRC.
  SharedReceiveQueue* shared_receive = nullptr;  // Instead of a receive queue of its own.
  XrcDomain xrc_domain{};                        // Of an XRC target.
  XrcFile xrc_file;          // Of the domain; the adapter fills it in, as it does the next.
  bool is_imported = false;  // Its protection domain is another program's.
  AsyncEvents* events = nullptr;
  QueuePairCapacity capacity;
  bool signal_all = false;
  bool ignores_own_multicast = false;  // UD: what it sends to a group that it is in itself.
  void* owner = nullptr;               // The drop-in's object; comes back in asynchronous events.
  /// Of the send queue, which nobody else touches. May call the program; may throw bad_alloc.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Raw packets: it only receives, and into the work queues of a table. Without completion queues.
  std::shared_ptr<const ReceiveScaling> scaling;

  /// The send queue is the adapter's own: it finishes the rendezvous of tag matching with it. Asked
  /// for with a tag matching queue and no send requests, as cards have it.
  bool finishes_rendezvous() const {
    return shared_receive != nullptr && shared_receive->matches_tags() &&
           capacity.send_requests == 0;
  }
};

/// Whether queue pairs of this type do it.
bool serves(QpType type, transport::Operation operation);

/// One queue pair: its state, its two engines, its queues. Any thread may call anything; one lock a
/// queue pair.
class QueuePair final : public Task {
 public:
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  Qpn number() const { return number_; }
  QpType type() const { return options_.type; }
  QpState state() const {
    return static_cast<QpState>(record_->state.load(std::memory_order_relaxed));
  }
  void* owner() const { return options_.owner; }
  const QueuePairOptions& options() const { return options_; }
  const observe::QueuePairCounters& counters() const { return record_->counters; }

  /// `ibv_modify_qp`: checks all, then does all. Errors as the manual page and a card's driver have
  /// them, in words.
  Result<void> modify(const QueuePairAttributes& attributes, std::uint32_t mask);
  QueuePairAttributes query();

  /// Somebody posts requests: they leave together at the end, or on the direct path before it.
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
    /// All of them or none; 0 or an errno (EINVAL: wrong state, operation, too many segments, too
    /// much inline; ENOMEM: full).
    int post(std::span<const SendWork> works);
    int post(const SendWork& work);

   private:
    void send_posted();
    QueuePair& queue_pair_;
  };
  int post_send(std::span<const SendWork> works) { return Posting(*this).post(works); }
  int post_send(const SendWork& work) { return Posting(*this).post(work); }
  int post_receive(std::uint64_t wr_id, std::span<const Segment> segments);
  /// Sends what waits for the program's next post or poll.
  void transmit();

  /// Takes what has come; `to_the_end`, also an end that stands right behind it.
  void on_stream(TimeNs now, bool to_the_end = false);

  /// `ibv_modify_qp_rate_limit`: sends at most so much, in bursts of at most so many bytes (0: as
  /// many as suit the clock). 0: no limit. EINVAL above Limits::rate_kbps.
  Result<void> limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes);

 private:
  friend class Adapter;
  friend class Delivery;
  friend class Steering;
  /// The responder takes receive requests through it; one is in use at a time.
  class Receives final : public transport::ReceiveSource {
   public:
    explicit Receives(QueuePair& queue_pair) : queue_pair_(queue_pair) {}
    bool take(const wire::Packet& packet, transport::Receive& out) override;
    std::optional<PdNumber> domain_of(SrqNumber number) override;

   private:
    QueuePair& queue_pair_;
  };

  QueuePair(Adapter& adapter, const QueuePairOptions& options, Qpn number, QueuePairRecord& record,
            DirectTarget& target, SendQueue send_queue,
            std::unique_ptr<ReceiveQueue> receive_queue);
  bool is_datagram() const { return options_.type == QpType::ud; }
  bool is_raw() const { return options_.type == QpType::raw_packet; }
  bool is_connected() const { return !is_datagram() && !is_raw(); }
  bool is_reliable() const { return is_connected() && options_.type != QpType::uc; }
  /// Whom this queue pair's own operations are to the region table, and its peer's requests.
  region::Accessor accessor() const { return {options_.pd, number_}; }
  region::Accessor peer_accessor() const {
    return {stream_ != nullptr ? options_.pd : responder_.config().pd, number_};
  }
  void set_state(QpState state) { record_->state.store(raw(state), std::memory_order_relaxed); }

  // Modify: each under lock_.
  Result<void> check_values(const QueuePairAttributes& wanted, std::uint32_t mask) const;
  void apply(const QueuePairAttributes& wanted, std::uint32_t mask);
  void enter(QpState to, std::uint32_t mask);
  void start_responder();
  void start_requester();
  void forget_everything();

  // Sending: each under lock_.
  int check_post(const SendWork& work) const;
  void take_post(const SendWork& work);
  void push_send(const SendWork& work);
  void flush_posted();
  void transmit_output(TimeNs now) override;
  void yield_if_unreliable() const;
  void transmit_locked(TimeNs now);
  bool may_gather() const;
  bool may_send(TimeNs now);
  void transmit_requests(Burst& burst, TimeNs now);
  transport::Status carry_out(transport::Slot slot);
  bool transmit_responses(Burst& burst);
  void transmit_frames(TimeNs now);
  transport::Status add_frame(transport::Slot slot);
  void send_frames();
  // Datagrams: queue_pair_datagram.cpp.
  void transmit_datagrams(TimeNs now);
  transport::DatagramConfig datagram_config() const;
  void forget_old_paths();
  const DatagramPath* path_to(const DatagramPathKey& key);
  transport::Status send_datagram(Burst& burst, transport::Slot slot);
  std::optional<transport::Status> send_directly(const SendWork& work, const LocalMemory& local);
  std::optional<transport::Status> send_directly(const transport::SendRequest& request,
                                                 const LocalMemory& local, const DatagramPath& path,
                                                 QKey qkey);
  // iWARP: queue_pair_stream.cpp.
  class Streaming;
  Result<void> start_stream(StreamStart start);  // See Adapter.
  void configure_stream();
  void transmit_stream();
  void refuse_stream_request(transport::Slot slot, transport::Status status);
  void end_stream();
  void forget_stream();
  // Which path it takes: queue_pair_path.cpp.
  void begin_path_negotiation();
  void finish_path_negotiation(ByteSpan first_segment = {});
  void on_path_segment(ByteSpan segment);
  void stop_polling_stream();
  Gid cookie_as_gid() const;
  arena::PeerName name_on_direct_path(const SocketAddress& peer, const Gid& gid) const;
  transport::iwarp::TaggedAddress offer_direct_path();
  std::unique_ptr<DirectLink> link_to_invitee();
  std::unique_ptr<DirectLink> link_to_inviter(ByteSpan first_segment);
  bool add_request_packet(Burst& burst, const transport::OutgoingPacket& packet);
  bool add_response_packet(Burst& burst, const transport::OutgoingPacket& packet);
  void rearm_timer();
  void count_sent(const wire::Headers& headers);
  void count_received(const wire::Headers& headers);
  void publish_counters();

  // The direct path: queue_pair_direct.cpp. Each under lock_ but the last two.
  bool may_be_direct() const;
  void note_wire_use();
  std::unique_ptr<DirectLink> link_to(const DatagramPathKey& key);
  void open_link();
  /// Peers may act for it from now on.
  void open_target();
  void change_target();
  /// None does when this returns, nor will; the receive in use is `current_receive_`.
  void close_target();
  void flush_held();
  bool forget_held(SrqNumber srq);
  bool has_nothing_to_send() const {
    const bool is_direct = link_ != nullptr || is_datagram();
    return is_direct && handed_ == send_queue_.posted() && !fatal_ && !responder_.has_output();
  }
  /// A request that has nothing before it, without the send queue. False: it has not come to its
  /// end at once; the queue takes it.
  bool execute_at_once(const SendWork& work);
  void transmit_direct(TimeNs now);
  /// Of a request's bytes, in segments or inlined.
  LocalMemory local_memory(std::span<const Segment> segments, ByteSpan inlined) {
    return {regions_, options_.pd, segments, inlined, local_key_};
  }
  LocalMemory local_memory(transport::Slot slot);
  std::optional<transport::Status> execute_now(const transport::SendRequest& request,
                                               const LocalMemory& local);
  void count_direct(const DirectLink& link, DirectLink::Outcome outcome, std::uint64_t length) {
    const bool served =
        outcome == DirectLink::Outcome::completed && link.status() == transport::Status::success;
    if (!served) return;
    record_->direct_sent.messages.add_exclusive();
    record_->direct_sent.bytes.add_exclusive(length);
  }
  void end_direct(std::uint64_t wr_id, const transport::SendRequest& request,
                  transport::Status status);
  /// Whoever uses the program's regions under lock_ now has done when this returns.
  void wait_for_user() { const std::lock_guard guard(lock_); }
  void serve_owner_request();
  /// What peers have told. The background thread hears the doorbell; who asks for the state or
  /// changes it looks itself: a peer that was refused finds the queue pair in error.
  void on_notifications();
  void take_notifications();
  void on_peer_gone(const DirectPeer& peer);
  void on_attached_peer_gone();  // What it may have done and not told.

  // Receiving: each under lock_, during a turn.
  void on_packet(const wire::Packet& packet, const SocketAddress& source,
                 const SocketAddress& destination, TimeNs now);
  /// After the last of some packets. True when there is something to send now.
  bool end_reception();
  void on_connected_packet(const wire::Packet& packet, const SocketAddress& source, TimeNs now);
  void pace(std::uint32_t rate_kbps, std::uint32_t burst_bytes);
  bool is_own_multicast(const wire::Headers& headers, const SocketAddress& source) const;
  void on_datagram(const wire::Packet& packet, const SocketAddress& source,
                   const SocketAddress& destination);
  void on_timer(TimeNs now) override;
  void on_frame(const SteeredFrame& frame);
  void drain(transport::RequesterEffects& effects);
  void drain(transport::ResponderEffects& effects);
  void apply(const transport::RequesterEffect& effect);
  void apply(const transport::ResponderEffect& effect);
  // XRC queues of other programs: queue_pair_xrc.cpp.
  class OwnerReceives;
  MappedTarget* queue_owner_of(SrqNumber number);
  void answer_allocate_proxy();
  /// False: the packet names no queue that there is.
  bool on_packet_for_queue_owner(const wire::Packet& packet);
  bool apply_at_queue_owner(const transport::ResponderEffect& effect);
  void complete_at_queue_owner(const transport::CompleteReceive& receive);
  bool append_from_queue_owner(Burst& burst, const transport::PayloadSource& payload);

  void complete_send(transport::Slot slot, transport::Status status);
  void push_send_completion(std::uint64_t wr_id, const transport::SendRequest& request,
                            transport::Status status);
  void complete_receive(const transport::CompleteReceive& receive);
  Completion completion_of(const transport::CompleteReceive& receive, std::uint64_t wr_id) const;
  // Tag matching: queue_pair_tagged.cpp.
  bool take_tagged(const wire::Packet& packet);
  void report_match();
  void start_rendezvous();
  void complete_rendezvous(transport::Slot slot, transport::Status status);
  /// Of the memory that the send queue's requests name.
  PdNumber send_pd() const;
  void push(CompletionQueue& queue, const Completion& completion, bool solicited);
  void raise(AsyncEventType type);
  /// Who else has opened the queue pair (`ibv_open_qp`) hears its events too. `remove_listener` is
  /// true when nobody is left.
  void add_listener(AsyncEvents& events, void* owner);
  bool remove_listener(const void* owner);
  /// Both engines stop, everything outstanding completes as flushed.
  void enter_error();
  void send_pending_responses();
  void fail();
  /// UC and UD after a local error of a send: only the send queue stops (IBA 10.3.1.7).
  void enter_send_queue_error();
  void flush_receives();
  void check_drained();
  /// Takes a receive request into `current_receive_`; XRC: of the shared queue that is named.
  bool take_receive(SrqNumber named = {});
  PdNumber receive_pd() const;
  CompletionQueue& receive_cq() const;
  /// During no turn: an XRC queue is being destroyed. A message on its way into it fails the pair.
  void forget(const SharedReceiveQueue& queue);

  Adapter& adapter_;
  region::RegionTable& regions_;
  const QueuePairOptions options_;
  const std::uint32_t served_;  // Operations that may be posted: bits by their numbers.
  const Qpn number_;
  QueuePairRecord* const record_;
  DirectTarget& target_;
  mutable Mutex lock_;  // Guards everything below.
  struct Listener {
    AsyncEvents* events = nullptr;
    void* owner = nullptr;
  };
  std::vector<Listener> listeners_;
  QueuePairAttributes attributes_;
  SendQueue send_queue_;
  std::uint64_t executed_ = 0;  // Bytes, at once, by the post that is under way.
  std::uint64_t handed_ = 0;    // Requests below this slot are the engine's (or, UD, sent).
  std::unique_ptr<ReceiveQueue> receive_queue_;  // None where receives are shared.
  ReceiveRequest current_receive_;
  bool holds_receive_ = false;
  const SharedReceiveQueue* receive_source_ = nullptr;  // Where it is from, if it is shared.
  TaggedMessage tagged_;                                // What came with it.
  region::CachedHold placement_hold_;  // Where packets of this reception are placed.
  transport::Requester requester_;
  transport::Responder responder_;
  std::unique_ptr<Stream> stream_;    // None: not iWARP.
  std::unique_ptr<DirectLink> link_;  // None: its requests go over the wire.
  XrcQueueOwners queue_owners_;
  MappedTarget* queue_owner_ = nullptr;  // Whom the packet concerns that is being received.
  DatagramPaths paths_;                  // UD: instead of a link.
  region::KeyCache local_key_;           // The link's, of our own regions.
  bool uses_wire_ = false;               // Packets may come for it.
  transport::RequesterEffects requester_effects_;
  std::optional<transport::Slot> refused_slot_;  // Its memory refused while effects were drained.
  enum class Refused : std::uint8_t { nothing, region, receive_memory };
  Refused responder_refused_ = Refused::nothing;
  std::unique_ptr<link::FrameBatch> frames_;  // Raw packets.
  bool fatal_ = false;                        // Go to the error state after this step.
  SocketAddress peer_;
  std::optional<port::Route> route_;  // Of packets to `peer_`: none over iWARP, none of datagrams.
  Pacer pacer_;
  bool held_back_ = false;  // By the pacer, with something to send.
  TimeNs armed_deadline_ = kNever;
  bool drain_reported_ = false;
};

}  // namespace verbatim::adapter
