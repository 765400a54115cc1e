#include <cstring>

#include <netinet/udp.h>

#include "mover/udp.h"

namespace verbatim::mover {
namespace {

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

/// The size that the kernel merged by; 0: it did not merge.
std::size_t merged_segment_size(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(c), sizeof size);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  return 0;
}

}  // namespace

UdpReceiver::UdpReceiver()
    : buffers_(std::make_unique_for_overwrite<std::byte[]>(kBuffers * kMergedBytesMax)) {}

std::size_t UdpReceiver::fill(const UdpSocket& socket) {
  std::array<mmsghdr, kBuffers> messages{};
  std::array<iovec, kBuffers> pieces;
  std::array<ControlBuffer, kBuffers> controls;
  std::array<sockaddr_in6, kBuffers> names;
  for (std::size_t i = 0; i < kBuffers; ++i) {
    pieces[i] = {buffer(i), kMergedBytesMax};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &names[i];
    message.msg_namelen = sizeof names[i];
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
    message.msg_control = &controls[i];
    message.msg_controllen = sizeof controls[i];
  }

  const int count = recvmmsg(socket.fd(), messages.data(), kBuffers, MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    msghdr& message = messages[i].msg_hdr;
    const auto source = socket.has_frames()
                            ? Result<SocketAddress>()
                            : SocketAddress::from(reinterpret_cast<const sockaddr*>(&names[i]),
                                                  message.msg_namelen);
    const bool whole = source.has_value() && (message.msg_flags & MSG_TRUNC) == 0;
    lengths_[i] = whole ? messages[i].msg_len : 0;
    if (!whole) continue;
    sources_[i] = *source;
    const std::size_t merged = merged_segment_size(message);
    segment_sizes_[i] = merged != 0 && merged < lengths_[i] ? merged : lengths_[i];
  }
  return static_cast<std::size_t>(count);
}

}  // namespace verbatim::mover
