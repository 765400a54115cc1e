#include "link/ethernet/packet_interface.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace verbatim::link {
namespace {

constexpr int kReceiveBufferBytes = 4 << 20;
/// How long a send waits for room in the send buffer.
constexpr timeval kSendTimeout{0, 10'000};
/// Offset of a VLAN tag in a frame: after the two addresses.
constexpr std::size_t kAddressesBytes = 12;
constexpr std::size_t kTypeAt = kAddressesBytes;

sockaddr_ll address_of(std::uint32_t index, std::uint16_t protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = to_big_endian(protocol);
  address.sll_ifindex = static_cast<int>(index);
  return address;
}

Result<std::size_t> mtu_of(int fd, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, SIOCGIFMTU, &request) != 0) return refuse_errno("MTU of " + name);
  return static_cast<std::size_t>(request.ifr_mtu);
}

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(tpacket_auxdata))];
};

tpacket_auxdata auxiliary_data(msghdr& message) {
  tpacket_auxdata data{};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
      std::memcpy(&data, CMSG_DATA(c), sizeof data);
    }
  }
  return data;
}

/// The kernel removes the outermost VLAN tag from the frame and returns it separately. `frame`
/// begins four bytes after the buffer's start; the result may begin at the start.
MutableByteSpan with_vlan_tag(MutableByteSpan frame, const tpacket_auxdata& data) {
  if ((data.tp_status & TP_STATUS_VLAN_VALID) == 0 || frame.size() < kAddressesBytes) return frame;
  std::byte* const start = frame.data() - 4;
  std::memmove(start, frame.data(), kAddressesBytes);
  const bool has_type = (data.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  store_be<std::uint16_t>(start + kAddressesBytes, has_type ? data.tp_vlan_tpid : ETHERTYPE_VLAN);
  store_be<std::uint16_t>(start + kAddressesBytes + 2, data.tp_vlan_tci);
  return {start, frame.size() + 4};
}

}  // namespace

Result<PacketInterface> PacketInterface::open(const std::string& name, std::uint32_t index) {
  PacketInterface interface;
  interface.index_ = index;
  // Protocol 0: it receives nothing. Frames sent by it are received by the other socket, which
  // would not receive its own.
  interface.sending_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int fd = interface.sending_.get();
  if (fd < 0) {
    return refuse_errno(fmt::format("raw frames on {} need CAP_NET_RAW: packet socket", name));
  }
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  const auto mtu = mtu_of(fd, name);
  if (!mtu) return std::unexpected(mtu.error());
  interface.frame_bytes_max_ = std::min(*mtu + 18, kFrameBytesMax);
  return interface;
}

int PacketInterface::send(const FrameBatch& batch) const noexcept {
  std::array<mmsghdr, FrameBatch::kFramesMax> messages{};
  std::array<iovec, FrameBatch::kFramesMax> pieces;
  std::array<sockaddr_ll, FrameBatch::kFramesMax> addresses;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const MutableByteSpan frame = batch.frame(i);
    pieces[i] = {frame.data(), frame.size()};
    addresses[i] = address_of(index_, load_be<std::uint16_t>(&frame[kTypeAt]));
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &addresses[i];
    message.msg_namelen = sizeof addresses[i];
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
  }
  for (std::size_t sent = 0; sent < batch.size();) {
    const int count = sendmmsg(sending_.get(), &messages[sent],
                               static_cast<unsigned>(batch.size() - sent), MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      ++sent;  // Lost, which is allowed on Ethernet.
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

Result<int> PacketInterface::start_receiving() {
  UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("packet socket");
  const auto set = [&fd](int level, int name, const auto& value) {
    return setsockopt(fd.get(), level, name, &value, sizeof value) == 0;
  };
  if (!set(SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBufferBytes)) {
    set(SOL_SOCKET, SO_RCVBUF, kReceiveBufferBytes);
  }
  if (!set(SOL_PACKET, PACKET_AUXDATA, int{1})) return refuse_errno("PACKET_AUXDATA");
  const sockaddr_ll address = address_of(index_, ETH_P_ALL);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return refuse_errno("packet socket on its interface");
  }
  // The flow table selects our frames, so the interface must not.
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = static_cast<int>(index_);
  promiscuous.mr_type = PACKET_MR_PROMISC;
  if (!set(SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous))
    return refuse_errno("PACKET_MR_PROMISC");
  if (!buffers_) {
    buffers_ = std::make_unique_for_overwrite<std::byte[]>(kBuffers * buffer_bytes());
  }
  receiving_ = std::move(fd);
  return receiving_.get();
}

std::size_t PacketInterface::fill() {
  std::array<mmsghdr, kBuffers> messages{};
  std::array<iovec, kBuffers> pieces;
  std::array<ControlBuffer, kBuffers> controls;
  std::array<sockaddr_ll, kBuffers> sources;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    pieces[i] = {buffer(i) + kTagBytes, frame_bytes_max_};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &sources[i];
    message.msg_namelen = sizeof sources[i];
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
    message.msg_control = &controls[i];
    message.msg_controllen = sizeof controls[i];
  }
  const int count = recvmmsg(receiving_.get(), messages.data(), kBuffers, MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    frames_[i] = {};
    // Longer than the interface's frames: the kernel has merged several, which no link carried.
    if ((messages[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) continue;
    const tpacket_auxdata data = auxiliary_data(messages[i].msg_hdr);
    frames_[i] = {.bytes = with_vlan_tag({buffer(i) + kTagBytes, messages[i].msg_len}, data),
                  .sent = sources[i].sll_pkttype == PACKET_OUTGOING,
                  .checksums_missing = (data.tp_status & TP_STATUS_CSUMNOTREADY) != 0};
  }
  return static_cast<std::size_t>(count);
}

}  // namespace verbatim::link
