#pragma once

#include <cstdint>
#include <optional>

#include "region/region_table.h"
#include "transport/effects.h"
#include "transport/iwarp/fault.h"
#include "transport/iwarp/outgoing_segment.h"
#include "transport/iwarp/ring.h"

/// The responder of an RDMAP stream (RFC 5040, RFC 7306).
namespace verbatim::transport::iwarp {

struct ResponderConfig {
  std::uint32_t segment_bytes_max = 1024;  // As the requester's.
  std::uint8_t max_dest_rd_atomic = 1;     // READs and atomics that are not answered yet: IRD.
  std::uint32_t access = 0;                // region::kRemoteWrite | kRemoteRead | kRemoteAtomic.
  PdNumber pd{};
  Qpn own_qp;  // Type 2 memory windows are bound to it.
};

/// Source of receive requests. Returns false if none is posted, which ends the stream.
class ReceiveSource {
 public:
  virtual bool take(Receive& out) = 0;

 protected:
  ~ReceiveSource() = default;
};

/// A pure step machine, as the requester. The adapter carries out the effects of a segment in
/// order. If it cannot carry one out, it reports that to the endpoint, which ends the stream.
class Responder {
 public:
  static constexpr std::uint32_t kResponsesMax = 128;

  Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  void reset();
  /// May be called at any time.
  void configure(const ResponderConfig& config) { config_ = config; }

  /// Handles a segment of a SEND, Immediate Data, WRITE, Read Request or atomic request.
  std::optional<Fault> on_segment(wire::RdmapOpcode opcode, const wire::Ddp& header,
                                  ByteSpan payload, ReceiveSource& receives,
                                  const region::RegionTable& regions, ResponderEffects& out);
  /// The old value of an ExecuteAtomic.
  void on_atomic_result(std::uint64_t original);
  /// The memory of the current receive was refused.
  void on_receive_memory_error(ResponderEffects& out);

  bool has_output() const { return !responses_.empty(); }
  bool poll_transmit(OutgoingSegment& out);
  /// Returns true within a response, which must not be interrupted.
  bool in_message() const { return sent_ > 0; }

 private:
  struct Response {
    bool is_read = false;
    wire::RdmapReadRequest read{};
    std::uint32_t identifier = 0;  // Atomics only, like the next field.
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
  std::optional<Receive> receive_;  // Of the SEND that is being received.
  wire::RdmapOpcode opcode_{};      // The kind of that SEND.
  std::uint64_t received_ = 0;      // Its bytes so far.
  std::uint64_t written_ = 0;       // Bytes of the last WRITE.
  bool write_ended_ = true;
  std::uint32_t send_number_ = 0;  // Number of the last complete message of each queue.
  std::uint32_t request_number_ = 0;
  std::uint32_t response_number_ = 0;  // Number of the last atomic response that was sent.
  Ring<Response, kResponsesMax> responses_;
  std::uint64_t sent_ = 0;  // Bytes sent of the first answer.
};

}  // namespace verbatim::transport::iwarp
