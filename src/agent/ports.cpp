#include "agent/ports.h"

#include <array>

#include <linux/filter.h>
#include <sys/socket.h>

#include "agent/node.h"

namespace verbatim::agent {
namespace {

/// As little as the kernel grants: for sockets that nobody reads.
constexpr int kUnreadBufferBytes = 0;
/// More datagrams than a receive buffer holds: bounds draining.
constexpr int kDrainedMax = 1 << 16;

/// Packets carry the destination queue pair number in bytes 5 to 7 of the BTH, where the UDP
/// payload begins, as does the program's view of the packet. Multicast numbers, and packets that
/// are too short, go to slot 0.
Result<void> attach_steering(int fd) {
  constexpr std::uint32_t kQpnMask = 0xffffff;
  static constexpr auto kProgram = std::to_array<sock_filter>({
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kQpnMask),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kQpnMask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, kLocalQpnBits),
      BPF_STMT(BPF_RET | BPF_A, 0),
  });
  const sock_fprog program{kProgram.size(), const_cast<sock_filter*>(kProgram.data())};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0) {
    return refuse_errno("cannot steer packets by queue pair number (SO_ATTACH_REUSEPORT_CBPF)");
  }
  return {};
}

Result<UniqueFd> bound_socket(const SocketAddress& address, bool shared) {
  UniqueFd fd(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("socket");
  const int on = 1;
  if (shared && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    return refuse_errno("SO_REUSEPORT");
  }
  if (bind(fd.get(), address.data(), address.size()) == 0) return fd;
  if (errno != EADDRINUSE) return refuse_errno(fmt::format("cannot bind {}", address));
  return refuse(
      EADDRINUSE,
      fmt::format("{} is in use: by the kernel's rdma_rxe, by another user's node, or by a "
                  "node of yours that was started with another XDG_RUNTIME_DIR",
                  address));
}

bool is_bound_to(int fd, const SocketAddress& address) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* name = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, name, &length) != 0) return false;
  const auto bound = SocketAddress::from(name, length);
  return bound && *bound == address;
}

}  // namespace

Result<void> Ports::probe(const SocketAddress& address) {
  auto fd = bound_socket(address, false);
  if (!fd) return std::unexpected(fd.error());
  return {};
}

Result<UniqueFd> Ports::open(const SocketAddress& address, bool first) const {
  auto fd = bound_socket(address, true);
  if (!fd) return fd;
  setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUF, &kUnreadBufferBytes, sizeof kUnreadBufferBytes);
  if (!first) return fd;
  if (auto attached = attach_steering(fd->get()); !attached) {
    return std::unexpected(attached.error());
  }
  return fd;
}

Result<PortChunk> Ports::make_chunk() const {
  if (slot_count() + kSlotsPerChunk > kSlotsMax) {
    return refuse(ENOSPC, fmt::format("{} programs share this node already", kSlotsMax - 1));
  }
  PortChunk chunk{slot_count(), {}};
  for (std::uint32_t i = 0; i < kSlotsPerChunk; ++i) {
    auto& slot = chunk.slots.emplace_back();
    for (const SocketAddress& address : addresses_) {
      auto fd = open(address, slot_count() + i == 0);
      if (fd) {
        slot.push_back(std::move(*fd));
        continue;
      }
      // From the last to the first, so that none moves into the gap of an older one.
      while (!chunk.slots.empty()) chunk.slots.pop_back();
      return std::unexpected(fd.error());
    }
  }
  return chunk;
}

Result<void> Ports::add(PortChunk chunk) {
  if (chunk.first_slot != slot_count()) return refuse(EPROTO, "sockets of a slot are missing");
  if (slot_count() + chunk.slots.size() > kSlotsMax) return refuse(EPROTO, "too many slots");
  for (const auto& slot : chunk.slots) {
    if (slot.size() != addresses_.size()) return refuse(EPROTO, "a slot without all its sockets");
    for (std::size_t i = 0; i < slot.size(); ++i) {
      if (!is_bound_to(slot[i].get(), addresses_[i])) {
        return refuse(EPROTO, fmt::format("a socket that is not bound to {}", addresses_[i]));
      }
    }
  }
  for (auto& slot : chunk.slots) slots_.push_back(std::move(slot));
  return {};
}

void Ports::drain(std::uint32_t slot) const {
  for (const UniqueFd& socket : slots_[slot]) {
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kUnreadBufferBytes, sizeof kUnreadBufferBytes);
    for (int i = 0; i < kDrainedMax && recv(socket.get(), nullptr, 0, MSG_DONTWAIT) >= 0; ++i) {
    }
  }
}

}  // namespace verbatim::agent
