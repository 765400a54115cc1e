#pragma once

#include <cerrno>
#include <cstdint>
#include <expected>

#include "base/log.h"

/// The rsocket protocol for streams, compatible with rdma-core's (its docs/rsocket). Data and
/// control messages are RDMA WRITEs with immediate data; the immediate is the message. Over iWARP a
/// plain WRITE is followed by a SEND of the message, in the host's byte order.
namespace verbatim::rsocket {

/// A result whose failure is an errno value.
template <typename T>
using Outcome = std::expected<T, int>;
inline std::unexpected<int> fail(int error) { return std::unexpected(error); }

inline constexpr const char* kUnknownOption = "the option of level SOL_RDMA is unknown";
inline constexpr const char* kNoUrgentData = "rsockets of another library carry no urgent data";
/// Logs `what` and returns EOPNOTSUPP: for features that rsockets do not have.
inline std::unexpected<int> unsupported(const char* what) {
  log(LogLevel::warn, "rsocket: {}", what);
  return fail(EOPNOTSUPP);
}

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint32_t kTargets = 2;       // Receive buffers that a peer knows at a time.
inline constexpr std::uint32_t kControlSlots = 4;  // Send requests reserved for control messages.
inline constexpr std::uint32_t kLowWater = 2048;   // Less room than this counts as none.
inline constexpr std::uint32_t kFirstTransfer = 2048;  // Transfers double from here, so that
inline constexpr std::uint32_t kMostTransfer = 65536;  // copying and sending overlap.

// Flags in a request's id, beside its message.
inline constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kUncounted = std::uint64_t{1}
                                            << 62;  // The message follows in a SEND.

/// The upper three bits of a message.
enum class Op : std::uint32_t {
  data = 0,     // The number of bytes that were written to the current target.
  write = 2,    // Never sent: marks our own writes to mapped buffers.
  credits = 4,  // The receiver has credits up to this number; it may also have renewed a target.
  iomap = 6,    // This entry of the map of buffers was changed.
  control = 7,
};
enum class Control : std::uint32_t {
  disconnect = 0,
  keepalive = 1,
  shutdown = 2,
  // Not rdma-core's, which ignores them.
  reset = 3,
};

constexpr std::uint32_t message(Op op, std::uint32_t value) {
  return static_cast<std::uint32_t>(op) << 29 | (value & 0x1fffffff);
}
/// In the value of a data message: its last byte is urgent. Not rdma-core's.
inline constexpr std::uint32_t kUrgent = 1 << 28;
constexpr Op op_of(std::uint32_t message) { return static_cast<Op>(message >> 29); }
constexpr std::uint32_t value_of(std::uint32_t message) { return message & 0x1fffffff; }

// These structures are in memory that the peer writes, in the byte order of the host that reads
// them.

struct Target {
  std::uint64_t address;
  std::uint32_t key;
  std::uint32_t length;
};
struct IoMapping {
  std::uint64_t offset;
  Target target;
};

/// Private data of the REQ and the REP; big-endian.
struct ConnectData {
  std::uint8_t version;
  std::uint8_t flags;
  std::uint16_t credits;
  std::uint8_t reserved;
  std::uint8_t port[2];     // Of the socket that is replaced (`verbatim_rport`); else 0.
  std::uint8_t iomap_size;  // In the encoding of `to_scale`.
  Target targets;           // The array of `kTargets` targets, followed by the map of buffers.
  Target buffer;            // The first target.
};
static_assert(sizeof(ConnectData) == 40);
inline constexpr std::uint8_t kBigEndianHost = 1;
inline constexpr std::uint8_t kHasIoMap = 2;
inline constexpr std::uint8_t kTakesUrgent = 4;  // Not rdma-core's, which ignores it.

/// Encodes sizes up to 128 as they are, larger ones in units of 256.
constexpr std::uint8_t to_scale(std::uint32_t size) {
  return static_cast<std::uint8_t>(size <= 128 ? size : 128 | size >> 8);
}
constexpr std::uint32_t from_scale(std::uint8_t scale) {
  return scale <= 128 ? scale : (scale & 127u) << 8;
}

}  // namespace verbatim::rsocket
