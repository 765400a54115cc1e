#include "fabric/daemon/trunks/trunk_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

namespace verbatim::fabric {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;

template <typename Value>
void set(int fd, int level, int name, const Value& value) {
  // What cannot be set costs speed alone.
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

/// Room for one control message with a value of this type.
template <typename Value>
union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(Value))];
};

}  // namespace

Result<TrunkSocket> TrunkSocket::open(const SocketAddress& local) {
  UniqueFd fd(socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("a socket for a trunk");
  if (bind(fd.get(), local.data(), local.size()) != 0) {
    return refuse_errno(fmt::format("a trunk cannot listen at {}", local));
  }
  set(fd.get(), SOL_SOCKET, SO_RCVBUF, kSocketBufferBytes);
  set(fd.get(), SOL_SOCKET, SO_SNDBUF, kSocketBufferBytes);
  set(fd.get(), IPPROTO_UDP, UDP_GRO, int{1});
  // The largest datagrams are larger than Ethernet's MTU.
  if (local.is_ipv6()) {
    set(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, int{IPV6_PMTUDISC_DONT});
  } else {
    set(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_DONT});
  }
  auto bound = SocketAddress::of_socket(fd.get());
  if (!bound) return std::unexpected(std::move(bound.error()));
  return TrunkSocket(std::move(fd), *bound);
}

/// Joins the batch if the kernel can still segment that: none before is of another size.
void TrunkSocket::add(const trunk::Session::Outgoing& datagram) {
  if (!batch_.empty()) {
    const std::size_t segment = batch_.front().iov_len;
    const bool fits = can_segment_ && datagram.to == to_ && datagram.bytes.size() <= segment &&
                      batch_.back().iov_len == segment &&
                      batch_bytes_ + datagram.bytes.size() <= kBatchBytes;
    if (!fits) flush();
  }
  to_ = datagram.to;
  batch_.push({.iov_base = const_cast<std::byte*>(datagram.bytes.data()),
               .iov_len = datagram.bytes.size()});
  batch_bytes_ += datagram.bytes.size();
  if (batch_.full()) flush();
}

void TrunkSocket::flush() {
  if (batch_.size() > 1 && can_segment_) can_segment_ = send_segmented();
  if (batch_.size() == 1 || !can_segment_) {
    for (const iovec& datagram : batch_) {
      (void)sendto(fd_.get(), datagram.iov_base, datagram.iov_len, MSG_NOSIGNAL, to_.data(),
                   to_.size());
    }
  }
  batch_.clear();
  batch_bytes_ = 0;
}

/// False: the kernel cannot, on this path.
bool TrunkSocket::send_segmented() {
  Control<std::uint16_t> control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(to_.data());
  message.msg_namelen = to_.size();
  message.msg_iov = batch_.begin();
  message.msg_iovlen = batch_.size();
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_UDP;
  header->cmsg_type = UDP_SEGMENT;
  header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto size = static_cast<std::uint16_t>(batch_.front().iov_len);
  std::memcpy(CMSG_DATA(header), &size, sizeof size);
  if (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) >= 0) return true;
  return errno != EIO && errno != EINVAL && errno != EMSGSIZE;
}

auto TrunkSocket::read_some() -> std::optional<Read> {
  sockaddr_in6 name{};  // The largest that there is.
  iovec piece{.iov_base = buffer_->data(), .iov_len = buffer_->size()};
  Control<int> control{};
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = sizeof name;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  const ssize_t bytes = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  if (bytes < 0) return std::nullopt;
  const auto from =
      SocketAddress::from(reinterpret_cast<const sockaddr*>(&name), message.msg_namelen);
  Read read{.bytes = from ? static_cast<std::size_t>(bytes) : 0,
            .segment = std::max<std::size_t>(static_cast<std::size_t>(bytes), 1),
            .from = from ? *from : SocketAddress()};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != IPPROTO_UDP || header->cmsg_type != UDP_GRO) continue;
    int segment = 0;
    std::memcpy(&segment, CMSG_DATA(header), sizeof segment);
    if (segment > 0) read.segment = static_cast<std::size_t>(segment);
  }
  return read;
}

}  // namespace verbatim::fabric
