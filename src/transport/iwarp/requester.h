#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/effects.h"
#include "transport/iwarp/fault.h"
#include "transport/iwarp/outgoing_segment.h"
#include "transport/iwarp/ring.h"

/// The side of an RDMAP stream that asks (RFC 5040, RFC 7306).
namespace verbatim::transport::iwarp {

/// Whether RDMAP has the operation, or it is a local one. A SEND has no immediate data: its message
/// would take two receive requests.
constexpr bool carries(Operation operation) {
  return info(operation).known && operation != Operation::send_with_immediate &&
         operation != Operation::flush && operation != Operation::atomic_write;
}

struct RequesterConfig {
  std::uint32_t segment_bytes_max = 1024;  // A DDP segment and its header: MULPDU (RFC 5044, 5.1).
  std::uint8_t max_rd_atomic = 1;          // READs and atomics at the peer: ORD.
};

/// What an empty READ or WRITE is of. Nobody looks there (RFC 5040, section 5.2), so that it may be
/// a word to who knows it.
struct TaggedAddress {
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
};

/// A pure step machine: no socket, clock, lock, thread, and no allocation after construction.
///
/// The stream below is reliable: a WRITE or SEND has done when the stream has taken it, which the
/// caller tells with `on_handed_over`, a READ or atomic when its response has come. Requests
/// complete in the order of posting. The sink of a READ is a tag of our own, which names the
/// request; its offsets are those of the request's scatter list.
class Requester {
 public:
  static constexpr std::uint32_t kReadsMax = 128;

  /// `capacity` requests at most are outstanding.
  explicit Requester(std::uint32_t capacity);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  void reset();
  /// At any time: what follows is sent so.
  void configure(const RequesterConfig& config) { config_ = config; }

  bool full() const { return tail_slot_ - done_slot_ == capacity_; }
  std::uint32_t outstanding() const { return static_cast<std::uint32_t>(tail_slot_ - done_slot_); }
  /// The caller has checked that it is not full, that the operation is one of RDMAP or a local one,
  /// and that a READ or atomic has max_rd_atomic of at least 1.
  Slot post(const SendRequest& request);
  /// What an initiator of a peer-to-peer connection sends first (RFC 6581, section 9), or by which
  /// it tells a peer of this machine more: an empty WRITE or READ. It leaves even where everything
  /// else has failed.
  enum class RtrMessage : std::uint8_t { write, read };
  void post_rtr(RtrMessage ready, const TaggedAddress& place = {}) {
    rtr_ = ready;
    rtr_address_ = place;
  }

  /// The next segment, if fences and max_rd_atomic allow one.
  bool poll_transmit(OutgoingSegment& out);
  /// Within a message, which nothing may interrupt (RFC 5041, section 5.2).
  bool in_message() const { return offset_ > 0; }
  /// After `poll_transmit` said false: the local operation whose turn it is. The caller carries it
  /// out at once, calls `on_local_error` where it fails, and goes on with `poll_transmit`.
  std::optional<Slot> poll_local();
  /// All segments that were polled are the stream's.
  void on_handed_over(RequesterEffects& out);

  /// Of a segment that is of this kind. The completion of a READ or atomic never comes with the
  /// placement of its last bytes but with the `resume` after it, so that `on_local_error` can come
  /// between.
  std::optional<Fault> on_read_response(const wire::Ddp& header, ByteSpan payload,
                                        RequesterEffects& out);
  std::optional<Fault> on_atomic_response(const wire::Ddp& header, ByteSpan payload,
                                          RequesterEffects& out);
  /// What a Terminate message says of the READ or atomic that it is about. 0: nothing.
  struct Refused {
    std::uint32_t message_number = 0;
    std::uint32_t sink = 0;  // Where the request says it: `siw` (6.1) gives READs a wrong number.
  };
  /// The peer has ended the stream.
  void on_terminate(const Refused& refused, Status status, RequesterEffects& out);
  /// Continues after effects with `more`. Effects are appended: the caller has drained and cleared
  /// the list.
  void resume(RequesterEffects& out) { emit(out); }

  /// The request's own memory refused, or a local operation failed: it ends with `status`, those
  /// before it that have not ended are flushed, and the requester fails.
  void on_local_error(Slot slot, Status status, RequesterEffects& out);
  /// Every outstanding request completes: as flushed where it has not been done.
  void flush(RequesterEffects& out);
  bool failed() const { return failed_; }

 private:
  static constexpr Slot kNoSlot = ~Slot{0};
  /// A READ or atomic at the peer. Responses come in the order of the requests (RFC 5040, 5.5).
  struct Outstanding {
    Slot slot = kNoSlot;
    std::uint32_t message_number = 0;
    std::uint64_t received = 0;  // Bytes.
  };

  bool may_begin(const SendRequest& request) const;
  bool poll_rtr(OutgoingSegment& out);
  void fill_tagged(const SendRequest& request, OutgoingSegment& out);
  void fill_send(const SendRequest& request, OutgoingSegment& out);
  void fill_immediate(const SendRequest& request, OutgoingSegment& out);
  void fill_read(const wire::RdmapReadRequest& request, Slot slot, OutgoingSegment& out);
  void fill_atomic(const SendRequest& request, OutgoingSegment& out);
  void begin_request(Slot slot, OutgoingSegment& out);
  std::uint32_t take_payload(const SendRequest& request, OutgoingSegment& out);
  void end_request();
  void end_response(RequesterEffects& out);
  bool oldest_awaits_response() const;
  bool is(const Outstanding& asked, const Refused& refused) const;
  std::optional<Status> due_status() const;
  void emit(RequesterEffects& out);
  /// The tag of a READ's sink. A peer can name it only while the READ is the oldest at it.
  static std::uint32_t sink_of(Slot slot) { return static_cast<std::uint32_t>(slot + 1); }
  SendRequest& at(Slot slot) { return requests_[slot & mask_]; }

  RequesterConfig config_;
  std::uint32_t capacity_;
  Slot mask_;
  std::unique_ptr<SendRequest[]> requests_;
  // Slots: done <= handed over <= to send <= posted.
  Slot done_slot_ = 0;
  Slot handed_slot_ = 0;
  Slot send_slot_ = 0;
  Slot tail_slot_ = 0;
  std::uint64_t offset_ = 0;       // Bytes of the request to send that have been sent.
  bool immediate_is_due_ = false;  // Of the request to send: its bytes have been sent.
  std::optional<RtrMessage> rtr_;
  TaggedAddress rtr_address_;
  std::uint32_t send_number_ = 0;  // Of the last message to each queue.
  std::uint32_t request_number_ = 0;
  std::uint32_t response_number_ = 0;  // Of the last atomic response from the peer.
  Ring<Outstanding, kReadsMax> reads_;
  bool failed_ = false;
  Slot error_slot_ = kNoSlot;
  Status error_status_{};
};

}  // namespace verbatim::transport::iwarp
