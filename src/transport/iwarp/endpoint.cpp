#include "transport/iwarp/endpoint.h"

#include <algorithm>
#include <utility>

namespace verbatim::transport::iwarp {
namespace {

using wire::RdmapOpcode;
using wire::RdmapTerminate;

enum class Subject : std::uint8_t { own, memory, request };

/// Returns the kind of message that caused the fault.
Subject subject_of(const Fault& fault) {
  if (fault.layer == RdmapTerminate::Layer::llp || fault.type == 0) return Subject::own;
  return fault.type == 1 ? Subject::memory : Subject::request;
}

ResponderFailed::Event event_of(const Fault& fault) {
  switch (subject_of(fault)) {
    case Subject::memory:
      return ResponderFailed::Event::access_error;
    case Subject::request:
      return ResponderFailed::Event::request_error;
    case Subject::own:
      break;
  }
  return ResponderFailed::Event::fatal;
}

/// Returns the completion status of the request that the peer refused with this fault.
Status status_of(const Fault& fault) {
  switch (subject_of(fault)) {
    case Subject::memory:
      return Status::remote_access_error;
    case Subject::request:
      return Status::remote_invalid_request;
    case Subject::own:
      break;
  }
  return Status::remote_operation_error;
}

/// RFC 5040, section 4.8: the Terminate contains the segment that caused it.
OutgoingSegment terminate_of(const Fault& fault, const wire::Ddp* header, ByteSpan payload) {
  OutgoingSegment out;
  set_rdmap(out.header, RdmapOpcode::terminate);
  out.header.message_number = 1;
  out.header.last = true;
  const bool is_read = header != nullptr && !header->tagged &&
                       rdmap_opcode(*header) == RdmapOpcode::read_request &&
                       payload.size() == wire::RdmapReadRequest::kSize;
  encode(RdmapTerminate{.layer = fault.layer,
                        .type = fault.type,
                        .code = fault.code,
                        .has_segment_length = header != nullptr,
                        .has_ddp_header = header != nullptr,
                        .has_rdmap_header = is_read},
         out.body.grow<RdmapTerminate::kSize>());
  if (header == nullptr) return out;
  store_be(out.body.grow(RdmapTerminate::kLengthBytes).data(),
           static_cast<std::uint16_t>(header->size() + payload.size()));
  encode(*header, out.body.grow(header->size()));
  if (is_read) std::ranges::copy(payload, out.body.grow(payload.size()).begin());
  return out;
}

/// Returns the request that a Terminate is about.
Requester::Refused refused_by(const RdmapTerminate& terminate, ByteSpan found_in) {
  if (!terminate.has_ddp_header) return {};
  if (terminate.has_segment_length) {
    if (found_in.size() < RdmapTerminate::kLengthBytes) return {};
    found_in = found_in.subspan(RdmapTerminate::kLengthBytes);
  }
  const auto header = wire::decode_ddp(found_in);
  if (!header || header->tagged || header->queue != wire::kRdmapRequestQueue) return {};
  Requester::Refused refused{.message_number = header->message_number};
  const ByteSpan request = found_in.subspan(header->size());
  if (terminate.has_rdmap_header && rdmap_opcode(*header) == RdmapOpcode::read_request &&
      request.size() >= wire::RdmapReadRequest::kSize) {
    refused.sink =
        wire::decode_read_request(request.first<wire::RdmapReadRequest::kSize>()).sink_stag;
  }
  return refused;
}

}  // namespace

void Endpoint::reset() {
  requester_.reset();
  responder_.reset();
  ended_ = is_held_ = has_received_segment_ = false;
  sent_terminate_.reset();
  received_terminate_.reset();
  terminate_.reset();
}

void Endpoint::configure(const EndpointConfig& config) {
  requester_.configure(config.requester);
  responder_.configure(config.responder);
}

void Endpoint::on_segment(ByteSpan segment, ReceiveSource& receives,
                          const region::RegionTable& regions, RequesterEffects& requester_effects,
                          ResponderEffects& responder_effects) {
  if (ended_) return;
  is_held_ = false;
  has_received_segment_ = true;
  const auto header = wire::decode_ddp(segment);
  if (!header) {
    const bool tagged = wire::is_tagged(segment);
    return end(fault_of(header.error(), tagged), nullptr, {}, responder_effects);
  }
  const ByteSpan payload = segment.subspan(header->size());
  const auto opcode = wire::rdmap_opcode(*header);
  if (!opcode) {
    return end(fault_of(opcode.error(), header->tagged), &*header, payload, responder_effects);
  }
  const auto fault =
      dispatch(*opcode, *header, payload, receives, regions, requester_effects, responder_effects);
  if (fault) end(*fault, &*header, payload, responder_effects);
}

std::optional<Fault> Endpoint::dispatch(RdmapOpcode opcode, const wire::Ddp& header,
                                        ByteSpan payload, ReceiveSource& receives,
                                        const region::RegionTable& regions,
                                        RequesterEffects& requester_effects,
                                        ResponderEffects& responder_effects) {
  switch (opcode) {
    case RdmapOpcode::read_response:
      return requester_.on_read_response(header, payload, requester_effects);
    case RdmapOpcode::atomic_response:
      return requester_.on_atomic_response(header, payload, requester_effects);
    case RdmapOpcode::terminate:
      on_terminate(payload, requester_effects, responder_effects);
      return std::nullopt;
    default:
      return responder_.on_segment(opcode, header, payload, receives, regions, responder_effects);
  }
}

/// A Terminate is not answered: it ends the stream, whether it can be decoded or not.
void Endpoint::on_terminate(ByteSpan payload, RequesterEffects& requester_effects,
                            ResponderEffects& responder_effects) {
  ended_ = true;
  Fault fault = faults::kOperation;
  Requester::Refused refused;
  if (payload.size() >= RdmapTerminate::kSize) {
    const auto terminate = wire::decode_terminate(payload.first<RdmapTerminate::kSize>());
    fault = {terminate.layer, terminate.type, terminate.code};
    refused = refused_by(terminate, payload.subspan(RdmapTerminate::kSize));
  }
  received_terminate_ = fault;
  requester_.on_terminate(refused, status_of(fault), requester_effects);
  responder_effects.push(ResponderFailed{});
}

void Endpoint::on_receive_memory_error(ResponderEffects& out) {
  responder_.on_receive_memory_error(out);
  end(faults::kLocalCatastrophe, nullptr, {}, out);
}

void Endpoint::end(const Fault& fault, const wire::Ddp* header, ByteSpan payload,
                   ResponderEffects& out) {
  if (std::exchange(ended_, true)) return;
  sent_terminate_ = fault;
  terminate_ = terminate_of(fault, header, payload);
  out.push(ResponderFailed{event_of(fault)});
}

bool Endpoint::poll_transmit(OutgoingSegment& out) {
  if (terminate_) {
    out = *std::exchange(terminate_, std::nullopt);
    return true;
  }
  if (ended_ || is_held_) return false;
  if (requester_.in_message()) return requester_.poll_transmit(out);
  const bool answers = responder_.in_message() || answers_next_;
  answers_next_ = !answers;
  if (answers) return responder_.poll_transmit(out) || requester_.poll_transmit(out);
  return requester_.poll_transmit(out) || responder_.poll_transmit(out);
}

}  // namespace verbatim::transport::iwarp
