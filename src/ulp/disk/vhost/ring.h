#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ulp/disk/vhost/guest_memory.h"

namespace verbatim::ulp::disk::vhost {

/// What the guest has put into the ring as one: bytes that we read, then bytes that we write.
struct Chain {
  std::uint16_t head = 0;
  std::vector<Piece> readable, writable;
  std::uint64_t readable_bytes = 0, writable_bytes = 0;
};

/// A split virtqueue (virtio 1.2, section 2.7), the device's side. Its memory is the guest's, who
/// may write anything there: indices are checked, a descriptor is read once, a chain has no more
/// than the ring has.
class Ring {
 public:
  static constexpr std::uint32_t kEntriesMax = 1024;

  /// EINVAL: not a power of two up to kEntriesMax.
  Result<void> set_entries(std::uint32_t entries);
  void set_addresses(const VringAddress& address) { address_ = address; }
  /// Where the next chain is.
  void set_base(std::uint16_t base) { next_ = base; }
  std::uint16_t base() const { return next_; }

  /// Looks the addresses up. EINVAL: the ring is not in that memory. Until then, and after the
  /// memory is gone, the ring is not used.
  Result<void> begin(const GuestMemory& memory);
  void end() { descriptors_ = available_ = used_ = nullptr; }
  bool has_begun() const { return descriptors_ != nullptr; }

  /// The next chain; none if there is none. EPROTO: the guest breaks the rules.
  Result<std::optional<Chain>> take();
  /// Takes back the last `take`.
  void untake() { --next_; }
  /// Gives a chain back, with this many bytes written.
  void put(std::uint16_t head, std::uint32_t bytes);
  bool wants_call() const;

 private:
  Result<Chain> walk(std::uint16_t head) const;

  std::uint32_t entries_ = 0;
  VringAddress address_{};
  std::uint16_t next_ = 0;       // Of what is available.
  std::uint16_t next_used_ = 0;  // Ours: what the guest writes there is not read again.
  std::byte *descriptors_ = nullptr, *available_ = nullptr, *used_ = nullptr;
};

}  // namespace verbatim::ulp::disk::vhost
