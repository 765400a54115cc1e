#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::connect {

/// An address of the node, and its GID; over iWARP the GID is the port's only one, whatever the
/// address.
struct OwnAddress {
  SocketAddress address;  // Empty: connections do not use this GID.
  Gid gid;
  std::uint8_t gid_index = 0;  // In the table that the program sees.
};

/// 0.0.0.0 or [::].
bool is_wildcard(const SocketAddress& address);

/// The addresses of one node, in the order of its GID table. One thread at a time adds entries and
/// says which are valid; others may look at the same time.
class Addresses {
 public:
  static constexpr std::size_t kMax = 16;

  explicit Addresses(bool is_on_loopback_interface)
      : is_on_loopback_interface_(is_on_loopback_interface) {}

  /// How many entries there are, valid or not.
  std::size_t size() const { return entries_.size(); }
  void add(const OwnAddress& entry) { entries_.push_back(entry); }
  /// Bit i: an interface has the address of entry i. All are valid until this is said.
  void set_valid(std::uint32_t entries) { valid_ = entries; }

  /// The entry of this address, whatever its port. A loopback address stands for the node's own, as
  /// with a card; fe80:: without a scope for the one of any interface. EADDRNOTAVAIL.
  Result<OwnAddress> own(const SocketAddress& address) const;
  /// From where to reach `destination`. ENODEV if the node has no address of its family.
  Result<OwnAddress> source_for(const SocketAddress& destination) const;
  /// All valid addresses of one family, or of both, each once and without ports.
  std::vector<SocketAddress> all(int family, bool both) const;
  bool is_on_loopback_interface() const { return is_on_loopback_interface_; }

 private:
  bool is_valid(std::size_t entry) const { return (valid_ >> entry & 1) != 0; }

  const bool is_on_loopback_interface_;
  AppendOnlyList<OwnAddress, kMax> entries_;
  std::atomic<std::uint32_t> valid_ = ~0u;
};

}  // namespace verbatim::connect
