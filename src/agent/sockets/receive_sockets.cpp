#include "agent/sockets/receive_sockets.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/protocol/node.h"
#include "base/os/passed_descriptors.h"
#include "link/ethernet/roce_v1_socket.h"

namespace verbatim::agent {
namespace {

/// The kernel's minimum, for sockets that no program reads.
constexpr int kUnreadBufferBytes = 0;
/// More datagrams than fit in a receive buffer: bounds draining.
constexpr int kDrainedMax = 1 << 16;

/// Packets have the destination queue pair number in bytes 5 to 7 of the BTH, at the start of the
/// UDP payload, where the BPF program's view of the packet begins, too. Multicast numbers, and
/// packets that are too short, go to slot 0.
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

Result<void> set_on(int fd, int level, int option, const char* name) {
  const int on = 1;
  if (setsockopt(fd, level, option, &on, sizeof on) != 0) return refuse_errno(name);
  return {};
}

Result<void> share_port(int fd) { return set_on(fd, SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT"); }

/// Slots are also created while an interface lacks one of the node's addresses.
Result<void> allow_absent(int fd, const SocketAddress& address) {
  if (address.is_ipv4()) return set_on(fd, IPPROTO_IP, IP_FREEBIND, "IP_FREEBIND");
  return set_on(fd, IPPROTO_IPV6, IPV6_FREEBIND, "IPV6_FREEBIND");
}

Result<UniqueFd> new_socket(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("socket");
  return fd;
}

Result<void> bind_to(int fd, const SocketAddress& address) {
  if (bind(fd, address.data(), address.size()) == 0) return {};
  if (errno != EADDRINUSE) return refuse_errno(fmt::format("cannot bind {}", address));
  return refuse(
      EADDRINUSE,
      fmt::format("{} is in use: by the kernel's rdma_rxe, by another user's node (where 'verbatim "
                  "run' starts su or sudo: start verbatim behind that), or by a node of yours that "
                  "was started with another XDG_RUNTIME_DIR",
                  address));
}

/// The first socket of a group checks whether another process has the port, and then opens it to
/// the others: of two agents that want the same address, one is refused. The second socket makes
/// the group, which can then be steered.
Result<void> bind_shared(int fd, const SocketAddress& address, std::uint32_t slot) {
  if (auto set = allow_absent(fd, address); !set) return set;
  if (slot == 0) {
    auto bound = bind_to(fd, address);
    return bound ? share_port(fd) : bound;
  }
  if (auto shared = share_port(fd); !shared) return shared;
  auto bound = bind_to(fd, address);
  return bound && slot == 1 ? attach_steering(fd) : bound;
}

Result<UniqueFd> open_udp_socket(const SocketAddress& address, std::uint32_t slot) {
  auto fd = new_socket(address);
  if (!fd) return fd;
  if (auto bound = bind_shared(fd->get(), address, slot); !bound) {
    return std::unexpected(bound.error());
  }
  return fd;
}

Result<UniqueFd> open_socket(const SocketAddress& address, std::uint32_t slot) {
  auto fd = roce_version(address) == RoceVersion::v1
                ? link::open_frame_socket(gid_of(address), slot, kLocalQpnBits)
                : open_udp_socket(address, slot);
  if (!fd) return fd;
  setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUF, &kUnreadBufferBytes, sizeof kUnreadBufferBytes);
  return fd;
}

bool is_bound_to(int fd, const SocketAddress& address) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* name = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, name, &length) != 0) return false;
  if (roce_version(address) == RoceVersion::v1) return name->sa_family == AF_PACKET;
  const auto bound = SocketAddress::from(name, length);
  return bound && *bound == address;
}

}  // namespace

Result<void> ReceiveSockets::probe(const SocketAddress& address) {
  if (roce_version(address) == RoceVersion::v1) return {};  // Others may listen, too.
  const auto fd = new_socket(address);
  if (!fd) return std::unexpected(fd.error());
  return bind_to(fd->get(), address);
}

Result<SocketChunk> ReceiveSockets::open(std::uint32_t first_slot, std::uint32_t count,
                                         std::span<const SocketAddress> addresses) {
  SocketChunk chunk{.first_slot = first_slot, .new_address = {}, .slots = {}};
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& slot = chunk.slots.emplace_back();
    for (const SocketAddress& address : addresses) {
      auto fd = open_socket(address, first_slot + i);
      if (fd) {
        slot.push_back(std::move(*fd));
        continue;
      }
      close(chunk);
      return std::unexpected(fd.error());
    }
  }
  return chunk;
}

void ReceiveSockets::close(SocketChunk& chunk) {
  while (!chunk.slots.empty()) chunk.slots.pop_back();
}

Result<SocketChunk> ReceiveSockets::make_chunk() const {
  if (slot_count() + kSlotsPerChunk > kSlotsMax) {
    return refuse(ENOSPC, fmt::format("{} programs share this node already", kSlotsMax - 1));
  }
  return open(slot_count(), kSlotsPerChunk, addresses_);
}

Result<SocketChunk> ReceiveSockets::make_chunk_of(const SocketAddress& new_address) const {
  if (slot_count() > kPassedDescriptorsMax) {
    return refuse(ENOSPC, fmt::format("a node with room for {} programs gets no further address "
                                      "(above {})",
                                      slot_count(), kPassedDescriptorsMax));
  }
  auto chunk = open(0, slot_count(), std::span(&new_address, 1));
  if (chunk) chunk->new_address = new_address;
  return chunk;
}

Result<void> ReceiveSockets::check(const SocketChunk& chunk) const {
  const bool extends = chunk.new_address.has_value();
  if (chunk.first_slot != (extends ? 0 : slot_count())) {
    return refuse(EPROTO, "sockets of a slot are missing");
  }
  if (extends && chunk.slots.size() != slot_count()) {
    return refuse(EPROTO, "an address without a socket for each slot");
  }
  if (!extends && slot_count() + chunk.slots.size() > kSlotsMax) {
    return refuse(EPROTO, "too many slots");
  }
  const auto addresses = extends ? std::span(&*chunk.new_address, 1) : std::span(addresses_);
  for (const auto& slot : chunk.slots) {
    if (slot.size() != addresses.size()) return refuse(EPROTO, "a slot without all its sockets");
    for (std::size_t i = 0; i < slot.size(); ++i) {
      if (!is_bound_to(slot[i].get(), addresses[i])) {
        return refuse(EPROTO, fmt::format("a socket that is not bound to {}", addresses[i]));
      }
    }
  }
  return {};
}

Result<void> ReceiveSockets::add(SocketChunk chunk) {
  if (auto fitting = check(chunk); !fitting) return fitting;
  if (chunk.new_address) {
    addresses_.push_back(*chunk.new_address);
    for (std::uint32_t slot = 0; slot < slot_count(); ++slot) {
      slots_[slot].push_back(std::move(chunk.slots[slot].front()));
    }
  } else {
    std::ranges::move(chunk.slots, std::back_inserter(slots_));
  }
  return {};
}

void ReceiveSockets::drain(std::uint32_t slot) const {
  for (const UniqueFd& socket : slots_[slot]) {
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kUnreadBufferBytes, sizeof kUnreadBufferBytes);
    for (int i = 0; i < kDrainedMax && recv(socket.get(), nullptr, 0, MSG_DONTWAIT) >= 0; ++i) {
    }
  }
}

}  // namespace verbatim::agent
