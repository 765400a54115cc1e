// Options and names of stream rsockets.
#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "ulp/rsocket/rsocket.h"
#include "ulp/rsocket/stream.h"

namespace verbatim::rsocket {
namespace {

constexpr std::uint64_t bit(int option) { return std::uint64_t{1} << (option & 63); }

/// Options that are stored, but have no effect on a reliable connection.
bool is_remembered_only(int level, int option) {
  if (level == SOL_SOCKET) {
    return option == SO_KEEPALIVE || option == SO_OOBINLINE || option == SO_LINGER;
  }
  if (level == IPPROTO_TCP) {
    return option == TCP_NODELAY || option == TCP_MAXSEG || option == TCP_KEEPCNT ||
           option == TCP_KEEPINTVL || option == TCP_CONGESTION;
  }
  return false;
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

Outcome<void> Stream::set_option(int level, int option, const void* value, socklen_t length) {
  std::unique_lock lock(mutex_);
  const auto number = integer_of(value, length);
  if (!number) return fail(number.error());
  if (level == SOL_RDMA) return set_rdma_option(option, *number);
  int own = *number;
  if (level == SOL_SOCKET && option == SO_LINGER && length >= sizeof(linger)) {
    linger asked{};
    std::memcpy(&asked, value, sizeof asked);
    resets_ = asked.l_onoff != 0 && asked.l_linger == 0;
  }
  if (level == SOL_SOCKET && option == SO_REUSEADDR) {
    rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &own, sizeof own);
  } else if (level == SOL_SOCKET && option == SO_RCVBUF) {
    if (!endpoint_) sizes_.receive_bytes = buffer_bytes(*number);
    return {};
  } else if (level == SOL_SOCKET && option == SO_SNDBUF) {
    if (!endpoint_) sizes_.send_bytes = buffer_bytes(*number);
    return {};
  } else if (level == IPPROTO_IP && option == IP_TOS) {
    type_of_service_ = *number;
    auto tos = static_cast<std::uint8_t>(*number);
    if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) != 0) {
      return fail(errno);
    }
    return {};
  } else if (level == IPPROTO_IPV6 && option == IPV6_V6ONLY) {
    if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &own, sizeof own) != 0) {
      return fail(errno);
    }
  } else if (level == IPPROTO_TCP && option == TCP_KEEPIDLE) {
    if (*number <= 0) return fail(EINVAL);
    keep_idle_ = *number;
    return {};
  } else if (!is_remembered_only(level, option)) {
    return fail(ENOPROTOOPT);
  }
  std::uint64_t& options = level == SOL_SOCKET    ? socket_options_
                           : level == IPPROTO_TCP ? tcp_options_
                                                  : ipv6_options_;
  options = *number != 0 ? options | bit(option) : options & ~bit(option);
  if (endpoint_) endpoint_->set_urgent_inline(option_is_on(SOL_SOCKET, SO_OOBINLINE));
  return {};
}

bool Stream::option_is_on(int level, int option) const {
  const std::uint64_t options = level == SOL_SOCKET    ? socket_options_
                                : level == IPPROTO_TCP ? tcp_options_
                                                       : ipv6_options_;
  return (options & bit(option)) != 0;
}

Outcome<void> Stream::get_option(int level, int option, void* value, socklen_t* length) {
  std::unique_lock lock(mutex_);
  if (level == SOL_SOCKET) {
    switch (option) {
      case SO_ERROR:
        if (phase_ == Phase::opening) wake_locked(true);
        return give_integer(std::exchange(error_, 0), value, length);
      case SO_TYPE:
        return give_integer(SOCK_STREAM, value, length);
      case SO_DOMAIN:
        return give_integer(rdma_get_local_addr(id_)->sa_family, value, length);
      case SO_ACCEPTCONN:
        return give_integer(phase_ == Phase::listening, value, length);
      case SO_RCVBUF:
        return give_integer(static_cast<int>(sizes_.receive_bytes), value, length);
      case SO_SNDBUF:
        return give_integer(static_cast<int>(sizes_.send_bytes), value, length);
      case SO_REUSEADDR:
      case SO_KEEPALIVE:
      case SO_OOBINLINE:
        return give_integer(option_is_on(level, option), value, length);
      case SO_LINGER: {
        const linger on{.l_onoff = option_is_on(level, option), .l_linger = 0};
        if (value == nullptr || *length < sizeof on) return fail(EINVAL);
        std::memcpy(value, &on, sizeof on);
        *length = sizeof on;
        return {};
      }
      default:
        return fail(ENOPROTOOPT);
    }
  }
  if (level == IPPROTO_TCP && option == TCP_MAXSEG) {
    const bool routed = id_->route.num_paths > 0;
    return give_integer(routed ? 128 << id_->route.path_rec->mtu : 2048, value, length);
  }
  if (level == IPPROTO_TCP && option == TCP_INFO) {
    if (value == nullptr || length == nullptr) return fail(EFAULT);
    tcp_info info{};
    info.tcpi_state = phase_ == Phase::open && is_up() ? TCP_ESTABLISHED : TCP_CLOSE;
    *length = std::min<socklen_t>(*length, sizeof info);
    std::memcpy(value, &info, *length);
    return {};
  }
  if (level == IPPROTO_TCP && option == TCP_KEEPIDLE) {
    return give_integer(keep_idle_, value, length);
  }
  if (level == IPPROTO_IP && option == IP_TOS) {
    return give_integer(type_of_service_, value, length);
  }
  if (is_remembered_only(level, option) || (level == IPPROTO_IPV6 && option == IPV6_V6ONLY)) {
    return give_integer(option_is_on(level, option), value, length);
  }
  if (level != SOL_RDMA) return fail(ENOPROTOOPT);
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
