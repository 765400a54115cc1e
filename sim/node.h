#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "region/region_table.h"
#include "sim/invariants.h"
#include "sim/network.h"
#include "transport/ib/requester/requester.h"
#include "transport/ib/responder/responder.h"

namespace verbatim::sim {

/// Location of a request's bytes in its node's memory.
struct LocalBuffer {
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// One side of a connection: the real engines with memory, regions and queues, without an adapter.
class Node final : private transport::ReceiveSource {
 public:
  /// `depth`: of the send queue. All memory is one region with all rights.
  Node(int index, std::size_t memory_bytes, std::uint32_t depth, Promise promise);

  void connect(const transport::RequesterConfig& requester,
               const transport::ResponderConfig& responder);
  transport::Slot post(const transport::SendRequest& request, LocalBuffer local);
  void post_receive(LocalBuffer buffer);
  /// Creates a type 2 window, bound by this node, to be invalidated locally or by the peer.
  MemoryKey make_window();

  /// Sends all packets that may be sent now; returns false if there were none.
  bool pump(TimeNs now, Network& network);
  void on_arrival(ByteSpan bytes, TimeNs now);
  void on_time(TimeNs now);
  TimeNs deadline() const { return requester_.deadline(); }

  MutableByteSpan memory() { return memory_; }
  /// Returns the address that a peer uses for a byte of the memory.
  static std::uint64_t remote_address(std::size_t offset) { return kIova + offset; }
  MemoryKey key() const { return key_; }
  PdNumber pd() const { return kPd; }
  /// The shared receive queue that the peer's XRC requests name.
  static constexpr SrqNumber kSrq{0x53};

  const transport::Requester& requester() const { return requester_; }
  std::size_t receives_posted() const { return receives_.size(); }
  SendCompletions& sends() { return sends_; }
  Deliveries& deliveries() { return deliveries_; }
  /// The error statuses of completed receive requests.
  const std::vector<transport::Status>& receive_failures() const { return receive_failures_; }
  bool responder_failed() const { return responder_.failed(); }
  std::uint64_t packets_sent() const { return packets_sent_; }

  /// Called for each completion of a send request, after the checkers.
  std::function<void(transport::Slot, transport::Status)> on_completed;
  /// The memory of this request is refused, as with a wrong lkey.
  std::optional<transport::Slot> bad_local_memory;

 private:
  static constexpr std::uint64_t kIova = 0x7f00'0000'0000;
  static constexpr PdNumber kPd{1};
  struct PostedReceive {
    std::uint64_t ticket = 0;
    LocalBuffer buffer;
  };

  bool take(const wire::Packet& packet, transport::Receive& out) override;
  std::optional<PdNumber> domain_of(SrqNumber srq) override;
  void transmit(const transport::OutgoingPacket& packet, TimeNs now, Network& network);
  bool append_payload(const transport::PayloadSource& source, std::vector<std::byte>& bytes);
  void drain(transport::RequesterEffects& effects);
  void drain(const transport::ResponderEffects& effects);
  void place(const transport::PlaceResponse& effect);
  void place(const transport::PlaceAtomic& effect);
  void place(const transport::PlaceReceive& effect);
  void place(const transport::PlaceWrite& effect);
  void execute(const transport::ExecuteAtomic& effect);
  void execute(const transport::ExecuteAtomicWrite& effect);
  void execute(const transport::InvalidateKey& effect);
  void execute_local(transport::Slot slot);
  void complete(const transport::CompleteReceive& effect);
  void fail_locally(transport::Slot slot);
  void enter_error();
  MutableByteSpan bytes_at(MemoryKey key, std::uint64_t address, std::size_t length);

  int index_;
  std::vector<std::byte> memory_;
  region::RegionTableHeader region_header_;
  std::vector<region::RegionEntry> region_entries_;
  std::optional<region::RegionTable> regions_;
  MemoryKey key_{};
  Qpn qpn_;
  transport::Requester requester_;
  transport::Responder responder_;
  transport::RequesterEffects requester_effects_;
  std::vector<LocalBuffer> locals_;  // By slot modulo the depth.
  std::vector<MemoryKey> keys_;      // By slot modulo the depth: the key of a local invalidation.
  std::deque<PostedReceive> receives_;
  std::deque<PostedReceive> taken_;
  std::uint64_t next_ticket_ = 0;
  bool in_error_ = false;
  SendCompletions sends_;
  Deliveries deliveries_;
  std::vector<transport::Status> receive_failures_;
  std::uint64_t packets_sent_ = 0;
};

}  // namespace verbatim::sim
