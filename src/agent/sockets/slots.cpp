#include "agent/sockets/slots.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace verbatim::agent {
namespace {

struct flock byte_lock(off_t start, off_t length) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

/// Returns true also if it cannot be determined, for example without a free descriptor: an agent
/// that took living programs for dead would reassign their slots.
bool conflicts(int fd, struct flock lock) {
  return fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace

UniqueFd SlotLocks::open() const {
  return UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

Result<UniqueFd> SlotLocks::take(std::uint32_t slot) const {
  UniqueFd fd = open();
  if (!fd) return refuse_errno("cannot open " + path_);
  auto lock = byte_lock(slot, 1);
  if (fcntl(fd.get(), F_OFD_SETLK, &lock) == 0) return fd;
  if (errno == EAGAIN || errno == EACCES) {
    return refuse(EWOULDBLOCK, fmt::format("slot {} is in use", slot));
  }
  return refuse_errno("cannot lock " + path_);
}

bool SlotLocks::is_held(std::uint32_t slot) const {
  return conflicts(open().get(), byte_lock(slot, 1));
}

bool SlotLocks::any_is_held() const { return conflicts(open().get(), byte_lock(0, kSlotsMax)); }

void SlotLocks::remove_if_free() const {
  const UniqueFd fd = open();
  auto all = byte_lock(0, kSlotsMax);
  if (fd && fcntl(fd.get(), F_OFD_SETLK, &all) == 0) unlink(path_.c_str());
}

Slots::Slots(DescriptorStore store, SlotLocks locks)
    : store_(std::move(store)),
      node_(store_.node()),
      locks_(std::move(locks)),
      receive_sockets_({node_.addresses.begin(), node_.addresses.begin() + node_.socket_count()}) {}

Result<Slots> Slots::create(const Node& node, SlotLocks locks) {
  auto store = DescriptorStore::create(node);
  if (!store) return std::unexpected(store.error());
  Slots slots(std::move(*store), std::move(locks));
  if (auto grown = slots.grow(); !grown) return std::unexpected(grown.error());
  slots.is_taken_[0] = true;
  return slots;
}

Result<Slots> Slots::restore(DescriptorStore store, SlotLocks locks) {
  auto chunks = store.chunks();
  if (!chunks) return std::unexpected(chunks.error());
  Slots slots(std::move(store), std::move(locks));
  for (auto& chunk : *chunks) {
    if (auto added = slots.add(std::move(chunk)); !added) return std::unexpected(added.error());
  }
  if (slots.receive_sockets_.slot_count() == 0)
    return refuse(EPROTO, "a descriptor store without sockets");
  slots.is_taken_[0] = true;
  return slots;
}

Result<void> Slots::grow() {
  auto chunk = receive_sockets_.make_chunk();
  if (!chunk) return std::unexpected(chunk.error());
  return keep(std::move(*chunk));
}

Result<void> Slots::add_address(const SocketAddress& address) {
  if (!node_.has_room()) {
    return refuse(ENOSPC, fmt::format("a node has at most {} addresses", kAddressesMax));
  }
  auto chunk = receive_sockets_.make_chunk_of(address);
  if (!chunk) return std::unexpected(chunk.error());
  return keep(std::move(*chunk));
}

Result<void> Slots::keep(SocketChunk chunk) {
  if (auto kept = store_.append(chunk); !kept) {
    ReceiveSockets::close(chunk);
    return refuse(ENOSPC, fmt::format("no room for more sockets: {}", kept.error().text));
  }
  return add(std::move(chunk));
}

Result<void> Slots::add(SocketChunk chunk) {
  const auto new_address = chunk.new_address;
  if (new_address && !node_.has_room()) return refuse(EPROTO, "too many addresses");
  if (auto added = receive_sockets_.add(std::move(chunk)); !added) return added;
  if (new_address) node_.add(*new_address);
  is_taken_.resize(receive_sockets_.slot_count());
  return {};
}

Result<SlotLease> Slots::take() {
  auto lease = take_free();
  if (lease || lease.error().code != ENOSPC) return lease;
  if (auto grown = grow(); !grown) return std::unexpected(grown.error());
  return take_free();
}

Result<SlotLease> Slots::take_free() {
  const auto count = receive_sockets_.slot_count();
  for (std::uint32_t i = 1; i <= count; ++i) {
    const std::uint32_t slot = (last_taken_ + i) % count;
    if (is_taken_[slot]) continue;
    auto lock = locks_.take(slot);
    // A program that has not rejoined yet, or its forked child, still has it.
    if (!lock && lock.error().code == EWOULDBLOCK) continue;
    if (!lock) return std::unexpected(lock.error());
    receive_sockets_.drain(slot);
    is_taken_[slot] = true;
    last_taken_ = slot;
    return SlotLease{slot, std::move(*lock)};
  }
  return refuse(ENOSPC, "all slots are taken");
}

Result<void> Slots::retake(std::uint32_t slot) {
  if (slot == 0 || slot >= receive_sockets_.slot_count() || is_taken_[slot] ||
      !locks_.is_held(slot)) {
    return refuse(ESTALE,
                  fmt::format("slot {} of node '{}' is not this program's", slot, node().name));
  }
  is_taken_[slot] = true;
  return {};
}

void Slots::release(std::uint32_t slot) {
  is_taken_[slot] = false;
  receive_sockets_.drain(slot);
}

}  // namespace verbatim::agent
