#pragma once

#include <cstdint>
#include <optional>
#include <utility>

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
  // Local ACK timeout: 4.096 µs × 2^timeout; 0: infinite (IBA 9.7.6.1.3).
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;    // Retries after a time-out or a sequence error.
  std::uint8_t rnr_retry = 7;      // Retries after RNR NAKs; 7: without limit.
  std::uint8_t max_rd_atomic = 1;  // READs and atomics outstanding at the peer.
  std::uint32_t window_bytes_max =
      1 << 20;  // Bytes in flight at most, with requested READ bytes: `SendWindow`.
  /// The link has credits and loses nothing: the window has its largest size from the start, and
  /// silence is no reason to probe.
  bool lossless = false;
  /// After some silence, long before the ACK time-out, a WRITE or SEND is sent again once.
  bool probes = true;
};

/// A pure step machine: no socket, clock, lock, thread, and no allocation after construction.
///
/// How to use it: `post` requests; call `poll_transmit` until it returns false, and send each
/// packet; pass in packets and time-outs; carry out the effects and `resume` while there are
/// `more`; then `poll_transmit` again.
class Requester {
 public:
  /// `capacity`: requests outstanding at most (the send queue's depth).
  explicit Requester(std::uint32_t capacity);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  /// Called for INIT to RTR: forgets everything. For RTR to RTS: starts.
  void reset();
  /// The first call after `reset` starts the packet stream. Later ones change the time-outs, retry
  /// counts, max_rd_atomic and the largest window; all other attributes must be unchanged.
  void configure(const RequesterConfig& config);
  /// Attributes that may change while it runs (RTS to RTS, SQD): see the table of modify_qp.
  const RequesterConfig& config() const { return config_; }
  /// Of packets from now on.
  void set_pkey(PKey pkey) { config_.pkey = pkey; }
  /// True: retries that are exhausted ask for the alternate path, which has retries of its own,
  /// before the requester fails (IBA 17.2.8.1).
  void set_may_migrate(bool may_migrate) { may_migrate_ = may_migrate; }
  /// Returns true once if the retries have asked for the alternate path.
  bool take_migration() { return std::exchange(wants_to_migrate_, false); }
  /// The local ACK timeout of the path that is in use.
  void set_timeout(std::uint8_t timeout) { config_.timeout = timeout; }

  bool full() const { return tail_slot_ - done_slot_ == capacity_; }
  /// Number of requests that are posted and not completed.
  std::uint32_t outstanding() const { return static_cast<std::uint32_t>(tail_slot_ - done_slot_); }
  /// Requires that it is not full, and max_rd_atomic of at least 1 for a READ or atomic. Returns
  /// the slot: 0, 1, 2, ... A failed requester accepts requests, too: the next `flush` completes
  /// them.
  Slot post(const SendRequest& request);

  /// Returns the next packet to send, or false if window, max_rd_atomic, a fence or the wait after
  /// an RNR NAK forbids one. UC: the effects of `after_transmit` complete a request after its last
  /// packet.
  bool poll_transmit(TimeNs now, OutgoingPacket& out);
  /// After `poll_transmit` has returned false: returns the next local operation (bind, local
  /// invalidate), if all requests before it are sent and its fence allows it. The caller executes
  /// it at once, calls `on_local_error` if it fails, and goes on with `poll_transmit`. It completes
  /// in order, by an effect of `after_transmit` or of a later packet.
  std::optional<Slot> poll_local();
  /// Appends completions that sending itself caused: UC requests and local operations. Until then
  /// `on_local_error` can fail the request.
  void after_transmit(RequesterEffects& out) { emit(out, tail_slot_); }

  /// Handles an ACK, NAK, READ response or atomic response for this queue pair; ignores other
  /// packets. A READ or atomic does not complete in the effects that place its last bytes, but in
  /// the `resume` after them, so that `on_local_error` can come between.
  void on_packet(const wire::Packet& packet, TimeNs now, RequesterEffects& out);
  /// To be called at `deadline()`. Calls that are too early or too late are harmless.
  void on_timeout(TimeNs now, RequesterEffects& out);
  /// Returns kNever if nothing is awaited. While acknowledgements arrive it only moves later
  /// (unless the round trip became shorter; then a late call is harmless). An RNR NAK may move it
  /// earlier.
  TimeNs deadline() const;
  /// Continues after effects with `more`. Appends effects: the caller has emptied the list.
  void resume(RequesterEffects& out) { emit(out, tail_slot_); }

  /// The request's own memory was refused (lkey check) while a packet was sent or a response
  /// placed. Earlier requests still complete, this one completes with `status`, and the requester
  /// fails after it (IBA 9.9.2).
  void on_local_error(Slot slot, Status status, RequesterEffects& out);
  /// Error state: completes each outstanding request; acknowledged ones with success, the others as
  /// flushed.
  void flush(RequesterEffects& out);
  bool failed() const { return failed_; }
  /// Returns false if `poll_transmit` would certainly return false.
  bool may_have_output() const {
    return !failed_ && (probe_due_ || send_slot_ < std::min(tail_slot_, error_slot_));
  }
  /// Returns true if packets are sent and not acknowledged.
  bool in_flight() const { return acknowledged_ < send_sequence_; }

  /// PSN of the next new packet; sq_psn of query_qp.
  Psn next_psn() const { return psn_of(sent_end_); }
  /// Number of packets that were sent again.
  std::uint64_t retransmissions() const { return retransmissions_; }
  /// The current window, for counters: see `SendWindow`.
  std::uint32_t window_bytes() const { return window_.bytes(); }

 private:
  static constexpr Slot kNoSlot = ~Slot{0};

  // Conversions: a position counts window bytes, a sequence counts packets.
  Psn psn_of(Sequence sequence) const {
    return config_.first_psn + static_cast<std::uint32_t>(sequence);
  }
  /// Requires that `sequence` is in the request or directly after it.
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
  std::uint32_t full_packet_cost_ = 0;  // Window bytes of an MTU-sized packet.
  bool started_ = false;
  bool failed_ = false;
  bool flushing_ = false;
  bool probe_due_ = false;
  bool waiting_rnr_ = false;
  bool may_migrate_ = false;
  bool wants_to_migrate_ = false;
  std::uint32_t retries_ = 0;      // Since the last progress.
  std::uint32_t rnr_retries_ = 0;  // Since the last progress.
  bool has_probed_ = false;        // Since the last progress.

  RequestRing requests_;
  // done_slot_ <= ack_slot_ <= send_slot_ <= tail_slot_. The comments say which slot contains which
  // sequence.
  Slot done_slot_ = 0;         // The oldest request whose completion was not reported.
  Slot ack_slot_ = 0;          // Contains `acknowledged_`.
  Slot send_slot_ = 0;         // Contains `send_sequence_`.
  Slot tail_slot_ = 0;         // The next one to be posted.
  Slot local_end_ = 0;         // Local operations before it are executed.
  Slot error_slot_ = kNoSlot;  // Completes with `error_status_` after all earlier ones.
  Status error_status_{};

  Sequence acknowledged_ = 0;   // All packets before it are acknowledged.
  Sequence send_sequence_ = 0;  // The next to send; moves back after a loss.
  Sequence sent_end_ = 0;       // After the last packet that was ever sent.
  Sequence posted_end_ = 0;     // After the last packet that is posted.
  std::uint64_t posted_position_ = 0;
  std::uint64_t acknowledged_position_ = 0;
  std::uint64_t ack_requested_position_ = 0;  // After the last packet with AckReq.

  OutstandingReads reads_;
  SendWindow window_;
  Sequence recovery_end_ = 0;            // Losses before it do not halve the window again.
  Sequence went_back_to_ = kNoSequence;  // A missing response is requested again only once.

  RoundTrip round_trip_;
  TimeNs progress_at_ = 0;  // When the last acknowledgement came, or sending began.
  TimeNs rnr_until_ = 0;
  Sequence rnr_sequence_ = 0;  // The packet that found no receive request.
  std::uint64_t retransmissions_ = 0;
};

}  // namespace verbatim::transport
