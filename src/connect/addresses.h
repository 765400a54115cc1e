#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::connect {

/// An address of the node, and its GID. Over iWARP the port has one GID, which belongs to every
/// address.
struct OwnAddress {
  SocketAddress address;  // Empty: connections do not use this GID.
  Gid gid;
  std::uint8_t gid_index = 0;  // In the table that programs see,
  std::uint8_t port = 1;       // of this port. InfiniBand: others than the first have no address.
};

/// Which loopback addresses mean the node itself, besides its own addresses.
enum class OwnLoopback : std::uint8_t {
  any,        // As the kernel does with a card.
  localhost,  // 127.0.0.1: hosts of the same fabric have the others.
  none,       // The node is on the loopback interface, beside others.
};

/// Returns true for 0.0.0.0 and [::].
bool is_wildcard(const SocketAddress& address);

/// The addresses of one node, in the order of its GID table. One thread at a time adds entries and
/// marks them valid; other threads may read meanwhile.
class Addresses {
 public:
  static constexpr std::size_t kMax = 16;

  explicit Addresses(OwnLoopback own_loopback) : own_loopback_(own_loopback) {}

  /// Returns the number of entries, valid or not.
  std::size_t size() const { return entries_.size(); }
  void add(const OwnAddress& entry) { entries_.push_back(entry); }
  /// Bit i: an interface has the address of entry i. Before the first call all are valid.
  void set_valid(std::uint32_t entries) { valid_ = entries; }

  /// Returns the entry of this address, whatever its port; fe80:: without a scope means that of any
  /// interface. EADDRNOTAVAIL if there is none.
  Result<OwnAddress> own(const SocketAddress& address) const;
  /// Returns the entry of this GID, with the node's address for a port that has none.
  /// EADDRNOTAVAIL if there is none.
  Result<OwnAddress> own(const Gid& gid) const;
  /// Returns true for a loopback address that means the first of the node's own.
  bool is_own_loopback(const SocketAddress& address) const;
  /// Returns the address from which to reach `destination`. ENODEV if the node has none of its
  /// family.
  Result<OwnAddress> source_for(const SocketAddress& destination) const;
  /// Returns all valid addresses of one family, or of both, each once and without ports.
  std::vector<SocketAddress> all(int family, bool both) const;

 private:
  bool is_valid(std::size_t entry) const { return (valid_ >> entry & 1) != 0; }

  const OwnLoopback own_loopback_;
  AppendOnlyList<OwnAddress, kMax> entries_;
  std::atomic<std::uint32_t> valid_ = ~0u;
};

}  // namespace verbatim::connect
