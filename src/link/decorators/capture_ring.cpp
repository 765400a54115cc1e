#include "link/decorators/capture_ring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::link {
namespace {

constexpr std::size_t kPacketBytesMax = 1 << 17;

/// Header before each packet's bytes.
struct Record {
  std::uint32_t bytes = 0;
  CapturedPacket packet;
};
static_assert(std::is_trivially_copyable_v<Record>);
static_assert(sizeof(CaptureRingHeader) <= CaptureRingHeader::kDataOffset);

/// A program may have written anything, so that its `bool` may be none.
bool is_valid(const CapturedPacket& packet) {
  const auto is_flag = [](const bool& value) {
    std::uint8_t byte;
    std::memcpy(&byte, &value, sizeof byte);
    return byte <= 1;
  };
  return is_flag(packet.flow.dont_fragment) && is_flag(packet.is_infiniband) &&
         packet.direction <= Direction::receive && packet.remark <= Remark::corrupted;
}

/// Neither side may pull the memory away from under the other.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<CaptureMapping> map(int fd, std::size_t bytes) {
  void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return refuse_errno("cannot map a capture's buffer");
  return CaptureMapping(address, bytes);
}

}  // namespace

CaptureMapping::CaptureMapping(CaptureMapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}

CaptureMapping& CaptureMapping::operator=(CaptureMapping&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CaptureMapping::~CaptureMapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

Result<std::unique_ptr<CaptureRing>> CaptureRing::create(std::size_t capacity) {
  UniqueFd fd(memfd_create("verbatim-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::size_t total = CaptureRingHeader::kDataOffset + capacity;
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(total)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return refuse_errno("no memory for a capture's buffer");
  }
  auto mapping = map(fd.get(), total);
  if (!mapping) return std::unexpected(mapping.error());
  new (&mapping->header()) CaptureRingHeader{.capacity = capacity};
  return std::unique_ptr<CaptureRing>(
      new CaptureRing(std::move(fd), std::move(*mapping), capacity));
}

void CaptureRing::put(std::uint64_t at, const void* bytes, std::size_t count) {
  if (count == 0) return;  // As in CaptureReader::get.
  const std::size_t start = at % capacity_;
  const std::size_t to_end = std::min(count, capacity_ - start);
  std::memcpy(mapping_.data() + start, bytes, to_end);
  std::memcpy(mapping_.data(), static_cast<const std::byte*>(bytes) + to_end, count - to_end);
}

void CaptureRing::add(const CapturedPacket& packet, std::span<const iovec> pieces,
                      std::size_t offset, std::size_t bytes) {
  CaptureRingHeader& header = mapping_.header();
  header.packets.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t start = header.written.load(std::memory_order_relaxed);
  const std::uint64_t used = start - header.read.load(std::memory_order_acquire);
  if (bytes > kPacketBytesMax || used > capacity_ || sizeof(Record) + bytes > capacity_ - used) {
    header.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const Record record{.bytes = static_cast<std::uint32_t>(bytes), .packet = packet};
  put(start, &record, sizeof record);
  std::uint64_t at = start + sizeof record;
  for (const iovec& piece : pieces) {
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    const std::size_t count = std::min(bytes, piece.iov_len - offset);
    put(at, static_cast<const std::byte*>(piece.iov_base) + offset, count);
    at += count;
    bytes -= count;
    offset = 0;
    if (bytes == 0) break;
  }
  // Published as a whole: a reader never sees half a packet.
  header.written.store(start + sizeof record + record.bytes, std::memory_order_release);
}

Result<CaptureReader> CaptureReader::open(UniqueFd fd) {
  struct stat status{};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd.get(), &status) != 0 ||
      status.st_size <= static_cast<off_t>(CaptureRingHeader::kDataOffset)) {
    return refuse(EPROTO, "a program offers a capture's buffer that is none");
  }
  const auto total = static_cast<std::size_t>(status.st_size);
  auto mapping = map(fd.get(), total);
  if (!mapping) return std::unexpected(mapping.error());
  const CaptureRingHeader& header = mapping->header();
  const std::size_t capacity = total - CaptureRingHeader::kDataOffset;
  if (header.magic != CaptureRingHeader::kMagic || header.capacity != capacity) {
    return refuse(EPROTO, "a program of another release offers a capture's buffer: restart it");
  }
  return CaptureReader(std::move(*mapping), capacity);
}

void CaptureReader::get(std::uint64_t at, void* bytes, std::size_t count) const {
  if (count == 0) return;  // `bytes` may be null then, which memcpy does not allow.
  const std::size_t start = at % capacity_;
  const std::size_t to_end = std::min(count, capacity_ - start);
  std::memcpy(bytes, mapping_.data() + start, to_end);
  std::memcpy(static_cast<std::byte*>(bytes) + to_end, mapping_.data(), count - to_end);
}

bool CaptureReader::next(CapturedPacket& packet, ByteSpan& bytes) {
  CaptureRingHeader& header = mapping_.header();
  const std::uint64_t start = header.read.load(std::memory_order_relaxed);
  const std::uint64_t there = header.written.load(std::memory_order_acquire) - start;
  if (there == 0 || is_damaged_) return false;
  Record record;
  if (there > capacity_ || there < sizeof record) return is_damaged_ = true, false;
  get(start, &record, sizeof record);
  if (record.bytes > kPacketBytesMax || record.bytes > there - sizeof record ||
      !is_valid(record.packet)) {
    return is_damaged_ = true, false;
  }
  bytes_.resize(record.bytes);
  get(start + sizeof record, bytes_.data(), record.bytes);
  header.read.store(start + sizeof record + record.bytes, std::memory_order_release);
  packet = record.packet;
  bytes = bytes_;
  return true;
}

}  // namespace verbatim::link
