#include "link/ethernet/roce_v1_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/net/address.h"
#include "link/ethernet/neighbour.h"
#include "wire/net/grh.h"

namespace verbatim::link {
namespace {

// Offsets in a frame's payload: the GRH, then the BTH (see wire/net/grh.h, wire/ib/bth.h).
constexpr std::uint32_t kNextHeader = 6;
constexpr std::uint32_t kDestinationGid = 24;
constexpr std::uint32_t kDestinationQpn = wire::Grh::kSize + 4;
constexpr std::uint32_t kQpnMask = 0xffffff;
constexpr std::uint32_t kWhole = 0x40000;  // A filter's result for "accept the whole packet".

/// Accepts packets with a BTH for this GID and slot.
Result<void> attach_filter(int fd, const Gid& gid, std::uint32_t slot, std::uint32_t qpn_bits) {
  const auto word = [&gid](std::size_t i) {
    return load_be<std::uint32_t>(reinterpret_cast<const std::byte*>(&gid.bytes[4 * i]));
  };
  // Each test that fails jumps to the last instruction.
  auto program = std::to_array<sock_filter>({
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNextHeader),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wire::Grh::kNextIba, 0, 13),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationGid),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(0), 0, 11),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationGid + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(1), 0, 9),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationGid + 8),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(2), 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationGid + 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word(3), 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationQpn),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kQpnMask),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, qpn_bits),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kWhole),
      BPF_STMT(BPF_RET | BPF_K, 0),
  });
  const sock_fprog filter{program.size(), program.data()};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
    return refuse_errno("SO_ATTACH_FILTER");
  }
  return {};
}

}  // namespace

Result<UniqueFd> open_frame_socket(const Gid& destination, std::uint32_t slot,
                                   std::uint32_t qpn_bits) {
  // Protocol 0: nothing is received before the filter is attached.
  UniqueFd fd(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("RoCE v1 needs CAP_NET_RAW: packet socket");
  if (auto filtered = attach_filter(fd.get(), destination, slot, qpn_bits); !filtered) {
    return std::unexpected(filtered.error());
  }
  sockaddr_ll all{};
  all.sll_family = AF_PACKET;
  all.sll_protocol = to_big_endian(kRoceV1EtherType);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&all), sizeof all) != 0) {
    return refuse_errno("packet socket for RoCE v1");
  }
  return fd;
}

Result<UniqueFd> open_group_frame_socket(const Gid& group, std::uint32_t interface_index) {
  const auto address = resolve_gid(group, interface_index);
  if (!address) return std::unexpected(address.error());
  auto fd = open_frame_socket(group, kMulticastQpn.value(), 0);
  if (!fd) return fd;
  packet_mreq membership{};
  membership.mr_ifindex = static_cast<int>(interface_index);
  membership.mr_type = PACKET_MR_MULTICAST;
  const MacAddress mac = multicast_mac(*address);
  membership.mr_alen = mac.size();
  std::ranges::copy(mac, membership.mr_address);
  if (setsockopt(fd->get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) !=
      0) {
    return refuse_errno(fmt::format("frames of group {}", address->ip_text()));
  }
  return fd;
}

}  // namespace verbatim::link
