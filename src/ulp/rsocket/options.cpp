// Options and names of stream rsockets.
#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "ulp/rsocket/rsocket.h"
#include "ulp/rsocket/stream.h"

namespace verbatim::rsocket {
namespace {

bool is_structure(int level, int option) {
  return level == SOL_SOCKET &&
         (option == SO_LINGER || option == SO_RCVTIMEO || option == SO_SNDTIMEO);
}

Outcome<void> give_bytes(const void* from, std::size_t bytes, void* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return fail(EFAULT);
  *length = static_cast<socklen_t>(std::min<std::size_t>(*length, bytes));
  std::memcpy(to, from, *length);
  return {};
}

std::uint32_t buffer_bytes(int asked) {
  const auto wanted = static_cast<std::uint32_t>(std::clamp(asked, 1024, 1 << 28));
  return 2 * std::max(wanted, kLowWater);
}

}  // namespace

Outcome<void> Stream::name(sockaddr* address, socklen_t* length, bool peer) {
  std::unique_lock lock(mutex_);
  const bool met = phase_ == Phase::open || (phase_ == Phase::opening && !active_);
  if (peer && !met) return fail(ENOTCONN);
  if (names_) {
    copy_address(reinterpret_cast<const sockaddr*>(&(*names_)[peer ? 1 : 0]), address, length);
    return {};
  }
  copy_address(peer ? rdma_get_peer_addr(id_) : rdma_get_local_addr(id_), address, length);
  return {};
}

void Stream::set_names(const sockaddr_storage& local, const sockaddr_storage& peer) {
  std::unique_lock lock(mutex_);
  names_ = std::make_unique<std::array<sockaddr_storage, 2>>(std::array{local, peer});
}

Outcome<void> Stream::set_rdma_option(int option, int value) {
  if (phase_ == Phase::opening || phase_ == Phase::open) return fail(EINVAL);
  const auto requests = static_cast<std::uint16_t>(std::clamp(value, 0, 0xfffe));
  switch (option) {
    case RDMA_SQSIZE:
      sizes_.send_requests = requests;
      return {};
    case RDMA_RQSIZE:
      sizes_.receive_requests = requests;
      return {};
    case RDMA_INLINE:
      sizes_.inline_bytes = requests;
      return {};
    case RDMA_IOMAPSIZE:
      sizes_.iomap_entries = from_scale(to_scale(requests));
      return {};
    default:
      return unsupported(kUnknownOption);
  }
}

/// Options of SOL_SOCKET that are no integers.
Outcome<void> Stream::set_structure(int option, const void* value, socklen_t length) {
  const auto bytes = option == SO_LINGER ? sizeof(linger) : sizeof(timeval);
  if (value == nullptr) return fail(EFAULT);
  if (length < bytes) return fail(EINVAL);
  if (option == SO_LINGER) {
    linger asked{};
    std::memcpy(&asked, value, sizeof asked);
    linger_.l_onoff = asked.l_onoff != 0;
    if (linger_.l_onoff != 0) linger_.l_linger = asked.l_linger;
    return {};
  }
  timeval& limit = option == SO_RCVTIMEO ? receive_limit_ : send_limit_;
  timeval asked{};
  std::memcpy(&asked, value, sizeof asked);
  if (asked.tv_usec < 0 || asked.tv_usec >= 1'000'000) return fail(EDOM);
  limit = asked.tv_sec < 0 ? timeval{} : asked;
  return {};
}

Outcome<void> Stream::set_option(int level, int option, const void* value, socklen_t length) {
  std::unique_lock lock(mutex_);
  if (is_structure(level, option)) return set_structure(option, value, length);
  const auto number = integer_of(value, length);
  if (!number) return fail(number.error());
  if (level == SOL_RDMA) return set_rdma_option(option, *number);
  int own = *number;
  if (level == SOL_SOCKET && option == SO_RCVBUF) {
    if (!endpoint_) sizes_.receive_bytes = buffer_bytes(*number);
    return {};
  }
  if (level == SOL_SOCKET && option == SO_SNDBUF) {
    if (!endpoint_) sizes_.send_bytes = buffer_bytes(*number);
    return {};
  }
  if (level == IPPROTO_IP && option == IP_TOS) {
    type_of_service_ = *number;
    auto tos = static_cast<std::uint8_t>(*number);
    if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) != 0) {
      return fail(errno);
    }
    return {};
  }
  const std::size_t place = place_of(level, option);
  if (place == kOptions.size())
    return level == IPPROTO_TCP && option == TCP_MAXSEG ? Outcome<void>{} : fail(ENOPROTOOPT);
  const Option& known = kOptions[place];
  if (own < known.least || own > known.most) return fail(EINVAL);
  if (level == SOL_SOCKET && option == SO_REUSEADDR) {
    rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &own, sizeof own);
  }
  if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY &&
      rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &own, sizeof own) != 0) {
    return fail(errno);
  }
  process();  // As in TCP, SO_OOBINLINE does not change what has come.
  options_.at(place) = known.is_switch ? own != 0 : own;
  if (endpoint_) endpoint_->set_urgent_inline(options_.is_on(SOL_SOCKET, SO_OOBINLINE));
  return {};
}

/// Options that tell what the socket is.
Outcome<void> Stream::get_fact(int level, int option, void* value, socklen_t* length) {
  if (level == IPPROTO_TCP && option == TCP_MAXSEG) {
    const bool routed = id_->route.num_paths > 0;
    return give_integer(routed ? 128 << id_->route.path_rec->mtu : 2048, value, length);
  }
  if (level == IPPROTO_TCP && option == TCP_INFO) {
    tcp_info info{};
    info.tcpi_state = phase_ == Phase::open && is_up() ? TCP_ESTABLISHED : TCP_CLOSE;
    return give_bytes(&info, sizeof info, value, length);
  }
  if (level == IPPROTO_IP && option == IP_TOS) {
    return give_integer(type_of_service_, value, length);
  }
  if (level != SOL_SOCKET) return fail(ENOPROTOOPT);
  switch (option) {
    case SO_ERROR:
      if (phase_ == Phase::opening) wake_locked(true);
      if (phase_ == Phase::open && error_ == 0) error_ = take_error(0);
      return give_integer(std::exchange(error_, 0), value, length);
    case SO_TYPE:
      return give_integer(SOCK_STREAM, value, length);
    case SO_DOMAIN:
      return give_integer(names_ ? (*names_)[0].ss_family : rdma_get_local_addr(id_)->sa_family,
                          value, length);
    case SO_PROTOCOL:
      return give_integer(IPPROTO_TCP, value, length);
    case SO_ACCEPTCONN:
      return give_integer(phase_ == Phase::listening, value, length);
    case SO_RCVBUF:
      return give_integer(static_cast<int>(sizes_.receive_bytes), value, length);
    case SO_SNDBUF:
      return give_integer(static_cast<int>(sizes_.send_bytes), value, length);
    case SO_LINGER:
      return give_bytes(&linger_, sizeof linger_, value, length);
    case SO_RCVTIMEO:
      return give_bytes(&receive_limit_, sizeof receive_limit_, value, length);
    case SO_SNDTIMEO:
      return give_bytes(&send_limit_, sizeof send_limit_, value, length);
    default:
      return fail(ENOPROTOOPT);
  }
}

Outcome<void> Stream::get_option(int level, int option, void* value, socklen_t* length) {
  std::unique_lock lock(mutex_);
  const std::size_t place = place_of(level, option);
  if (place < kOptions.size()) return give_integer(options_.at(place), value, length);
  if (level != SOL_RDMA) return get_fact(level, option, value, length);
  const Sizes& sizes = endpoint_ ? endpoint_->sizes() : sizes_;
  switch (option) {
    case RDMA_SQSIZE:
      return give_integer(sizes.send_requests, value, length);
    case RDMA_RQSIZE:
      return give_integer(sizes.receive_requests, value, length);
    case RDMA_INLINE:
      return give_integer(sizes.inline_bytes, value, length);
    case RDMA_IOMAPSIZE:
      return give_integer(static_cast<int>(sizes.iomap_entries), value, length);
    default:
      return unsupported(kUnknownOption);
  }
}

}  // namespace verbatim::rsocket
