#include "ulp/rds/local/inbox.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <time.h>

#include "base/files/sparse_file.h"

namespace verbatim::ulp::rds::local {
namespace {

constexpr std::uint32_t taken_of(std::uint64_t cursors) {
  return static_cast<std::uint32_t>(cursors);
}
constexpr std::uint32_t put_of(std::uint64_t cursors) {
  return static_cast<std::uint32_t>(cursors >> 32);
}
constexpr std::uint64_t cursors_of(std::uint32_t taken, std::uint32_t put) {
  return std::uint64_t{put} << 32 | taken;
}

}  // namespace

/// With its head, rounded up.
std::uint32_t Inbox::bytes_of(std::uint32_t message) {
  constexpr std::uint32_t kUnit = 64;
  return (static_cast<std::uint32_t>(sizeof(Head)) + message + kUnit - 1) / kUnit * kUnit;
}

std::uint32_t Inbox::used() const {
  const std::uint64_t now = cursors.load(std::memory_order_acquire);
  return put_of(now) - taken_of(now);
}

constinit thread_local const Inbox* volatile Holding::held_ = nullptr;

Locked::Locked(Inbox& inbox)
    : inbox_(inbox), is_locked_(!Holding::is_held(inbox)), holding_(inbox) {
  if (!is_locked_) return;
  constexpr timespec kNap{0, 100'000};
  while (!inbox.lock_soon()) nanosleep(&kNap, nullptr);
}

bool Inbox::lock_soon() {
  constexpr unsigned kSpins = 4096;  // 64 times it yields.
  for (unsigned spins = 1; spins < kSpins; ++spins) {
    if (lock.try_lock()) return true;
    lock.wait(spins);
  }
  return false;
}

void Inbox::write(std::uint32_t at, const void* from, std::size_t bytes) {
  const std::uint32_t start = at % kCapacity;
  const std::size_t first = std::min<std::size_t>(bytes, kCapacity - start);
  if (first > 0) std::memcpy(&bytes_[start], from, first);
  if (bytes > first)
    std::memcpy(bytes_.data(), static_cast<const std::byte*>(from) + first, bytes - first);
}

void Inbox::read(std::uint32_t at, void* to, std::size_t bytes) const {
  const std::uint32_t start = at % kCapacity;
  const std::size_t first = std::min<std::size_t>(bytes, kCapacity - start);
  if (first > 0) std::memcpy(to, &bytes_[start], first);
  if (bytes > first) std::memcpy(static_cast<std::byte*>(to) + first, bytes_.data(), bytes - first);
}

bool Inbox::has_room(std::uint32_t message) const {
  const std::uint64_t now = cursors.load(std::memory_order_relaxed);
  const std::uint32_t has = put_of(now) - taken_of(now), needed = bytes_of(message);
  const std::uint32_t most =
      has == 0 ? kCapacity : std::min(limit.load(std::memory_order_relaxed), kCapacity);
  return has <= most && needed <= most - has;
}

void Inbox::append(const Head& head, std::span<const ByteSpan> pieces) {
  const std::uint64_t now = cursors.load(std::memory_order_relaxed);
  write(put_of(now), &head, sizeof head);
  std::uint32_t at = put_of(now) + static_cast<std::uint32_t>(sizeof head);
  for (const ByteSpan piece : pieces) {
    write(at, piece.data(), piece.size());
    at += static_cast<std::uint32_t>(piece.size());
  }
  const std::uint64_t next = cursors_of(taken_of(now), put_of(now) + bytes_of(head.bytes));
  cursors.store(next, std::memory_order_release);
}

Inbox::Take Inbox::take(Taken& taken, const iovec* pieces, std::size_t count, bool stays) {
  const std::uint64_t now = cursors.load(std::memory_order_acquire);
  const std::uint32_t has = put_of(now) - taken_of(now);
  if (has == 0) return Take::empty;
  if (has > kCapacity || has < sizeof(Head)) return Take::broken;
  read(taken_of(now), &taken.head, sizeof taken.head);
  const Head& head = taken.head;
  if (head.magic != kMagic || head.bytes > kCapacity || bytes_of(head.bytes) > has)
    return Take::broken;
  taken.copied = 0;
  for (std::size_t i = 0; i < count && taken.copied < head.bytes; ++i) {
    const std::size_t part = std::min(pieces[i].iov_len, head.bytes - taken.copied);
    read(taken_of(now) + static_cast<std::uint32_t>(sizeof head + taken.copied), pieces[i].iov_base,
         part);
    taken.copied += part;
  }
  if (stays) return Take::done;
  const std::uint32_t end = taken_of(now) + bytes_of(head.bytes);
  // An empty one begins anew, so that few of its pages are used.
  const std::uint64_t next = end == put_of(now) ? 0 : cursors_of(end, put_of(now));
  cursors.store(next, std::memory_order_release);
  return Take::done;
}

int create_inbox() {
  auto file = create_sparse_file("verbatim-rds-inbox", sizeof(Inbox));
  return file ? file->release() : -1;
}

Inbox* map_inbox(int file) {
  if (!keeps_bytes(file, 0, sizeof(Inbox))) return nullptr;
  void* const memory = mmap(nullptr, sizeof(Inbox), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Inbox*>(memory);
}

void unmap(Inbox* inbox) {
  if (inbox != nullptr) munmap(inbox, sizeof(Inbox));
}

}  // namespace verbatim::ulp::rds::local
