#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "base/types.h"
#include "transport/effects.h"
#include "transport/ib/outgoing_packet.h"
#include "transport/ib/requester/outstanding_reads.h"
#include "transport/ib/requester/request_ring.h"
#include "transport/ib/requester/round_trip.h"
#include "transport/ib/requester/send_window.h"

/// The requester of a connected queue pair (IBA volume 1, sections 9.7 and 9.8).
namespace verbatim::transport {

struct RequesterConfig {
  wire::Service service = wire::Service::rc;  // rc, uc or xrc.
  Qpn dest_qp;
  PKey pkey = kDefaultPKey;
  Psn first_psn;
  Mtu path_mtu = Mtu::k1024;
  std::uint8_t timeout =
      14;  // Local ACK timeout: 4.096 µs × 2^timeout; 0 is for ever (IBA 9.7.6.1.3).
  std::uint8_t retry_count = 7;    // Repetitions after a time-out or a sequence error.
  std::uint8_t rnr_retry = 7;      // Repetitions after RNR NAKs; 7 is for ever.
  std::uint8_t max_rd_atomic = 1;  // READs and atomics outstanding at the peer.
  std::uint32_t window_bytes_max =
      1 << 20;  // Most in flight, requested READ bytes included: `SendWindow`.
};

/// A pure step machine: no socket, clock, lock, thread, and no allocation after construction.
///
/// Turn of a user: `post` requests; `poll_transmit` until false, sending each packet; feed packets
/// and time-outs; drain effects, `resume` while there are `more`; poll_transmit again.
class Requester {
 public:
  /// `capacity` requests at most are outstanding (the send queue's depth).
  explicit Requester(std::uint32_t capacity);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  /// At INIT to RTR: forgets everything, and at RTR to RTS: starts.
  void reset();
  /// The first call after `reset` starts the stream of packets. Later ones change the time-outs,
  /// the counts of repetitions, max_rd_atomic and the largest window; the other attributes must be
  /// as they were.
  void configure(const RequesterConfig& config);
  /// Attributes that may change while it runs (RTS to RTS, SQD): see modify_qp's table.
  const RequesterConfig& config() const { return config_; }

  bool full() const { return tail_slot_ - done_slot_ == capacity_; }
  /// Requests posted and not yet completed.
  std::uint32_t outstanding() const { return static_cast<std::uint32_t>(tail_slot_ - done_slot_); }
  /// The caller has checked that it is not full, and that a READ or atomic has max_rd_atomic of at
  /// least 1. Returns the slot: 0, 1, 2, ... A failed requester takes requests too: the next
  /// `flush` completes them.
  Slot post(const SendRequest& request);

  /// The next packet to send now, if the window and the fences allow one. `window_bytes_max`,
  /// outstanding READs, fences and waiting after an RNR NAK hold packets back. UC completes a
  /// request with the effect that `after_transmit` yields after its last packet.
  bool poll_transmit(TimeNs now, OutgoingPacket& out);
  /// After `poll_transmit` said false: the local operation (bind, local invalidate) whose turn it
  /// is, for everything before it has been sent and its fence is satisfied. The caller carries it
  /// out at once, calls `on_local_error` where it fails, and goes on with `poll_transmit`. It
  /// completes in its turn, with the effect that `after_transmit` or a later packet yields.
  std::optional<Slot> poll_local();
  /// Drains what sending itself completed: requests of UC, and local operations. Before it,
  /// `on_local_error` may still fail the request.
  void after_transmit(RequesterEffects& out) { emit(out, tail_slot_); }

  /// An ACK, NAK, READ response or atomic response for this queue pair. Others are ignored. The
  /// completion of a READ or atomic never comes with the placement of its last bytes but with the
  /// `resume` after it, so that `on_local_error` can come between.
  void on_packet(const wire::Packet& packet, TimeNs now, RequesterEffects& out);
  /// Call when `deadline()` has come; too early or too late does no harm.
  void on_timeout(TimeNs now, RequesterEffects& out);
  /// kNever while nothing is awaited. While acknowledgements flow it moves only later (but for a
  /// round trip that became shorter: being late then does no harm); an RNR NAK may bring it nearer.
  TimeNs deadline() const;
  /// Continues after effects with `more`. Effects are appended: the caller has drained and cleared
  /// the list.
  void resume(RequesterEffects& out) { emit(out, tail_slot_); }

  /// The request's own memory refused (lkey checks) while a packet was sent or a response placed:
  /// earlier requests still complete, this one ends with `status`, and the requester fails after it
  /// (IBA 9.9.2).
  void on_local_error(Slot slot, Status status, RequesterEffects& out);
  /// Error state: every outstanding request completes as flushed, those that were acknowledged as
  /// what they are.
  void flush(RequesterEffects& out);
  bool failed() const { return failed_; }
  /// Something has been sent and not acknowledged.
  bool in_flight() const { return acknowledged_ < send_sequence_; }

  /// PSN of the next new packet: query_qp's sq_psn.
  Psn next_psn() const { return psn_of(sent_end_); }
  /// Packets sent again.
  std::uint64_t retransmissions() const { return retransmissions_; }
  /// The window now, for counters: see `SendWindow`.
  std::uint32_t window_bytes() const { return window_.bytes(); }

 private:
  static constexpr Slot kNoSlot = ~Slot{0};

  // Places in the stream. A position counts window bytes, a sequence counts packets.
  Psn psn_of(Sequence sequence) const {
    return config_.first_psn + static_cast<std::uint32_t>(sequence);
  }
  /// `sequence` lies in the request or just behind it.
  std::uint64_t position_of(const PostedRequest& request, Sequence sequence) const {
    const std::uint64_t packets = sequence - request.first_sequence;
    const std::uint64_t bytes =
        sequence == request.end_sequence() ? request.length : packets * mtu_bytes_;
    return request.first_position + bytes + packets * SendWindow::kPacketOverheadBytes;
  }

  // requester_transmit.cpp
  Sequence end_of_packet(const PostedRequest& request) const;
  void pass_local();
  bool is_fenced(const PostedRequest& request) const;
  bool may_send(const PostedRequest& request, Sequence end);
  void send(const PostedRequest& request, Sequence end, TimeNs now, OutgoingPacket& out);
  void send_unacknowledged(const PostedRequest& request, Sequence end, OutgoingPacket& out);
  bool poll_probe(OutgoingPacket& out);
  void fill(Slot slot, Sequence sequence, Sequence end, OutgoingPacket& out) const;
  void fill_request_headers(const PostedRequest& request, std::uint64_t offset, std::uint32_t bytes,
                            wire::Headers& headers) const;

  // requester_response.cpp
  void on_acknowledge(wire::Syndrome syndrome, Sequence sequence, TimeNs now);
  void on_nak(wire::NakCode code, Sequence sequence, TimeNs now);
  void on_response(const wire::Packet& packet, Sequence sequence, TimeNs now,
                   RequesterEffects& out);
  bool breaks_rules(const wire::Packet& packet, Sequence sequence) const;
  void place(const wire::Packet& packet, RequesterEffects& out) const;
  bool acknowledge_before(Sequence end, TimeNs now);
  void skip_local();
  void note_progress(TimeNs now);

  // retransmit.cpp
  void on_loss(TimeNs now);
  void on_missing_response(TimeNs now);
  void go_back();
  void shrink_window();
  void on_rnr_nak(TimeNs wait_ns, Sequence sequence, TimeNs now);
  TimeNs ack_deadline() const;
  TimeNs probe_deadline() const;
  // requester.cpp
  void fail(Status status);
  std::optional<Status> due_status() const;
  void emit(RequesterEffects& out, Slot end);

  RequesterConfig config_;
  std::uint32_t capacity_;
  std::uint32_t mtu_bytes_ = 0;
  std::uint32_t full_packet_cost_ = 0;  // Window bytes of a packet of MTU size.
  bool started_ = false;
  bool failed_ = false;
  bool flushing_ = false;
  bool probe_due_ = false;
  bool waiting_rnr_ = false;
  std::uint32_t retries_ = 0;      // Since the last progress.
  std::uint32_t rnr_retries_ = 0;  // Since the last progress.
  std::uint32_t probes_ = 0;       // Since the last progress.
  bool asked_oldest_ = false;      // By the last probe: who answers that alone lacks the rest.

  RequestRing requests_;
  // done_slot_ <= ack_slot_ <= send_slot_ <= tail_slot_, and the sequences stand in the slots of
  // their names.
  Slot done_slot_ = 0;         // The oldest whose completion has not been told.
  Slot ack_slot_ = 0;          // Holds `acknowledged_`.
  Slot send_slot_ = 0;         // Holds `send_sequence_`.
  Slot tail_slot_ = 0;         // The next one to be posted.
  Slot local_end_ = 0;         // Local operations before it have been carried out.
  Slot error_slot_ = kNoSlot;  // Ends with `error_status_` when all before it have completed.
  Status error_status_{};

  Sequence acknowledged_ = 0;   // Everything before it is.
  Sequence send_sequence_ = 0;  // The next to send; goes back after a loss.
  Sequence sent_end_ = 0;       // Behind the last that was ever sent.
  Sequence posted_end_ = 0;     // Behind the last that is posted.
  std::uint64_t posted_position_ = 0;
  std::uint64_t acknowledged_position_ = 0;
  std::uint64_t ack_requested_position_ = 0;  // Behind the last packet with AckReq.

  OutstandingReads reads_;
  SendWindow window_;
  Sequence recovery_end_ = 0;  // Losses before it belong to a window that was halved already.
  Sequence went_back_to_ = kNoSequence;  // A missing response is asked for again once.

  RoundTrip round_trip_;
  TimeNs progress_at_ = 0;  // When acknowledgements last came, or sending began.
  TimeNs rnr_until_ = 0;
  Sequence rnr_sequence_ = 0;  // What found no receive request.
  std::uint64_t retransmissions_ = 0;
};

}  // namespace verbatim::transport
