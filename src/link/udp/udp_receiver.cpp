#include <cstring>

#include <netinet/udp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/udp/udp.h"

namespace verbatim::link {
namespace {

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

/// Returns the size by which the kernel merged; 0: it did not.
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

/// Arguments and results of a call, prepared once: most calls find nothing and change nothing.
struct UdpReceiver::Messages {
  std::array<mmsghdr, kBuffers> headers{};
  std::array<iovec, kBuffers> pieces;
  std::array<ControlBuffer, kBuffers> controls;
  std::array<sockaddr_in6, kBuffers> names;

  explicit Messages(std::byte* buffers) {
    for (std::size_t i = 0; i < kBuffers; ++i) {
      pieces[i] = {buffers + i * kMergedBytesMax, kMergedBytesMax};
      headers[i].msg_hdr.msg_iov = &pieces[i];
      headers[i].msg_hdr.msg_iovlen = 1;
      headers[i].msg_hdr.msg_name = &names[i];
      headers[i].msg_hdr.msg_control = &controls[i];
      prepare(i);
    }
  }
  /// Resets what the kernel has written here.
  void prepare(std::size_t i) {
    headers[i].msg_hdr.msg_namelen = sizeof names[i];
    headers[i].msg_hdr.msg_controllen = sizeof controls[i];
  }
};

UdpReceiver::UdpReceiver()
    : buffers_(std::make_unique_for_overwrite<std::byte[]>(kBuffers * kMergedBytesMax)),
      messages_(std::make_unique<Messages>(buffers_.get())) {}

UdpReceiver::~UdpReceiver() = default;

std::size_t UdpReceiver::fill(const UdpSocket& socket) {
  auto& headers = messages_->headers;
  // The C library's recvmmsg is a cancellation point, with code around it: a thread that ended
  // there would keep the turn's lock.
  const auto count =
      syscall(SYS_recvmmsg, socket.fd(), headers.data(), kBuffers, MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    msghdr& message = headers[i].msg_hdr;
    const auto* const name = reinterpret_cast<const sockaddr*>(message.msg_name);
    const auto source = socket.has_frames() ? Result<SocketAddress>()
                                            : SocketAddress::from(name, message.msg_namelen);
    const bool whole = source.has_value() && (message.msg_flags & MSG_TRUNC) == 0;
    lengths_[i] = whole ? headers[i].msg_len : 0;
    if (whole) {
      sources_[i] = *source;
      const std::size_t merged = merged_segment_size(message);
      segment_sizes_[i] = merged != 0 && merged < lengths_[i] ? merged : lengths_[i];
    }
    messages_->prepare(i);
  }
  return static_cast<std::size_t>(count);
}

}  // namespace verbatim::link
