#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "transport/ib/requester/requester.h"
#include "wire/ib/opcode.h"

/// A requester against a scripted peer: each test writes down the packet ladder.
namespace verbatim::transport {

/// The fields of a sent packet that tests compare.
struct Sent {
  wire::Opcode opcode{};
  std::uint32_t psn = 0;
  std::uint32_t payload = 0;  // In bytes; for a READ request the requested bytes.
  // For a READ request its address; else the payload's offset in the request.
  std::uint64_t address = 0;
  bool ack_request = false;
  friend bool operator==(const Sent&, const Sent&) = default;
};

struct Ended {
  Slot slot = 0;
  Status status{};
  friend bool operator==(const Ended&, const Ended&) = default;
};

class RequesterBench {
 public:
  explicit RequesterBench(RequesterConfig config = {}, std::uint32_t capacity = 256)
      : requester(capacity) {
    if (config.path_mtu == Mtu::k1024) config.path_mtu = Mtu::k256;
    requester.configure(config);
  }

  Slot post(Operation operation, std::uint64_t length, std::uint64_t address = 0x1000,
            bool fence = false) {
    return requester.post({.operation = operation,
                           .fence = fence,
                           .length = length,
                           .remote_address = address,
                           .remote_key = MemoryKey{7}});
  }
  std::vector<OutgoingPacket> transmit_packets() {
    std::vector<OutgoingPacket> packets;
    OutgoingPacket packet;
    while (requester.poll_transmit(now, packet)) {
      packets.push_back(packet);
      requester.after_transmit(effects_);
      collect();
    }
    return packets;
  }
  std::vector<Sent> transmit() {
    std::vector<Sent> sent;
    for (const OutgoingPacket& packet : transmit_packets()) sent.push_back(describe(packet));
    return sent;
  }
  std::vector<std::uint32_t> transmit_psns() {
    std::vector<std::uint32_t> psns;
    for (const Sent& sent : transmit()) psns.push_back(sent.psn);
    return psns;
  }

  void ack(std::uint32_t psn) { acknowledge(psn, wire::Syndrome::ack()); }
  void nak(std::uint32_t psn, wire::NakCode code) { acknowledge(psn, wire::Syndrome::nak(code)); }
  void rnr_nak(std::uint32_t psn, std::uint8_t timer) {
    acknowledge(psn, wire::Syndrome::rnr_nak(timer));
  }
  void acknowledge(std::uint32_t psn, wire::Syndrome syndrome) {
    receive(wire::Verb::acknowledge, wire::Position::only, psn, 0, syndrome);
  }
  void read_response(std::uint32_t psn, wire::Position position, std::size_t bytes,
                     wire::Syndrome syndrome = {}) {
    receive(wire::Verb::read_response, position, psn, bytes, syndrome);
  }
  void atomic_response(std::uint32_t psn, std::uint64_t original) {
    atomic_ack_ = original;
    receive(wire::Verb::atomic_acknowledge, wire::Position::only, psn, 0, {});
  }
  void receive(wire::Verb verb, wire::Position position, std::uint32_t psn, std::size_t bytes,
               wire::Syndrome syndrome) {
    static constexpr std::byte kPayload[8192]{};
    wire::Packet packet;
    packet.headers.bth.opcode = wire::opcode_of(wire::Service::rc, verb, position);
    packet.headers.bth.psn = Psn(psn);
    packet.headers.aeth.syndrome = syndrome;
    packet.headers.atomic_ack = atomic_ack_;
    packet.payload = ByteSpan(kPayload, bytes);
    requester.on_packet(packet, now, effects_);
    collect();
  }
  /// Advances the clock to the deadline.
  void expire() {
    now = requester.deadline();
    requester.on_timeout(now, effects_);
    collect();
  }
  /// Lets probes expire until the ACK time-out has expired.
  void expire_ack_timeout(std::uint8_t timeout) {
    now += TimeNs{4096} << timeout;
    requester.on_timeout(now, effects_);
    collect();
  }
  void local_error(Slot slot, Status status) {
    requester.on_local_error(slot, status, effects_);
    collect();
  }
  void collect_after_transmit() {
    requester.after_transmit(effects_);
    collect();
  }
  void flush() {
    requester.flush(effects_);
    collect();
  }

  /// Returns the completions since the last call.
  std::vector<Ended> ended() { return std::exchange(ended_, {}); }
  std::vector<PlaceResponse> placed() { return std::exchange(placed_, {}); }
  std::vector<PlaceAtomic> atomics() { return std::exchange(atomics_, {}); }
  std::optional<Status> failure;

  Requester requester;
  TimeNs now = kSecond;

 private:
  static Sent describe(const OutgoingPacket& packet) {
    const auto& headers = packet.headers;
    const bool is_read = wire::info(headers.bth.opcode).verb == wire::Verb::read_request;
    return {.opcode = headers.bth.opcode,
            .psn = headers.bth.psn.value(),
            .payload = is_read ? headers.reth.length : packet.payload.length,
            .address = is_read ? headers.reth.address : packet.payload.offset,
            .ack_request = headers.bth.ack_request};
  }
  void collect() {
    for (;;) {
      for (const RequesterEffect& effect : effects_.list) {
        if (const auto* done = std::get_if<CompleteRequest>(&effect)) {
          ended_.push_back({done->slot, done->status});
        } else if (const auto* failed = std::get_if<RequesterFailed>(&effect)) {
          EXPECT_FALSE(failure.has_value());
          failure = failed->status;
        } else if (const auto* response = std::get_if<PlaceResponse>(&effect)) {
          placed_.push_back(*response);
        } else if (const auto* atomic = std::get_if<PlaceAtomic>(&effect)) {
          atomics_.push_back(*atomic);
        }
      }
      const bool more = effects_.more;
      effects_.list.clear();
      effects_.more = false;
      if (!more) return;
      requester.resume(effects_);
    }
  }

  RequesterEffects effects_;
  std::vector<Ended> ended_;
  std::vector<PlaceResponse> placed_;
  std::vector<PlaceAtomic> atomics_;
  std::uint64_t atomic_ack_ = 0;
};

constexpr wire::Opcode opcode(std::uint8_t value) { return static_cast<wire::Opcode>(value); }

}  // namespace verbatim::transport
