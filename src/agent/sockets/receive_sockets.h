#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"

/// The sockets that all programs of a node receive from.
namespace verbatim::agent {

/// Sockets that are made together: for consecutive new slots one a node address, or of an address
/// that is new one for each slot that there is.
struct SocketChunk {
  std::uint32_t first_slot = 0;
  std::optional<SocketAddress> new_address;
  std::vector<std::vector<UniqueFd>> slots;
};

/// For each node address of RoCE v1 a packet socket a slot (link/ethernet/roce_v1_socket.h). For
/// each other a group of sockets on port 4791 (SO_REUSEPORT), one a slot. The kernel gives each
/// packet to the socket whose index in the group a classic BPF program computes: the upper 10 bits
/// of the destination queue pair number. So the index must be the slot: sockets are made strictly
/// in slot order and never closed while any program lives, because the kernel moves the last one
/// into a gap.
///
/// The kernel gives a packet for a slot beyond the last to some member of the group: receivers look
/// at the queue pair number.
class ReceiveSockets {
 public:
  static constexpr std::uint32_t kSlotsPerChunk = 8;

  explicit ReceiveSockets(std::vector<SocketAddress> addresses)
      : addresses_(std::move(addresses)) {}

  /// EADDRINUSE where anybody has the address's port already, EADDRNOTAVAIL...
  static Result<void> probe(const SocketAddress& address);
  /// Makes the sockets of the next slots, small and unread, until `add` is called.
  Result<SocketChunk> make_chunk() const;
  /// The same of one address more. ENOSPC where there are so many slots that their sockets do not
  /// fit into one message.
  Result<SocketChunk> make_chunk_of(const SocketAddress& new_address) const;
  /// Closes them from the last to the first, so that none moves into the gap of an older one.
  static void close(SocketChunk& chunk);
  /// Takes sockets over: those just made, or those that an earlier agent left. EPROTO where they
  /// are not the group's next.
  Result<void> add(SocketChunk chunk);

  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::span<const UniqueFd> sockets(std::uint32_t slot) const { return slots_[slot]; }
  /// Throws away what lies in a slot's sockets, and gives their buffers back.
  void drain(std::uint32_t slot) const;

 private:
  /// Sockets of these addresses for the next `count` slots.
  static Result<SocketChunk> open(std::uint32_t first_slot, std::uint32_t count,
                                  std::span<const SocketAddress> addresses);
  Result<void> check(const SocketChunk& chunk) const;

  std::vector<SocketAddress> addresses_;
  std::vector<std::vector<UniqueFd>> slots_;
};

}  // namespace verbatim::agent
