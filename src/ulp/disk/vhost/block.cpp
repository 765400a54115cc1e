#include "ulp/disk/vhost/block.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

#include "ulp/engine/little_endian.h"

namespace verbatim::ulp::disk::vhost {
namespace {

using Status = Job::Status;

constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kSizeMax = 1ULL << 1, kSegmentsMax = 1ULL << 2, kReadOnly = 1ULL << 5,
                        kBlockSize = 1ULL << 6, kDiscard = 1ULL << 13, kWriteZeroes = 1ULL << 14,
                        kVersion1 = 1ULL << 32;

enum class Type : std::uint32_t {
  in = 0,
  out = 1,
  flush = 4,
  get_id = 8,
  discard = 11,
  write_zeroes = 13,
};
constexpr std::size_t kHeadBytes = 16, kStatusBytes = 1, kIdBytes = 20;
/// Together less than kDataBytesMax. QEMU's ring has 128 entries, two of which are no data's.
constexpr std::uint32_t kPieces = 126, kPieceBytes = 256 << 10;
constexpr std::uint32_t kClearSectors = 1 << 22;
constexpr std::uint32_t kMayUnmap = 1;

/// Where the fields of the configuration space are.
constexpr std::size_t kCapacityAt = 0, kSizeMaxAt = 8, kSegmentsMaxAt = 12, kBlockSizeAt = 20,
                      kDiscardAt = 36, kZeroesAt = 48, kZeroesMayUnmapAt = 56;

/// What DISCARD and WRITE ZEROES have as their data.
struct Range {
  std::uint64_t sector;
  std::uint32_t sectors, flags;
};
constexpr std::size_t kRangeBytes = 16;
static_assert(sizeof(Range) == kRangeBytes);

template <typename T>
void store(std::byte* at, T value) {
  value = to_little_endian(value);
  std::memcpy(at, &value, sizeof value);
}

bool can_clear(const storage::DiskFacts& facts, bool can) {
  return can && facts.clear_bytes_max > 0 && !facts.is_read_only;
}

void read_place(Job& job, std::uint64_t sector, std::uint64_t bytes) {
  if (sector > std::numeric_limits<std::uint64_t>::max() / kSector)
    return void(job.status = Status::error);
  job.offset = sector * kSector;
  job.bytes = bytes;
}

void read_transfer(Job& job, std::uint64_t sector, const GuestMemory& memory,
                   const storage::DiskFacts& facts) {
  const bool is_write = job.kind == Ask::Kind::write;
  const std::uint64_t bytes =
      is_write ? job.chain.readable_bytes - kHeadBytes : job.chain.writable_bytes - kStatusBytes;
  if (bytes > kDataBytesMax || (is_write && facts.is_read_only))
    return void(job.status = Status::error);
  read_place(job, sector, bytes);
  job.buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
  job.data = job.buffer.get();
  if (is_write && !memory.read(job.chain.readable, kHeadBytes, {job.data, bytes}))
    job.status = Status::error;
}

void read_clear(Job& job, const GuestMemory& memory, bool is_allowed) {
  Range range;
  std::byte bytes[kRangeBytes];
  if (!is_allowed) return void(job.status = Status::unsupported);
  // One range at a time, as the configuration says.
  if (job.chain.readable_bytes != kHeadBytes + kRangeBytes ||
      !memory.read(job.chain.readable, kHeadBytes, bytes))
    return void(job.status = Status::error);
  std::memcpy(&range, bytes, sizeof range);
  const std::uint32_t flags = to_little_endian(range.flags);
  const std::uint32_t known = job.kind == Ask::Kind::write_zeroes ? kMayUnmap : 0;
  if ((flags & ~known) != 0) return void(job.status = Status::unsupported);
  job.may_discard = flags != 0;
  read_place(job, to_little_endian(range.sector),
             std::uint64_t{to_little_endian(range.sectors)} * kSector);
}

/// What the target says of itself, as the disk's serial number.
void read_id(Job& job, const storage::DiskFacts& facts) {
  job.bytes = kIdBytes;
  job.buffer = std::make_unique<std::byte[]>(kIdBytes);
  job.data = job.buffer.get();
  std::memcpy(job.data, facts.name.data(), std::min(facts.name.size(), kIdBytes));
  job.status = Status::ok;
}

void read_kind(Job& job, Type type, std::uint64_t sector, const GuestMemory& memory,
               const storage::DiskFacts& facts) {
  switch (type) {
    case Type::in:
      job.kind = Ask::Kind::read;
      return read_transfer(job, sector, memory, facts);
    case Type::out:
      job.kind = Ask::Kind::write;
      return read_transfer(job, sector, memory, facts);
    case Type::flush:
      job.kind = Ask::Kind::flush;
      return;
    case Type::get_id:
      job.kind = Ask::Kind::read;
      return read_id(job, facts);
    case Type::discard:
      job.kind = Ask::Kind::discard;
      return read_clear(job, memory, can_clear(facts, facts.can_discard));
    case Type::write_zeroes:
      job.kind = Ask::Kind::write_zeroes;
      return read_clear(job, memory, can_clear(facts, facts.can_write_zeroes));
  }
  job.status = Status::unsupported;
}

}  // namespace

std::uint64_t features_of(const storage::DiskFacts& facts) {
  return kVersion1 | kProtocolFeatures | kSizeMax | kSegmentsMax | kBlockSize | kFlush |
         (facts.is_read_only ? kReadOnly : 0) |
         (can_clear(facts, facts.can_discard) ? kDiscard : 0) |
         (can_clear(facts, facts.can_write_zeroes) ? kWriteZeroes : 0);
}

std::array<std::byte, kConfigBytesMax> config_of(const storage::DiskFacts& facts) {
  std::array<std::byte, kConfigBytesMax> config{};
  const auto put = [&config](std::size_t at, auto value) { store(&config[at], value); };
  const std::uint32_t block_sectors = facts.block_bytes / kSector;
  put(kCapacityAt, facts.bytes / kSector);
  put(kSizeMaxAt, kPieceBytes);
  put(kSegmentsMaxAt, kPieces);
  put(kBlockSizeAt, facts.block_bytes);
  if (can_clear(facts, facts.can_discard)) {
    std::size_t at = kDiscardAt;
    for (const std::uint32_t value : {kClearSectors, 1U, block_sectors}) {
      put(at, value);
      at += sizeof value;
    }
  }
  if (can_clear(facts, facts.can_write_zeroes)) {
    put(kZeroesAt, kClearSectors);
    put(kZeroesAt + sizeof kClearSectors, std::uint32_t{1});
    config[kZeroesMayUnmapAt] = std::byte{1};
  }
  return config;
}

std::uint64_t data_bytes_of(const Chain& chain) {
  const auto behind = [](std::uint64_t all, std::uint64_t part) {
    return all < part ? 0 : all - part;
  };
  return std::max(behind(chain.readable_bytes, kHeadBytes),
                  behind(chain.writable_bytes, kStatusBytes));
}

Result<void> read_request(Job& job, const GuestMemory& memory, const storage::DiskFacts& facts,
                          std::uint64_t features) {
  std::byte head[kHeadBytes];
  if (job.chain.writable_bytes < kStatusBytes || !memory.read(job.chain.readable, 0, head))
    return refuse(EPROTO, "a request without a head or a place for its status");
  std::uint32_t type = 0;
  std::uint64_t sector = 0;
  std::memcpy(&type, &head[0], sizeof type);
  std::memcpy(&sector, &head[kHeadBytes - sizeof sector], sizeof sector);
  read_kind(job, Type{to_little_endian(type)}, to_little_endian(sector), memory, facts);
  // A driver that cannot flush has each write made stable.
  const bool changes = job.kind != Ask::Kind::read && job.kind != Ask::Kind::flush;
  job.then_flush = changes && (features & kFlush) == 0;
  return {};
}

std::uint32_t write_answer(const Job& job, const GuestMemory& memory) {
  Status status = job.status.value_or(job.error == 0            ? Status::ok
                                      : job.error == EOPNOTSUPP ? Status::unsupported
                                                                : Status::error);
  std::uint64_t written = 0;
  if (status == Status::ok && job.kind == Ask::Kind::read) {
    written = std::min(job.bytes, job.chain.writable_bytes - kStatusBytes);
    if (!memory.write(job.chain.writable, 0, {job.data, written})) status = Status::error;
  }
  const std::byte byte{static_cast<std::uint8_t>(status)};
  memory.write(job.chain.writable, job.chain.writable_bytes - kStatusBytes, {&byte, 1});
  return static_cast<std::uint32_t>(written + kStatusBytes);
}

}  // namespace verbatim::ulp::disk::vhost
