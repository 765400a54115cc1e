#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "base/types.h"
#include "region/region_table.h"
#include "transport/effects.h"
#include "transport/ib/outgoing_packet.h"
#include "transport/ib/responder/responder_checks.h"
#include "transport/ib/responder/responder_config.h"
#include "transport/ib/responder/responder_responses.h"

/// The responder of a connected queue pair (IBA volume 1, section 9.7 and 9.8).
namespace verbatim::transport {

/// Source of receive requests: a receive queue, a shared one, or a test's deque.
class ReceiveSource {
 public:
  /// Takes the next receive request for the message that `packet` begins (WRITE with immediate:
  /// ends).
  virtual bool take(const wire::Packet& packet, Receive& out) = 0;
  /// XRC: returns the protection domain of a shared receive queue of the responder's XRC domain;
  /// nothing if there is no such queue.
  virtual std::optional<PdNumber> domain_of(SrqNumber) { return std::nullopt; }

 protected:
  ~ReceiveSource() = default;
};

/// Events since `configure` that are not plain progress.
struct ResponderCounters {
  std::uint64_t out_of_sequence = 0;  // Packets ahead of the expected PSN.
  std::uint64_t duplicates = 0;       // Packets that had arrived before.
  std::uint64_t rnr_naks = 0;
  std::uint64_t naks = 0;              // NAKs with any code.
  std::uint64_t dropped_messages = 0;  // UC: lost messages.
};

/// A pure step machine, as the requester. The adapter carries out the effects of a packet in order
/// before the next one. `poll_transmit` returns acknowledgements, NAKs, READ and atomic responses,
/// so that one acknowledgement can answer many packets.
///
/// If an effect cannot be carried out, the adapter drops the remaining effects of the packet and
/// calls `on_region_error` (PlaceWrite, ExecuteAtomic, ExecuteAtomicWrite, InvalidateKey) or
/// `on_receive_memory_error` (PlaceReceive), whose effects replace them. After ResponderFailed, the
/// adapter sends what `poll_transmit` still returns (the NAK and the answers before it); further
/// packets are ignored.
class Responder {
 public:
  Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  void reset();
  void configure(const ResponderConfig& config);
  const ResponderConfig& config() const { return config_; }
  /// Attributes that may change while it runs (modify_qp in RTS and SQD).
  void change(std::uint32_t access, std::uint8_t min_rnr_timer);
  /// Of packets from now on.
  void set_pkey(PKey pkey) { config_.pkey = pkey; }

  void on_packet(const wire::Packet& packet, ReceiveSource& receives,
                 const region::RegionTable& regions, ResponderEffects& out);
  void on_atomic_result(std::uint64_t original);
  void on_region_error(ResponderEffects& out);
  void on_receive_memory_error(ResponderEffects& out);
  /// The memory of a READ response (PayloadSource::From::region) was refused while it was being
  /// sent: the packet from the last poll was not sent.
  void on_read_error(ResponderEffects& out);

  /// Returns true if `poll_transmit` has a packet to send.
  bool has_output() const { return acknowledgement_.pending || !responses_.empty(); }
  bool poll_transmit(OutgoingPacket& out);

  /// Returns the current receive, when the queue pair goes to error or reset: it is flushed before
  /// those in the queue.
  std::optional<Receive> take_current_receive();
  bool failed() const { return failed_; }
  Psn expected_psn() const { return expected_psn_; }
  wire::Msn msn() const { return msn_; }
  const ResponderCounters& counters() const { return counters_; }

 private:
  /// The acknowledgement or NAK to send. One is enough, because each covers all PSNs before it.
  struct Acknowledgement {
    bool pending = false;
    ResponseQueue::Reach reach;
    wire::Syndrome syndrome;
  };
  /// State before the last packet, to undo the packet if its effect cannot be carried out.
  struct Before {
    Psn expected_psn;
    wire::Msn msn;
    std::optional<Receive> completed;  // The receive that the packet completed.
    bool awaits_atomic_result = false;
  };
  /// The NAK that was sent for the expected PSN. Until that packet comes, later ones are dropped
  /// silently.
  enum class Awaiting : std::uint8_t { nothing, missing_packet, retry_after_rnr };

  void on_reliable(const wire::Packet& packet, const wire::OpcodeInfo& info,
                   ReceiveSource& receives, const region::RegionTable& regions,
                   ResponderEffects& out);
  void on_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info,
                     ReceiveSource& receives, const region::RegionTable& regions,
                     ResponderEffects& out);
  void out_of_sequence();
  void duplicate(const wire::Packet& packet, const wire::OpcodeInfo& info, ReceiveSource& receives,
                 const region::RegionTable& regions);
  bool enter_domain(const wire::Packet& packet, const wire::OpcodeInfo& info,
                    ReceiveSource& receives);
  bool ensure_receive(const wire::Packet& packet, const wire::OpcodeInfo& info,
                      ReceiveSource& receives);
  bool receive_too_small(const wire::Packet& packet, const wire::OpcodeInfo& info) const;
  void drop_message();

  void accept(const wire::Packet& packet, const wire::OpcodeInfo& info, ResponderEffects& out);
  void accept_message_packet(const wire::Packet& packet, const wire::OpcodeInfo& info,
                             ResponderEffects& out);
  void accept_read(const wire::Packet& packet);
  void accept_executed(const wire::Packet& packet, const wire::OpcodeInfo& info,
                       ResponderEffects& out);
  void complete_receive(const wire::Packet& packet, const wire::OpcodeInfo& info,
                        ResponderEffects& out);
  void undo_last();

  void acknowledge(ResponseQueue::Reach reach);
  void acknowledge_duplicate(Psn psn);
  void drop_stale_nak();
  void nak(ResponseQueue::Reach reach, wire::Syndrome syndrome);
  void fail(wire::NakCode code, ResponderFailed::Event event, ResponderEffects& out);
  void refuse(wire::NakCode code, ResponderEffects& out);
  void fail_receive(Status status, wire::NakCode code, ResponderEffects& out);

  ResponderConfig config_;
  Psn expected_psn_;
  wire::Msn msn_;
  bool failed_ = false;
  bool established_ = false;
  Awaiting awaiting_ = Awaiting::nothing;
  IncomingMessage message_;
  std::optional<Receive> receive_;  // The current one: taken and not completed.
  Acknowledgement acknowledgement_;
  Before before_;
  ResponseQueue responses_;
  ResponderCounters counters_;
};

}  // namespace verbatim::transport
