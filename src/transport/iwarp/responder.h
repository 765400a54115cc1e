#pragma once

#include <cstdint>
#include <optional>

#include "region/region_table.h"
#include "transport/effects.h"
#include "transport/iwarp/fault.h"
#include "transport/iwarp/outgoing_segment.h"
#include "transport/iwarp/ring.h"

/// The side of an RDMAP stream that is asked (RFC 5040, RFC 7306).
namespace verbatim::transport::iwarp {

struct ResponderConfig {
  std::uint32_t segment_bytes_max = 1024;  // As a requester's.
  std::uint8_t max_dest_rd_atomic = 1;     // READs and atomics not yet answered: IRD.
  std::uint32_t access = 0;                // region::kRemoteWrite | kRemoteRead | kRemoteAtomic.
  PdNumber pd{};
  Qpn own_qp;  // What type 2 memory windows are bound to.
};

/// Where the responder takes receive requests from. False: there is none, which ends the stream.
class ReceiveSource {
 public:
  virtual bool take(Receive& out) = 0;

 protected:
  ~ReceiveSource() = default;
};

/// A pure step machine, as the requester is. The adapter drains the effects of a segment in order.
/// What it cannot carry out it tells the endpoint, which ends the stream.
class Responder {
 public:
  static constexpr std::uint32_t kResponsesMax = 128;

  Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  void reset();
  /// At any time.
  void configure(const ResponderConfig& config) { config_ = config; }

  /// Of a segment of a SEND, Immediate Data, WRITE, READ request or atomic request.
  std::optional<Fault> on_segment(wire::RdmapOpcode opcode, const wire::Ddp& header,
                                  ByteSpan payload, ReceiveSource& receives,
                                  const region::RegionTable& regions, ResponderEffects& out);
  /// What an ExecuteAtomic found.
  void on_atomic_result(std::uint64_t original);
  /// The memory of the receive in use refused.
  void on_receive_memory_error(ResponderEffects& out);

  bool has_output() const { return !responses_.empty(); }
  bool poll_transmit(OutgoingSegment& out);
  /// Within a response, which nothing may interrupt.
  bool in_message() const { return sent_ > 0; }

 private:
  struct Response {
    bool is_read = false;
    wire::RdmapReadRequest read{};
    std::uint32_t identifier = 0;  // Of an atomic, as the next.
    std::uint64_t original = 0;
  };

  std::optional<Fault> on_send(wire::RdmapOpcode opcode, const wire::Ddp& header, ByteSpan payload,
                               ReceiveSource& receives, const region::RegionTable& regions,
                               ResponderEffects& out);
  std::optional<Fault> take_receive(wire::RdmapOpcode opcode, const wire::Ddp& header,
                                    ReceiveSource& receives);
  void complete_send(wire::RdmapOpcode opcode, const wire::Ddp& header, ResponderEffects& out);
  std::optional<Fault> on_immediate(wire::RdmapOpcode opcode, const wire::Ddp& header,
                                    ByteSpan payload, ReceiveSource& receives,
                                    ResponderEffects& out);
  std::optional<Fault> on_write(const wire::Ddp& header, ByteSpan payload,
                                const region::RegionTable& regions, ResponderEffects& out);
  std::optional<Fault> begin_response(const wire::Ddp& header);
  std::optional<Fault> on_read_request(const wire::Ddp& header, ByteSpan payload,
                                       const region::RegionTable& regions);
  std::optional<Fault> on_atomic_request(const wire::Ddp& header, ByteSpan payload,
                                         const region::RegionTable& regions, ResponderEffects& out);
  region::Accessor accessor() const { return {config_.pd, config_.own_qp}; }

  ResponderConfig config_;
  std::optional<Receive> receive_;  // Of the SEND that has begun and not ended.
  wire::RdmapOpcode opcode_{};      // And its kind.
  std::uint64_t received_ = 0;      // And its bytes so far.
  std::uint64_t written_ = 0;       // Bytes of the last WRITE.
  bool write_ended_ = true;
  std::uint32_t send_number_ = 0;  // Of the last whole message from each queue.
  std::uint32_t request_number_ = 0;
  std::uint32_t response_number_ = 0;  // Of the last atomic response that was sent.
  Ring<Response, kResponsesMax> responses_;
  std::uint64_t sent_ = 0;  // Bytes of the first one.
};

}  // namespace verbatim::transport::iwarp
