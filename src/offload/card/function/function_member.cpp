#include "offload/card/function/function_member.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace verbatim::offload {
namespace {

constexpr std::uint16_t kAllWants =
    VNIC_WANTS_ROCE_V1 | VNIC_WANTS_ROCE_V2 | VNIC_WANTS_NEIGHBOURS | VNIC_WANTS_ALL;
constexpr std::uint32_t kQpnBits = 24;
constexpr std::uint32_t kMulticastQpn = 0xffffff;

std::uint16_t want_for(wire::FrameUse use) {
  switch (use) {
    case wire::FrameUse::roce_v1:
      return VNIC_WANTS_ROCE_V1;
    case wire::FrameUse::roce_v2:
      return VNIC_WANTS_ROCE_V2;
    case wire::FrameUse::neighbours:
      return VNIC_WANTS_NEIGHBOURS;
    case wire::FrameUse::other:
      return 0;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<FunctionMember>> FunctionMember::create(int socket, const vnic_join& join) {
  if ((join.wants & ~kAllWants) != 0 || join.qpn_shift > kQpnBits) {
    return refuse(EINVAL, fmt::format("a client that wants {:#x}, of queue pairs >> {}",
                                      std::uint16_t{join.wants}, std::uint32_t{join.qpn_shift}));
  }
  constexpr std::size_t kBytes = sizeof(vnic_function_region);
  UniqueFd file(memfd_create("verbatim-function", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), kBytes) < 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    return refuse_errno("memory for a function's rings");
  }
  void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return refuse_errno("mapping a function's rings");
  madvise(at, kBytes, MADV_DONTFORK);  // The keeper's process would keep its file open.
  return std::unique_ptr<FunctionMember>(
      new FunctionMember(socket, join, std::move(file), static_cast<vnic_function_region*>(at)));
}

FunctionMember::FunctionMember(int socket, const vnic_join& join, UniqueFd file,
                               vnic_function_region* region)
    : socket_(socket),
      join_(join),
      file_(std::move(file)),
      region_(region),
      receive_{.shared = &region->receive},
      send_{.shared = &region->send} {}

FunctionMember::~FunctionMember() { munmap(region_, sizeof *region_); }

Result<void> FunctionMember::add_memory(const vnic_memory& piece, int file) {
  if (pieces_ == VNIC_FUNCTION_PIECES_MAX) {
    return refuse(ENOSPC, fmt::format("a function's client registers at most {} pieces of memory",
                                      VNIC_FUNCTION_PIECES_MAX));
  }
  if (auto added = memory_.add(piece, file); !added) return added;
  ++pieces_;
  return {};
}

bool FunctionMember::wants(const wire::FrameOwner& owner) const {
  if ((join_.wants & VNIC_WANTS_ALL) != 0) return true;
  if ((join_.wants & want_for(owner.use)) == 0) return false;
  return owner.use == wire::FrameUse::neighbours || owner.destination_qpn == kMulticastQpn ||
         owner.destination_qpn >> join_.qpn_shift == join_.qpn_range;
}

bool FunctionMember::deliver(ByteSpan head, ByteSpan rest) {
  const bool is_delivered = receive_.deliver(memory_, 0, faults_, [&](MutableByteSpan room) {
    const std::size_t size = head.size() + rest.size();
    if (room.size() < size) return std::size_t{0};
    std::memcpy(room.data(), head.data(), head.size());
    // A client may have both in one place of its memory.
    if (!rest.empty()) std::memmove(room.data() + head.size(), rest.data(), rest.size());
    return size;
  });
  has_news_ = true;  // A buffer that was too small has come back, too.
  if (!is_delivered) count(region_->no_buffer_dropped);
  return is_delivered;
}

bool FunctionMember::take(ByteSpan& frame) {
  frame = {};
  const auto taken = send_.take(memory_, faults_, 1, [&](ByteSpan posted) {
    if (posted.size() > VNIC_FUNCTION_FRAME_MAX) return static_cast<void>(++faults_);
    frame = posted;
  });
  return taken != 0;
}

void FunctionMember::publish() {
  send_.publish();
  receive_.publish();
}

void FunctionMember::say_asleep(bool asleep) { release(region_->card_asleep, asleep ? 1u : 0u); }

void FunctionMember::say_link(bool is_up) {
  release(region_->link_is_up, is_up ? 1u : 0u);
  has_news_ = true;
}

/// By its socket, and not by an eventfd: the client could make a write to that wait for ever.
void FunctionMember::wake() {
  publish();
  if (!std::exchange(has_news_, false)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (relaxed(region_->client_asleep) == 0) return;
  release(region_->client_asleep, 0u);
  const vnic_message message{VNIC_MAGIC, VNIC_VERSION, VNIC_WAKE};
  // If there is no room, it has not taken the last one.
  [[maybe_unused]] const auto sent =
      send(socket_, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace verbatim::offload
