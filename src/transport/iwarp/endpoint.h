#pragma once

#include <optional>

#include "transport/iwarp/requester.h"
#include "transport/iwarp/responder.h"

/// One end of an RDMAP stream: both sides, and how it ends.
namespace verbatim::transport::iwarp {

struct EndpointConfig {
  RequesterConfig requester;
  ResponderConfig responder;
};

/// A pure step machine. Turn of a user: `requester().post`; `poll_transmit` until false, handing
/// each segment to the stream; `requester().on_handed_over`; feed segments; drain effects.
///
/// When an effect cannot be carried out, the adapter drops the remaining effects of that segment
/// and tells. After ResponderFailed, what `poll_transmit` still yields is sent: the Terminate
/// message that tells the peer why. Segments are ignored from then on.
class Endpoint {
 public:
  /// `capacity` requests at most are outstanding.
  explicit Endpoint(std::uint32_t capacity) : requester_(capacity) {}

  void reset();
  void configure(const EndpointConfig& config);
  Requester& requester() { return requester_; }
  Responder& responder() { return responder_; }

  /// RFC 5044, section 7.1.3: who accepts sends nothing before the other side has.
  void hold_until_first_segment() { is_held_ = true; }
  void hold_no_longer() { is_held_ = false; }
  /// A segment has come.
  bool has_received_segment() const { return has_received_segment_; }
  void on_segment(ByteSpan segment, ReceiveSource& receives, const region::RegionTable& regions,
                  RequesterEffects& requester_effects, ResponderEffects& responder_effects);
  /// The stream's bytes are no FPDUs.
  void on_stream_error(wire::WireError error, ResponderEffects& out) {
    end(fault_of(error, false), nullptr, {}, out);
  }
  /// The region that a PlaceWrite, an ExecuteAtomic, an InvalidateKey or a READ response names has
  /// gone meanwhile.
  void on_region_error(ResponderEffects& out) { end(faults::kInvalidStag, nullptr, {}, out); }
  void on_receive_memory_error(ResponderEffects& out);
  /// A request's own memory refused. The requester is told as well, for its completion.
  void on_local_error(ResponderEffects& out) { end(faults::kLocalCatastrophe, nullptr, {}, out); }

  bool poll_transmit(OutgoingSegment& out);
  /// By either side; nothing but a Terminate leaves from now on.
  bool ended() const { return ended_; }
  /// Why, where this side or the peer has said so.
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
  bool answers_next_ = true;  // Requests and responses take turns.
  std::optional<Fault> sent_terminate_;
  std::optional<Fault> received_terminate_;
  std::optional<OutgoingSegment> terminate_;  // To be sent.
};

}  // namespace verbatim::transport::iwarp
