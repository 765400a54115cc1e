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
  PdNumber pd{};                          // None for an XRC target: the shared queues have it.
  CompletionQueue* send_cq = nullptr;     // None for an XRC target.
  CompletionQueue* receive_cq = nullptr;  // None for XRC.
  SharedReceiveQueue* shared_receive = nullptr;  // Used instead of its own receive queue.
  XrcDomain xrc_domain{};                        // XRC targets only.
  XrcFile xrc_file;          // The domain's file; set by the adapter, like the next one.
  bool is_imported = false;  // Its protection domain was imported.
  AsyncEvents* events = nullptr;
  QueuePairCapacity capacity;
  bool signal_all = false;
  bool ignores_own_multicast = false;  // UD: for groups of which it is a member itself.
  void* owner = nullptr;               // The drop-in's object, for asynchronous events.
  /// For the send queue, which peers do not access. May call the program; may throw bad_alloc.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  /// Raw packets: the queue pair only receives, into the work queues of a table. It has no
  /// completion queues.
  std::shared_ptr<const ReceiveScaling> scaling;

  /// Returns true if the send queue belongs to the adapter, which completes the rendezvous of tag
  /// matching with it: with a tag matching queue and no send requests, as on cards.
  bool finishes_rendezvous() const {
    return shared_receive != nullptr && shared_receive->matches_tags() &&
           capacity.send_requests == 0;
  }
};

/// Returns true if queue pairs of this type support the operation.
bool serves(QpType type, transport::Operation operation);

/// A queue pair: its state, its two engines, its queues. Thread-safe; each has one lock.
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

  /// `ibv_modify_qp`: checks everything, then changes everything. Errors as in the manual page and
  /// of a card's driver, with a text.
  Result<void> modify(const QueuePairAttributes& attributes, std::uint32_t mask);
  QueuePairAttributes query();

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

  /// Processes received segments. With `to_the_end` it reads until EAGAIN, so that an end of the
  /// connection right behind the data is seen too.
  void on_stream(TimeNs now, bool to_the_end = false);

  /// `ibv_modify_qp_rate_limit`: limits the rate and the size of bursts (0: chosen to suit the
  /// clock). A rate of 0: no limit. EINVAL above Limits::rate_kbps.
  Result<void> limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes);

 private:
  friend class Adapter;
  friend class Delivery;
  friend class Steering;
  /// The responder's source of receive requests; one is in use at a time.
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
  /// The identity under which keys are checked: of this queue pair's own requests, and of its
  /// peer's.
  region::Accessor accessor() const { return {options_.pd, number_}; }
  region::Accessor peer_accessor() const {
    return {stream_ != nullptr ? options_.pd : responder_.config().pd, number_};
  }
  void set_state(QpState state) { record_->state.store(raw(state), std::memory_order_relaxed); }

  // Modify. Each requires lock_.
  Result<void> check_values(const QueuePairAttributes& wanted, std::uint32_t mask) const;
  void apply(const QueuePairAttributes& wanted, std::uint32_t mask);
  void enter(QpState to, std::uint32_t mask);
  void start_responder();
  void start_requester();
  void forget_everything();

  // Sending. Each requires lock_.
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
  // Choice of the path: queue_pair_path.cpp.
  void begin_path_negotiation();
  void finish_path_negotiation(ByteSpan first_segment = {});
  void on_path_segment(ByteSpan segment);
  void stop_polling_stream();
  Gid cookie_as_gid() const;
  transport::iwarp::TaggedAddress offer_direct_path();
  std::unique_ptr<DirectLink> link_to_invitee();
  std::unique_ptr<DirectLink> link_to_inviter(ByteSpan first_segment);
  bool add_request_packet(Burst& burst, const transport::OutgoingPacket& packet);
  bool add_response_packet(Burst& burst, const transport::OutgoingPacket& packet);
  void rearm_timer();
  void count_sent(const wire::Headers& headers);
  void count_received(const wire::Headers& headers);
  void publish_counters();

  // The direct path: queue_pair_direct.cpp. Each requires lock_, except the last two.
  bool may_be_direct() const;
  void note_wire_use();
  std::unique_ptr<DirectLink> link_to(const DatagramPathKey& key);
  void open_link();
  /// Publishes the target: peers may execute requests for this queue pair on the direct path.
  void open_target();
  void change_target();
  /// Closes the target: when it returns no peer holds it, and none will. A current receive moves to
  /// `current_receive_` (XRC: it is flushed).
  void close_target();
  void flush_held();
  bool forget_held(SrqNumber srq);
  bool has_nothing_to_send() const {
    const bool is_direct = link_ != nullptr || is_datagram();
    return is_direct && handed_ == send_queue_.posted() && !fatal_ && !responder_.has_output();
  }
  /// Executes a request at once, if no other is queued before it. Returns false if it did not
  /// complete; then it goes into the send queue. Requires lock_.
  bool execute_at_once(const SendWork& work);
  void transmit_direct(TimeNs now);
  /// Returns the local buffer of a request: segments or inline data.
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
  /// Takes and releases lock_: when it returns, no thread that held lock_ before still uses the
  /// program's regions.
  void wait_for_user() { const std::lock_guard guard(lock_); }
  void serve_owner_request();
  /// Handle notifications from peers. on_notifications: for the background thread, takes lock_. The
  /// other: for query and modify, with lock_ held, so that a peer whose request was refused finds
  /// this queue pair in the error state.
  void on_notifications();
  void take_notifications();
  void on_peer_gone(const DirectPeer& peer);
  void on_attached_peer_gone();  // Handles what a killed peer had done without notifying.

  // Receiving. Each requires lock_, in a pass.
  void on_packet(const wire::Packet& packet, const SocketAddress& source,
                 const SocketAddress& destination, TimeNs now);
  /// Called after the last packet of a reception. Returns true if there is something to send now.
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
  // XRC queues of other processes: queue_pair_xrc.cpp.
  class OwnerReceives;
  MappedTarget* queue_owner_of(SrqNumber number);
  void answer_allocate_proxy();
  /// Returns false if the packet names no existing queue.
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
  /// Protection domain of the memory in the send queue's requests.
  PdNumber send_pd() const;
  void push(CompletionQueue& queue, const Completion& completion, bool solicited);
  void raise(AsyncEventType type);
  /// Events also go to each further user that opened the queue pair (`ibv_open_qp`).
  /// remove_listener returns true if no user is left.
  void add_listener(AsyncEvents& events, void* owner);
  bool remove_listener(const void* owner);
  /// Stops both engines; everything outstanding completes as flushed.
  void enter_error();
  void send_pending_responses();
  void fail();
  /// UC and UD after a local error of a send: only the send queue stops (IBA 10.3.1.7).
  void enter_send_queue_error();
  void flush_receives();
  void check_drained();
  /// Takes a receive request into `current_receive_`; XRC: from the named shared queue.
  bool take_receive(SrqNumber named = {});
  PdNumber receive_pd() const;
  CompletionQueue& receive_cq() const;
  /// The XRC queue is being destroyed. If a message is partly received into it, the queue pair
  /// fails. Requires that no pass is running.
  void forget(const SharedReceiveQueue& queue);

  Adapter& adapter_;
  region::RegionTable& regions_;
  const QueuePairOptions options_;
  const std::uint32_t served_;  // Operations that may be posted, one bit each.
  const Qpn number_;
  QueuePairRecord* const record_;
  DirectTarget& target_;
  mutable Mutex lock_;  // Protects everything below.
  struct Listener {
    AsyncEvents* events = nullptr;
    void* owner = nullptr;
  };
  std::vector<Listener> listeners_;
  QueuePairAttributes attributes_;
  SendQueue send_queue_;
  std::uint64_t executed_ = 0;  // Bytes that the current post has executed at once.
  std::uint64_t handed_ = 0;    // Requests below this slot are in the engine (UD: sent).
  std::unique_ptr<ReceiveQueue> receive_queue_;  // Null if receives are shared.
  ReceiveRequest current_receive_;
  bool holds_receive_ = false;
  const SharedReceiveQueue* receive_source_ = nullptr;  // The shared queue that it came from.
  TaggedMessage tagged_;                                // The message that took it.
  region::CachedHold placement_hold_;  // Where this reception's packets are placed.
  transport::Requester requester_;
  transport::Responder responder_;
  std::unique_ptr<Stream> stream_;    // Null: not iWARP.
  std::unique_ptr<DirectLink> link_;  // Null: requests use the wire.
  XrcQueueOwners queue_owners_;
  MappedTarget* queue_owner_ = nullptr;  // XRC: the queue owner's proxy target for the current
                                         // packet; null: a queue of this process.
  DatagramPaths paths_;                  // UD: used instead of a link.
  region::KeyCache local_key_;           // For the link's look-ups of our own regions.
  bool uses_wire_ = false;               // It may receive packets.
  transport::RequesterEffects requester_effects_;
  std::optional<transport::Slot>
      refused_slot_;  // Its memory was refused while effects were carried out.
  enum class Refused : std::uint8_t { nothing, region, receive_memory };
  Refused responder_refused_ = Refused::nothing;
  std::unique_ptr<link::FrameBatch> frames_;  // Raw packets only.
  bool fatal_ = false;                        // Enter the error state after this step.
  SocketAddress peer_;
  std::optional<port::Route>
      route_;  // For packets to `peer_`: none over iWARP, none for datagrams.
  Pacer pacer_;
  bool held_back_ = false;  // The pacer holds back output.
  TimeNs armed_deadline_ = kNever;
  bool drain_reported_ = false;
};

}  // namespace verbatim::adapter
