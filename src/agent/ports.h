#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/error.h"
#include "base/unique_fd.h"

/// The UDP sockets that all programs of a node receive from.
namespace verbatim::agent {

/// Sockets of consecutive slots: for each slot one a node address.
struct PortChunk {
  std::uint32_t first_slot = 0;
  std::vector<std::vector<UniqueFd>> slots;
};

/// For each node address a group of sockets on port 4791 (SO_REUSEPORT), one a slot. The kernel
/// gives each packet to the socket whose index in the group a classic BPF program computes: the
/// upper 10 bits of the destination queue pair number. So the index must be the slot: sockets are
/// made strictly in slot order and never closed while any program lives, because the kernel moves
/// the last one into a gap.
///
/// The kernel gives a packet for a slot beyond the last to some member of the group: receivers look
/// at the queue pair number.
class Ports {
 public:
  static constexpr std::uint32_t kSlotsPerChunk = 8;

  explicit Ports(std::vector<SocketAddress> addresses) : addresses_(std::move(addresses)) {}

  /// EADDRINUSE where anybody has the address's port already, EADDRNOTAVAIL...
  static Result<void> probe(const SocketAddress& address);
  /// Makes the sockets of the next slots, small and unread, until `add` is called.
  Result<PortChunk> make_chunk() const;
  /// Takes sockets over: those just made, or those that an earlier agent left. EPROTO where they
  /// are not the group's next.
  Result<void> add(PortChunk chunk);

  std::uint32_t slot_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::span<const UniqueFd> sockets(std::uint32_t slot) const { return slots_[slot]; }
  /// Throws away what lies in a slot's sockets, and gives their buffers back.
  void drain(std::uint32_t slot) const;

 private:
  Result<UniqueFd> open(const SocketAddress& address, bool first) const;

  std::vector<SocketAddress> addresses_;
  std::vector<std::vector<UniqueFd>> slots_;
};

}  // namespace verbatim::agent
