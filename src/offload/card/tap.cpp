#include "offload/card/tap.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

namespace verbatim::offload {
namespace {

/// What stands before each frame of a TAP with IFF_VNET_HDR (virtio 1.2, 5.1.6), in the machine's
/// order. <linux/virtio_net.h> is no C++.
struct VirtioHeader {
  std::uint8_t flags = 0;
  std::uint8_t kind = 0;
  std::uint16_t header_bytes = 0;  // A hint.
  std::uint16_t segment_bytes = 0;
  std::uint16_t checksum_start = 0;
  std::uint16_t checksum_offset = 0;
};
constexpr std::uint8_t kNeedsChecksum = 1;
constexpr std::uint8_t kTcpIpv4 = 1;
constexpr std::uint8_t kTcpIpv6 = 4;
constexpr std::uint8_t kUdp = 5;
constexpr std::uint8_t kCongestionBit = 0x80;

// Segmented UDP (Linux 6.2), which RoCE v2 of our programs is.
constexpr unsigned kUdpOffloads = 0x20 | 0x40;
constexpr unsigned kTcpOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;

FrameNote note_of(const VirtioHeader& header) {
  FrameNote note{.needs_checksum = (header.flags & kNeedsChecksum) != 0,
                 .segment_bytes = header.segment_bytes,
                 .checksum_start = header.checksum_start,
                 .checksum_offset = header.checksum_offset};
  switch (header.kind & ~kCongestionBit) {
    case kTcpIpv4:
      note.kind = LargeKind::kTcpIpv4;
      break;
    case kTcpIpv6:
      note.kind = LargeKind::kTcpIpv6;
      break;
    case kUdp:
      note.kind = LargeKind::kUdp;
      break;
    default:
      break;
  }
  return note;
}

VirtioHeader header_of(const FrameNote& note) {
  VirtioHeader header{.flags = note.needs_checksum ? kNeedsChecksum : std::uint8_t{0},
                      .segment_bytes = note.segment_bytes,
                      .checksum_start = note.checksum_start,
                      .checksum_offset = note.checksum_offset};
  if (note.kind == LargeKind::kTcpIpv4) header.kind = kTcpIpv4;
  if (note.kind == LargeKind::kTcpIpv6) header.kind = kTcpIpv6;
  if (note.kind == LargeKind::kUdp) header.kind = kUdp;
  return header;
}

}  // namespace

Result<Tap> Tap::open(const std::string& name) {
  UniqueFd fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    const int code = errno;
    return refuse(code, fmt::format("/dev/net/tun: {}; functions are TAP interfaces: load the "
                                    "kernel module 'tun' (as root: modprobe tun)",
                                    std::strerror(code)));
  }
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (name.size() >= sizeof request.ifr_name) {
    return refuse(EINVAL, fmt::format("interface {}: the name is too long", name));
  }
  name.copy(request.ifr_name, name.size());
  if (ioctl(fd.get(), TUNSETIFF, &request) < 0) {
    const int code = errno;
    const char* const advice =
        code == EPERM   ? "; run as root, or in namespaces of your own: unshare -rnm"
        : code == EBUSY ? "; another program has it: choose other names with --prefix"
                        : "";
    return refuse(code, fmt::format("interface {}: {}{}", name, std::strerror(code), advice));
  }
  if (ioctl(fd.get(), TUNSETOFFLOAD, kTcpOffloads | kUdpOffloads) < 0 &&
      ioctl(fd.get(), TUNSETOFFLOAD, kTcpOffloads) < 0) {
    return refuse_errno(fmt::format("interface {}: offloads", name));
  }
  return Tap(std::move(fd), name);
}

/// Its link is up, as a new one's is: the driver repeats what it wants otherwise.
Result<Tap> Tap::adopt(UniqueFd fd, const std::string& name) {
  ifreq request{};
  if (ioctl(fd.get(), TUNGETIFF, &request) < 0) return refuse_errno("interface " + name);
  Tap tap(std::move(fd), name);
  static_cast<void>(tap.set_carrier(true));
  return tap;
}

std::array<std::uint8_t, 6> Tap::mac() const {
  std::array<std::uint8_t, 6> mac{};
  ifreq request{};
  if (ioctl(fd(), SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  }
  return mac;
}

int Tap::set_mac(std::span<const std::uint8_t, 6> mac) const {
  ifreq request{};
  if (ioctl(fd(), SIOCGIFHWADDR, &request) != 0) return errno;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  return ioctl(fd(), SIOCSIFHWADDR, &request) == 0 ? 0 : errno;
}

int Tap::set_carrier(bool is_up) const {
  const int carrier = is_up ? 1 : 0;
  return ioctl(fd(), TUNSETCARRIER, &carrier) == 0 ? 0 : errno;
}

std::size_t Tap::read(MutableByteSpan room, FrameNote& note) const {
  VirtioHeader header;
  const iovec parts[] = {{&header, sizeof header}, {room.data(), room.size()}};
  const ssize_t size = readv(fd(), parts, 2);
  if (size <= static_cast<ssize_t>(sizeof header)) return 0;
  note = note_of(header);
  return static_cast<std::size_t>(size) - sizeof header;
}

bool Tap::write(ByteSpan head, ByteSpan rest, const FrameNote& note) const {
  VirtioHeader header = header_of(note);
  const iovec parts[] = {{&header, sizeof header},
                         {const_cast<std::byte*>(head.data()), head.size()},
                         {const_cast<std::byte*>(rest.data()), rest.size()}};
  return writev(fd(), parts, rest.empty() ? 2 : 3) >= 0;
}

}  // namespace verbatim::offload
