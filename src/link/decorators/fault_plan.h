#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "wire/ib/opcode.h"

/// Faults to inject into packets, as given to `verbatim fault`; a value.
namespace verbatim::link {

enum class Direction : std::uint8_t { send, receive };

/// A share of all packets, in parts of a billion.
struct Rate {
  static constexpr std::uint32_t kOne = 1'000'000'000;
  std::uint32_t parts = 0;
  friend bool operator==(const Rate&, const Rate&) = default;
};

/// Identifies a packet in different runs of a program: the `attempt`-th transmission of the packet
/// that is `offset` PSNs after the first one of its flow. A flow consists of the packets to one
/// queue pair of a peer, with requests and responses separate; flows are numbered in the order in
/// which they begin.
struct PacketIdentity {
  std::uint32_t flow = 0;
  std::int32_t offset = 0;
  std::uint32_t attempt = 0;
  wire::Opcode opcode{};
  Direction direction{};
};

/// The faults of one packet.
struct FaultDecision {
  bool lose = false;
  bool duplicate = false;
  bool reorder = false;  // Sends it after the next packet.
  bool corrupt = false;
  TimeNs delay = 0;
  std::uint64_t random = 0;  // Selects the bit that a corruption inverts.

  bool is_none() const { return !lose && !duplicate && !reorder && !corrupt && delay == 0; }
};

/// A value; no fault by default.
struct FaultPlan {
  Rate loss, duplicate, reorder, corrupt;
  TimeNs delay_min = 0, delay_max = 0;  // For every packet, uniformly distributed between both.
  std::optional<std::uint64_t> seed;    // None: the caller chooses one.
  // Filters; an empty list means all.
  bool on_send = true, on_receive = false;
  std::vector<SocketAddress> peers;  // Ports are ignored.
  std::vector<wire::Verb> verbs;

  /// Parses "loss=1%,delay=100us..1ms,seed=7"; "off" is a plan without faults. EINVAL with a text
  /// for users.
  static Result<FaultPlan> parse(std::string_view text);
  /// EOPNOTSUPP with a text for users: links of InfiniBand cannot do this to packets.
  Result<void> check_for_infiniband() const;
  /// What `parse` reads back.
  std::string text() const;

  bool is_off() const {
    return loss.parts == 0 && duplicate.parts == 0 && reorder.parts == 0 && corrupt.parts == 0 &&
           delay_max == 0;
  }
  /// Returns true if the plan's filters match this direction, peer and opcode.
  bool chooses(Direction direction, const SocketAddress& peer, wire::Opcode opcode) const;
  /// Depends only on the seed and on `packet`.
  FaultDecision decide(const PacketIdentity& packet) const;

  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

}  // namespace verbatim::link
