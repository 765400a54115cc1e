#pragma once

#include <array>
#include <climits>
#include <cstddef>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verbatim::rsocket {

/// An option that a stream keeps and returns, as Linux's TCP does. Few have an effect: RDMA
/// connections need no timers, and send at once.
struct Option {
  int level;
  int name;
  int initial = 0;
  int least = INT_MIN;  // Other values are EINVAL.
  int most = INT_MAX;
  bool is_switch = false;  // Returned as 0 or 1.
};

constexpr Option on_or_off(int level, int name) {
  return {.level = level, .name = name, .is_switch = true};
}

inline constexpr std::array kOptions = {
    on_or_off(SOL_SOCKET, SO_REUSEADDR),
    on_or_off(SOL_SOCKET, SO_REUSEPORT),
    on_or_off(SOL_SOCKET, SO_KEEPALIVE),
    on_or_off(SOL_SOCKET, SO_OOBINLINE),
    on_or_off(SOL_SOCKET, SO_BROADCAST),
    on_or_off(SOL_SOCKET, SO_DONTROUTE),
    on_or_off(SOL_SOCKET, SO_TIMESTAMP),
    Option{SOL_SOCKET, SO_RCVLOWAT, 1},
    Option{SOL_SOCKET, SO_PRIORITY, 0, 0, 6},
    Option{SOL_SOCKET, SO_BUSY_POLL, 0, 0},
    on_or_off(IPPROTO_TCP, TCP_NODELAY),
    on_or_off(IPPROTO_TCP, TCP_CORK),
    on_or_off(IPPROTO_TCP, TCP_QUICKACK),
    Option{IPPROTO_TCP, TCP_KEEPIDLE, 7200, 1, 32'767},
    Option{IPPROTO_TCP, TCP_KEEPINTVL, 75, 1, 32'767},
    Option{IPPROTO_TCP, TCP_KEEPCNT, 9, 1, 127},
    Option{IPPROTO_TCP, TCP_SYNCNT, 6, 1, 127},
    Option{IPPROTO_TCP, TCP_LINGER2, 60},
    Option{IPPROTO_TCP, TCP_DEFER_ACCEPT, 0},
    Option{IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 0},
    Option{IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0},
    Option{IPPROTO_TCP, TCP_FASTOPEN, 0, 0},
    Option{IPPROTO_TCP, TCP_CONGESTION, 0},
    Option{IPPROTO_IP, IP_TTL, 64, 1, 255},
    on_or_off(IPPROTO_IP, IP_RECVERR),
    Option{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT, 0, 5},
    on_or_off(IPPROTO_IPV6, IPV6_V6ONLY),
    on_or_off(IPPROTO_IPV6, IPV6_RECVERR),
    Option{IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64, -1, 255},
    Option{IPPROTO_IPV6, IPV6_TCLASS, 0, -1, 255},
};

/// Returns the option's place in the table, or its size.
constexpr std::size_t place_of(int level, int name) {
  std::size_t place = 0;
  while (place < kOptions.size() &&
         (kOptions[place].level != level || kOptions[place].name != name)) {
    ++place;
  }
  return place;
}

/// The values of one stream's options.
class OptionValues {
 public:
  OptionValues() {
    for (std::size_t place = 0; place < kOptions.size(); ++place) {
      values_[place] = kOptions[place].initial;
    }
  }
  int& at(std::size_t place) { return values_[place]; }
  bool is_on(int level, int name) const { return values_[place_of(level, name)] != 0; }

 private:
  std::array<int, kOptions.size()> values_;
};

}  // namespace verbatim::rsocket
