#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"

/// The receive sockets of all programs of a node.
namespace verbatim::agent {

/// Sockets that are created together: for consecutive new slots, one per node address; or for a new
/// address, one per existing slot.
struct SocketChunk {
  std::uint32_t first_slot = 0;
  std::optional<SocketAddress> new_address;
  std::vector<std::vector<UniqueFd>> slots;
};

/// For each RoCE v1 address of the node one packet socket per slot
/// (link/ethernet/roce_v1_socket.h). For each other address a group of sockets on port 4791
/// (SO_REUSEPORT), one per slot. The kernel passes each packet to the socket whose index in the
/// group a classic BPF program computes: the upper 10 bits of the destination queue pair number. So
/// the index must be the slot: sockets are created strictly in slot order and never closed while
/// any program lives, because the kernel moves the last one into a gap.
///
/// The kernel passes a packet for a slot beyond the last to some member of the group: receivers
/// check the queue pair number.
class ReceiveSockets {
 public:
  static constexpr std::uint32_t kSlotsPerChunk = 8;

  explicit ReceiveSockets(std::vector<SocketAddress> addresses)
      : addresses_(std::move(addresses)) {}

  /// EADDRINUSE if another process has the address's port, EADDRNOTAVAIL...
  static Result<void> probe(const SocketAddress& address);
  /// Creates the sockets of the next slots, with small buffers and unread, until `add` is called.
  Result<SocketChunk> make_chunk() const;
  /// The same for a new address. ENOSPC if the sockets of all slots do not fit in one message.
  Result<SocketChunk> make_chunk_of(const SocketAddress& new_address) const;
  /// Closes them from the last to the first, so that none moves into the gap of an older one.
  static void close(SocketChunk& chunk);
  /// Takes sockets over: new ones, or those of an earlier agent. EPROTO if they are not the group's
  /// next.
  Result<void> add(SocketChunk chunk);

  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::span<const UniqueFd> sockets(std::uint32_t slot) const { return slots_[slot]; }
  /// Discards what is in a slot's sockets, and frees their buffers.
  void drain(std::uint32_t slot) const;

 private:
  /// Opens sockets of these addresses for the next `count` slots.
  static Result<SocketChunk> open(std::uint32_t first_slot, std::uint32_t count,
                                  std::span<const SocketAddress> addresses);
  Result<void> check(const SocketChunk& chunk) const;

  std::vector<SocketAddress> addresses_;
  std::vector<std::vector<UniqueFd>> slots_;
};

}  // namespace verbatim::agent
