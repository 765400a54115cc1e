#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "ulp/disk/disk.h"
#include "ulp/disk/vhost/ring.h"

/// Virtio's block device (virtio 1.2, section 5.2): what it tells of a disk, and what its requests
/// ask.
namespace verbatim::ulp::disk::vhost {

/// Of one request, and of all that are under way: a guest makes us keep no more.
inline constexpr std::uint64_t kDataBytesMax = 32 << 20;

inline constexpr std::uint64_t kFlush = 1ULL << 9;

std::uint64_t features_of(const storage::DiskFacts& facts);
/// Its configuration space; zeroes behind what it has.
std::array<std::byte, kConfigBytesMax> config_of(const storage::DiskFacts& facts);

/// A request, from the ring until its answer is there.
struct Job : Ask {
  enum class Status : std::uint8_t { ok = 0, error = 1, unsupported = 2 };

  Chain chain;
  std::unique_ptr<std::byte[]> buffer{};  // Of its data: guests change theirs.
  std::optional<Status> status{};         // Without the disk.
  bool then_flush = false;                // It is answered when it is stable.

  bool is_done() const { return status || is_answered; }
};

/// The data that a chain has, as far as it says so.
std::uint64_t data_bytes_of(const Chain& chain);
/// Reads what `job.chain` asks. `features`: those that the driver has taken. EPROTO: it is no
/// request, and has no place for a status.
Result<void> read_request(Job& job, const GuestMemory& memory, const storage::DiskFacts& facts,
                          std::uint64_t features);
/// Writes its data and status. Returns how many bytes were written.
std::uint32_t write_answer(const Job& job, const GuestMemory& memory);

}  // namespace verbatim::ulp::disk::vhost
