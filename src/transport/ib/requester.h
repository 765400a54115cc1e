#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/inplace_vector.h"
#include "base/time.h"
#include "base/types.h"
#include "transport/ib/work.h"

/// The requester of a connected queue pair (IBA volume 1, sections 9.7 and 9.8).
namespace verbatim::transport {

struct RequesterConfig {
  wire::Service service = wire::Service::rc;  // rc or uc.
  Qpn dest_qp;
  PKey pkey = kDefaultPKey;
  Psn first_psn;
  Mtu path_mtu = Mtu::k1024;
  std::uint8_t timeout = 14;      // Local ACK timeout: 4.096 µs × 2^timeout; 0 is for ever (IBA 9.7.6.1.3).
  std::uint8_t retry_count = 7;   // Repetitions after a time-out or a sequence error.
  std::uint8_t rnr_retry = 7;     // Repetitions after RNR NAKs; 7 is for ever.
  std::uint8_t max_rd_atomic = 1; // READs and atomics outstanding at the peer.
  std::uint32_t window_bytes_max = 1 << 20;  // Most payload in flight, requested READ bytes included.
};

/// The payload of a READ response goes to bytes [offset, ...) of the request's scatter list.
struct PlaceResponse {
  Slot slot = 0;
  std::uint64_t offset = 0;
  ByteSpan payload;  // Borrowed from the packet.
};
/// The value before an atomic goes into the request's 8 bytes, in host byte order.
struct PlaceAtomic {
  Slot slot = 0;
  std::uint64_t original = 0;
};
/// The request has ended: exactly once each, in the order of posting. Whether a success enters the completion
/// queue (signalled or not) is the adapter's matter.
struct CompleteRequest {
  Slot slot = 0;
  Status status = Status::success;
};
/// The queue pair goes to the error state; the requester has stopped. The adapter calls `flush` next.
struct RequesterFailed {
  Status status{};
};

using RequesterEffect = std::variant<PlaceResponse, PlaceAtomic, CompleteRequest, RequesterFailed>;

/// What an input brings about, to be drained in order before the next input. One acknowledgement can
/// complete many requests, so the list is bounded by the requester: it ends after `capacity` effects with
/// `more` set, and the caller calls `resume` after draining.
struct RequesterEffects {
  InplaceVector<RequesterEffect, 64> list;
  bool more = false;
};

/// A pure step machine: no socket, clock, lock, thread, and no allocation after construction.
///
/// Turn of a user: `post` requests; `poll_transmit` until false, sending each packet; feed packets
/// and time-outs; drain effects; poll_transmit again.
class Requester {
 public:
  /// `capacity` requests at most are outstanding (the send queue's depth).
  explicit Requester(std::uint32_t capacity);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  /// At INIT to RTR: forgets everything, and at RTR to RTS: starts.
  void reset();
  void configure(const RequesterConfig& config);
  /// Attributes that may change while it runs (RTS to RTS, SQD): see modify_qp's table.
  const RequesterConfig& config() const { return config_; }

  bool full() const;
  /// Requests posted and not yet completed.
  std::uint32_t outstanding() const;
  /// The caller has checked that it is not full. Returns the slot: 0, 1, 2, ...
  Slot post(const SendRequest& request);

  /// The next packet to send now, if the window and the fences allow one. `window_bytes_max`, outstanding
  /// READs, fences and waiting after an RNR NAK hold packets back. UC completes a request with the effect that
  /// `on_transmitted` yields after its last packet.
  bool poll_transmit(TimeNs now, OutgoingPacket& out);
  /// UC and RC: drains what sending itself completed (UC requests).
  void after_transmit(RequesterEffects& out);

  /// An ACK, NAK, READ response or atomic response for this queue pair. Others are ignored.
  void on_packet(const wire::Packet& packet, TimeNs now, RequesterEffects& out);
  /// Call when `deadline()` has come.
  void on_timeout(TimeNs now, RequesterEffects& out);
  /// kNever while nothing is awaited.
  TimeNs deadline() const;
  /// Continues after effects with `more`.
  void resume(RequesterEffects& out);

  /// The request's own memory refused (lkey checks): earlier requests still complete, this one ends with
  /// `status`, and the requester fails after it (IBA 10.7.2.4? local protection errors).
  void on_local_error(Slot slot, Status status, RequesterEffects& out);
  /// Error state: every outstanding request completes as flushed (or with `first` for the oldest one).
  void flush(RequesterEffects& out);
  bool failed() const { return failed_; }

  Psn next_psn() const;      // Of the next new packet: query_qp's sq_psn.
  std::uint64_t retransmissions() const;  // Packets sent again.

 private:
  RequesterConfig config_;
  bool failed_ = false;
};

}  // namespace verbatim::transport
