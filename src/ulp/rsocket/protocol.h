#pragma once

#include <cerrno>
#include <cstdint>
#include <expected>

#include "base/log.h"

/// The rsocket protocol for streams, as rdma-core speaks it (its docs/rsocket): what two rsockets
/// tell each other. Data and news are RDMA WRITEs with an immediate; the immediate is the message.
/// Over iWARP a WRITE without one is followed by a SEND of the message, in the host's byte order.
namespace verbatim::rsocket {

/// A result whose failure is an errno value.
template <typename T>
using Outcome = std::expected<T, int>;
inline std::unexpected<int> fail(int error) { return std::unexpected(error); }

inline constexpr const char* kUnknownOption = "the option of level SOL_RDMA is unknown";
/// EOPNOTSUPP, for what rsockets do not have at all; the log says what.
inline std::unexpected<int> unsupported(const char* what) {
  log(LogLevel::warn, "rsocket: {}", what);
  return fail(EOPNOTSUPP);
}

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint32_t kTargets = 2;       // Receive buffers that a peer knows of at once.
inline constexpr std::uint32_t kControlSlots = 4;  // Send requests kept free for news.
inline constexpr std::uint32_t kLowWater = 2048;   // Less room than this is none.
inline constexpr std::uint32_t kFirstTransfer = 2048;  // Transfers double from here, so that
inline constexpr std::uint32_t kMostTransfer = 65536;  // copying and sending overlap.

// What a request's id says beyond its message.
inline constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kUncounted = std::uint64_t{1} << 62;  // The message follows.

/// The upper three bits of a message.
enum class Op : std::uint32_t {
  data = 0,     // So many bytes were written into the current target.
  write = 2,    // Never sent: marks our own writes into mapped buffers.
  credits = 4,  // The receiver takes messages up to this number; maybe a target was refreshed.
  iomap = 6,    // Entry so and so of the map of buffers was refreshed.
  control = 7,
};
enum class Control : std::uint32_t { disconnect = 0, keepalive = 1, shutdown = 2 };

constexpr std::uint32_t message(Op op, std::uint32_t value) {
  return static_cast<std::uint32_t>(op) << 29 | (value & 0x1fffffff);
}
constexpr Op op_of(std::uint32_t message) { return static_cast<Op>(message >> 29); }
constexpr std::uint32_t value_of(std::uint32_t message) { return message & 0x1fffffff; }

// The structures lie in memory that the peer writes, in the byte order of the host that reads them.

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
  std::uint8_t reserved[3];
  std::uint8_t iomap_size;  // As `to_scale` writes it.
  Target targets;           // The array of `kTargets` targets; behind it, the map of buffers.
  Target buffer;            // The first target.
};
static_assert(sizeof(ConnectData) == 40);
inline constexpr std::uint8_t kBigEndianHost = 1;
inline constexpr std::uint8_t kHasIoMap = 2;

/// Sizes up to 128 as they are, larger ones in units of 256.
constexpr std::uint8_t to_scale(std::uint32_t size) {
  return static_cast<std::uint8_t>(size <= 128 ? size : 128 | size >> 8);
}
constexpr std::uint32_t from_scale(std::uint8_t scale) {
  return scale <= 128 ? scale : (scale & 127u) << 8;
}

}  // namespace verbatim::rsocket
