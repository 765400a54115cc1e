#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/effects.h"
#include "transport/iwarp/fault.h"
#include "transport/iwarp/outgoing_segment.h"
#include "transport/iwarp/ring.h"

/// The requester of an RDMAP stream (RFC 5040, RFC 7306).
namespace verbatim::transport::iwarp {

/// Returns true if RDMAP has the operation, or it is a local one. A SEND has no immediate data: as
/// a separate message it would take a second receive request.
constexpr bool carries(Operation operation) {
  return info(operation).known && operation != Operation::send_with_immediate &&
         operation != Operation::flush && operation != Operation::atomic_write;
}

struct RequesterConfig {
  std::uint32_t segment_bytes_max = 1024;  // DDP segment with header: MULPDU (RFC 5044, 5.1).
  std::uint8_t max_rd_atomic = 1;          // READs and atomics outstanding at the peer: ORD.
};

/// STag and offset of a zero-length READ or WRITE. Responders do not check them (RFC 5040, 5.2);
/// Verbatim uses them to negotiate the direct path.
struct TaggedAddress {
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
};

/// A pure step machine: no socket, clock, lock, thread, and no allocation after construction.
///
/// The TCP stream is reliable. A WRITE or SEND is done when the stream has taken it, which the
/// caller reports with `on_handed_over`; a READ or atomic when its response has arrived. Requests
/// complete in the order of posting. The sink STag of a READ is the request's number, and offsets
/// count in the request's scatter list.
class Requester {
 public:
  static constexpr std::uint32_t kReadsMax = 128;

  /// `capacity`: requests outstanding at most.
  explicit Requester(std::uint32_t capacity);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  void reset();
  /// May be called at any time; applies to what is sent afterwards.
  void configure(const RequesterConfig& config) { config_ = config; }

  bool full() const { return tail_slot_ - done_slot_ == capacity_; }
  std::uint32_t outstanding() const { return static_cast<std::uint32_t>(tail_slot_ - done_slot_); }
  /// Requires that it is not full, an operation that RDMAP has or a local one, and max_rd_atomic of
  /// at least 1 for a READ or atomic.
  Slot post(const SendRequest& request);
  /// The RTR message: an empty WRITE or READ that the initiator of a peer-to-peer connection sends
  /// first (RFC 6581, section 9); to a peer on this machine it says more. It is sent even if
  /// everything else has failed.
  enum class RtrMessage : std::uint8_t { write, read };
  void post_rtr(RtrMessage ready, const TaggedAddress& place = {}) {
    rtr_ = ready;
    rtr_address_ = place;
  }

  /// Returns the next segment, or false if a fence or max_rd_atomic forbids one.
  bool poll_transmit(OutgoingSegment& out);
  /// Returns true within a message, which must not be interrupted (RFC 5041, section 5.2).
  bool in_message() const { return offset_ > 0; }
  /// After `poll_transmit` has returned false: returns the next local operation. The caller
  /// executes it at once, calls `on_local_error` if it fails, and goes on with `poll_transmit`.
  std::optional<Slot> poll_local();
  /// The stream has taken all segments that were polled.
  void on_handed_over(RequesterEffects& out);

  /// Handle a segment of this kind. A READ or atomic does not complete in the effects that place
  /// its last bytes, but in the `resume` after them, so that `on_local_error` can come between.
  std::optional<Fault> on_read_response(const wire::Ddp& header, ByteSpan payload,
                                        RequesterEffects& out);
  std::optional<Fault> on_atomic_response(const wire::Ddp& header, ByteSpan payload,
                                          RequesterEffects& out);
  /// What a Terminate message says about the refused READ or atomic; 0: nothing.
  struct Refused {
    std::uint32_t message_number = 0;
    std::uint32_t sink = 0;  // If the message has it: `siw` (6.1) gives READs a wrong number.
  };
  /// The peer has ended the stream.
  void on_terminate(const Refused& refused, Status status, RequesterEffects& out);
  /// Continues after effects with `more`. Appends effects: the caller has emptied the list.
  void resume(RequesterEffects& out) { emit(out); }

  /// The request's own memory was refused, or a local operation failed: it completes with `status`,
  /// earlier incomplete ones are flushed, and the requester fails.
  void on_local_error(Slot slot, Status status, RequesterEffects& out);
  /// Completes all outstanding requests; as flushed unless they are done.
  void flush(RequesterEffects& out);
  bool failed() const { return failed_; }

 private:
  static constexpr Slot kNoSlot = ~Slot{0};
  /// A READ or atomic at the peer. Responses arrive in the order of the requests (RFC 5040, 5.5).
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
  /// The sink STag of a READ. A peer can use it only while the READ is the oldest outstanding one.
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
  std::uint64_t offset_ = 0;  // Bytes of the current request that are sent.
  // The current request's bytes are sent, its immediate data is not.
  bool immediate_is_due_ = false;
  std::optional<RtrMessage> rtr_;
  TaggedAddress rtr_address_;
  std::uint32_t send_number_ = 0;  // Number of the last message to each queue.
  std::uint32_t request_number_ = 0;
  std::uint32_t response_number_ = 0;  // Number of the last atomic response from the peer.
  Ring<Outstanding, kReadsMax> reads_;
  bool failed_ = false;
  Slot error_slot_ = kNoSlot;
  Status error_status_{};
};

}  // namespace verbatim::transport::iwarp
