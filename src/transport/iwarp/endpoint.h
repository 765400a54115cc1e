#pragma once

#include <optional>

#include "transport/iwarp/requester.h"
#include "transport/iwarp/responder.h"

/// One end of an RDMAP stream: requester, responder, and termination.
namespace verbatim::transport::iwarp {

struct EndpointConfig {
  RequesterConfig requester;
  ResponderConfig responder;
};

/// A pure step machine. How to use it: `requester().post`; `poll_transmit` until it returns false,
/// and pass each segment to the stream; `requester().on_handed_over`; pass in segments; carry out
/// the effects.
///
/// If an effect cannot be carried out, the adapter drops the remaining effects of that segment and
/// reports it here. After ResponderFailed, the adapter sends what `poll_transmit` still returns:
/// the Terminate message with the reason. Further segments are ignored.
class Endpoint {
 public:
  /// `capacity`: requests outstanding at most.
  explicit Endpoint(std::uint32_t capacity) : requester_(capacity) {}

  void reset();
  void configure(const EndpointConfig& config);
  Requester& requester() { return requester_; }
  Responder& responder() { return responder_; }

  /// RFC 5044, section 7.1.3: the accepting side sends nothing before the initiator has.
  void hold_until_first_segment() { is_held_ = true; }
  void hold_no_longer() { is_held_ = false; }
  /// Returns true after the first received segment.
  bool has_received_segment() const { return has_received_segment_; }
  void on_segment(ByteSpan segment, ReceiveSource& receives, const region::RegionTable& regions,
                  RequesterEffects& requester_effects, ResponderEffects& responder_effects);
  /// The stream's bytes are not valid FPDUs.
  void on_stream_error(wire::WireError error, ResponderEffects& out) {
    end(fault_of(error, false), nullptr, {}, out);
  }
  /// The region of a PlaceWrite, an ExecuteAtomic, an InvalidateKey or a READ response was
  /// deregistered meanwhile.
  void on_region_error(ResponderEffects& out) { end(faults::kInvalidStag, nullptr, {}, out); }
  void on_receive_memory_error(ResponderEffects& out);
  /// A request's own memory was refused. The caller reports it to the requester, too, for its
  /// completion.
  void on_local_error(ResponderEffects& out) { end(faults::kLocalCatastrophe, nullptr, {}, out); }

  bool poll_transmit(OutgoingSegment& out);
  /// Returns true if either side has ended the stream; only a Terminate is sent from then on.
  bool ended() const { return ended_; }
  /// The fault in the Terminate message that this side has sent, or the peer.
  std::optional<Fault> sent_terminate() const { return sent_terminate_; }
  std::optional<Fault> received_terminate() const { return received_terminate_; }

 private:
  std::optional<Fault> dispatch(wire::RdmapOpcode opcode, const wire::Ddp& header, ByteSpan payload,
                                ReceiveSource& receives, const region::RegionTable& regions,
                                RequesterEffects& requester_effects,
                                ResponderEffects& responder_effects);
  void on_terminate(ByteSpan payload, RequesterEffects& requester_effects,
                    ResponderEffects& responder_effects);
  void end(const Fault& fault, const wire::Ddp* header, ByteSpan payload, ResponderEffects& out);

  Requester requester_;
  Responder responder_;
  bool ended_ = false;
  bool is_held_ = false;
  bool has_received_segment_ = false;
  bool answers_next_ = true;  // Requests and responses alternate.
  std::optional<Fault> sent_terminate_;
  std::optional<Fault> received_terminate_;
  std::optional<OutgoingSegment> terminate_;  // The message to be sent.
};

}  // namespace verbatim::transport::iwarp
