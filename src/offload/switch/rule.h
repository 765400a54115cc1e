#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/inplace_vector.h"
#include "offload/switch/key.h"

namespace verbatim::offload {

enum class ActionKind : std::uint8_t {
  kOutput,  // Copies the frame, as it is at that point, to a port.
  kDrop,
  kMark,  // The frame goes to software, which finds `value` beside it. 0: no mark.
  kJump,  // The search goes on in group `value`.
  // Changes of the frame (edited_frame.h).
  kSetDestinationMac,
  kSetSourceMac,
  kSetSourceIpv4,
  kSetDestinationIpv4,
  kSetSourceIpv6,
  kSetDestinationIpv6,
  kSetHopLimit,  // IPv4: time to live.
  kSetSourcePort,
  kSetDestinationPort,
  kPushVlan,  // A tag of zeros; `value` is the type that announces it.
  kPopVlan,
  kSetVlanId,
  kSetVlanPriority,
  kEncapsulate,  // Puts a header of `value` bytes before the frame (tunnel.h), which follows
  kHeader,       // in actions of these: 16 bytes of it each, the rest in the last.
  kDecapsulate,  // Takes away `value` bytes; 0: all before what is in the tunnel.
  kMeter,        // Drops the frame unless meter `value` lets it pass (meter.h).
};
inline constexpr ActionKind kLastAction = ActionKind::kMeter;
constexpr bool is_edit(ActionKind kind) {
  return kind >= ActionKind::kSetDestinationMac && kind <= ActionKind::kDecapsulate;
}

/// It needs packets as on the wire, and not large frames.
constexpr bool is_tunnel(ActionKind kind) {
  return kind >= ActionKind::kEncapsulate && kind <= ActionKind::kDecapsulate;
}

struct Action {
  ActionKind kind = ActionKind::kDrop;
  std::uint16_t port = 0;
  std::uint32_t value = 0;
  std::array<std::uint8_t, 16> bytes{};  // Of an address or a header.
  friend bool operator==(const Action&, const Action&) = default;
};

inline constexpr std::size_t kActionsMax = 16;
using Actions = InplaceVector<Action, kActionsMax>;

/// A number in a key, in network byte order, that must be in a range.
struct Range {
  bool is_inner = false;  // It is in the frame that is in a tunnel.
  std::uint8_t at = 0;    // Its offset in the key.
  std::uint8_t size = 0;  // Bytes, at most 16.
  std::array<std::uint8_t, 16> mask{};
  std::array<std::uint8_t, 16> low{};  // Both ends are in the range.
  std::array<std::uint8_t, 16> high{};
  friend bool operator==(const Range&, const Range&) = default;
};
inline constexpr std::size_t kRangesMax = 4;

/// An option that Geneve's header must have, at any place (RFC 8926): its header of four bytes
/// (class, type, length) and the data after it, masked.
struct TunnelOption {
  static constexpr std::size_t kHeaderBytes = 4;
  static constexpr std::size_t kBytesMax = 36;
  std::uint8_t size = 0;  // With the header.
  std::array<std::uint8_t, kBytesMax> mask{};
  std::array<std::uint8_t, kBytesMax> value{};
};
inline constexpr std::size_t kOptionsMax = 2;

/// What few rules have.
struct MoreMatch {
  TunnelKey tunnel;
  TunnelKey tunnel_mask;  // Without a kind: the rule asks for no tunnel.
  InplaceVector<Range, kRangesMax> ranges;
  InplaceVector<TunnelOption, kOptionsMax> options;

  bool has_tunnel() const { return tunnel_mask.kind != wire::TunnelKind::kNone; }
  /// Whether ranges and options are right, which no hash has.
  bool accepts(const Key& key, const InTunnel* tunnel) const;
};

/// Transfer rules decide where a frame goes. Ingress rules mark one for which there is none.
enum class Domain : std::uint8_t { kTransfer, kIngress };

inline constexpr std::uint32_t kNoRule = 0xffffffff;

/// The ports, groups and ids of a rule are below the switch's limits.
struct Rule {
  Key key;  // Bits outside the mask are ignored. Its port is matched in full, its group is `group`.
  Key mask;
  std::uint32_t id = 0;        // Of the rule and of its counter.
  std::uint32_t priority = 0;  // 0 wins. Among equals any may.
  std::uint16_t group = 0;     // A search begins in group 0.
  Domain domain = Domain::kTransfer;
  Actions actions;
  std::shared_ptr<const MoreMatch> more;   // Null: nothing. Shared, as rules are copied.
  std::uint32_t shared_counter = kNoRule;  // The id of a counter that rules share, if it has one.
};

}  // namespace verbatim::offload
