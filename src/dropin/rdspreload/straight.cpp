#include "dropin/rdspreload/straight.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/time.h"
#include "dropin/rdspreload/fd_table.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;
using local::Inbox;

constexpr TimeNs kTriesAgain = 50 * kMillisecond;
constexpr std::size_t kRoutesMax = 1024;
constexpr std::size_t kPiecesMax = 16;

/// An address and port as a key.
struct Place {
  std::array<std::byte, 16> ip{};
  std::uint16_t port = 0;
  std::uint32_t scope = 0;
  auto operator<=>(const Place&) const = default;
};

Place place_of(const local::Address& address) {
  Place place;
  if (address.any.sa_family == AF_INET6) {
    std::memcpy(place.ip.data(), &address.ipv6.sin6_addr, 16);
    place.port = address.ipv6.sin6_port;
    place.scope = address.ipv6.sin6_scope_id;
  } else {
    std::memcpy(place.ip.data(), &address.ipv4.sin_addr, 4);
    place.port = address.ipv4.sin_port;
    place.scope = ~0u;
  }
  return place;
}

/// A connection to one.
struct Broker {
  int fd = -1;
  const local::SharedPage* page = nullptr;
};

struct Route {
  Inbox* inbox = nullptr;  // Null: there is none.
  Broker broker;
  std::uint64_t number = 0;
  TimeNs tries_again = 0;

  /// A broker that was killed has not closed its inboxes.
  bool is_over() const {
    return inbox->is_closed.load(std::memory_order_relaxed) != 0 || broker.page->broker.has_ended();
  }
};

/// Of this process; a child has copies, and the mappings. Never destroyed.
struct Routes {
  std::mutex lock;
  std::map<Place, Route> by_place;
  std::map<std::string, Broker> brokers;  // By their links.
};
Routes& routes() {
  static auto* const all = new Routes;
  return *all;
}

/// A child has no thread that would release the routes.
__attribute__((constructor)) void begin() {
  constexpr auto release = [] { routes().lock.unlock(); };
  pthread_atfork([] { routes().lock.lock(); }, release, release);
}

std::string link_of(const local::Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool is_ipv6 = address.any.sa_family == AF_INET6;
  const void* const ip = is_ipv6 ? static_cast<const void*>(&address.ipv6.sin6_addr)
                                 : static_cast<const void*>(&address.ipv4.sin_addr);
  inet_ntop(address.any.sa_family, ip, text, sizeof text);
  const std::string& own = broker_path();
  return own.substr(0, own.rfind('/') + 1) + local::kAddressPrefix + text;
}

/// A connection to the broker of this address; without a page, if there is none.
Broker broker_of(const local::Address& address) {
  const std::string link = link_of(address);
  const auto known = routes().brokers.find(link);
  if (known != routes().brokers.end()) return known->second;
  Broker broker{.fd = local::open_socket(link, SOCK_CLOEXEC)};
  if (broker.fd < 0) return broker;
  broker.page = local::open_page(broker.fd);
  if (broker.page == nullptr) return local::calls().close(broker.fd), broker;
  set_known(broker.fd, kIsHidden);
  return routes().brokers[link] = broker;
}

void drop(Route& route, TimeNs now) {
  local::unmap(route.inbox);
  route = {.tries_again = now + kTriesAgain};
}

void forget_broker(int fd) {
  for (auto& [place, route] : routes().by_place) {
    if (route.broker.fd != fd) continue;
    local::unmap(std::exchange(route.inbox, nullptr));
    route.broker = {};
  }
  std::erase_if(routes().brokers, [fd](const auto& one) {
    if (one.second.fd != fd) return false;
    munmap(const_cast<local::SharedPage*>(one.second.page), sizeof(local::SharedPage));
    return true;
  });
}

void find(Route& route, const local::Address& to, TimeNs now) {
  route.tries_again = now + kTriesAgain;
  route.broker = broker_of(to);
  if (route.broker.page == nullptr) return;
  route.inbox = local::open_inbox(route.broker.fd, to, &route.number);
  if (route.inbox == nullptr && errno == ENETDOWN) {
    const int fd = route.broker.fd;
    forget_broker(fd);
    set_known(fd, 0);
    local::calls().close(fd);
  }
}

/// Null if there is none now.
Route* route_to(const local::Address& to) {
  if (routes().by_place.size() >= kRoutesMax) return nullptr;
  Route& route = routes().by_place[place_of(to)];
  if (route.inbox != nullptr && !route.is_over()) return &route;
  const TimeNs now = monotonic_now();
  if (route.inbox != nullptr) return drop(route, now), nullptr;
  if (now < route.tries_again) return nullptr;
  find(route, to, now);
  return route.inbox == nullptr ? nullptr : &route;
}

}  // namespace

Straight send_straight(Socket& socket, const local::Address& to, const iovec* pieces,
                       std::size_t count, std::size_t bytes) {
  if (count > kPiecesMax || socket.own.any.sa_family != to.any.sa_family)
    return Straight::by_broker;
  const int error = errno;
  // A signal's handler may have interrupted the thread that has it.
  const std::unique_lock held(routes().lock, std::try_to_lock);
  if (!held) return Straight::waits;
  Route* const route = route_to(to);
  errno = error;
  if (route == nullptr) return Straight::by_broker;
  const Inbox& own = *socket.inbox;
  if (own.submitted.load() != own.finished.load()) return Straight::waits;
  local::Head head{.kind = local::Kind::message,
                   .bytes = static_cast<std::uint32_t>(bytes),
                   .address = socket.own};
  std::array<ByteSpan, kPiecesMax> parts;
  for (std::size_t i = 0; i < count; ++i)
    parts[i] = {static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len};
  Inbox& inbox = *route->inbox;
  const local::Holding holding(inbox);
  if (!inbox.lock_soon()) return Straight::by_broker;
  const bool is_open = inbox.is_held.load(std::memory_order_relaxed) == 0 &&
                       inbox.is_closed.load(std::memory_order_relaxed) == 0;
  const auto send_bell = [route] {
    return local::tell(route->broker.fd, local::Kind::bell, route->number);
  };
  const auto put =
      is_open ? inbox.put(head, std::span(parts).first(count), send_bell) : Inbox::Put::no_room;
  inbox.lock.unlock();
  if (put == Inbox::Put::done) return Straight::sent;
  return is_open ? Straight::waits : Straight::by_broker;
}

void forget_neighbour(int fd) {
  const std::lock_guard held(routes().lock);
  forget_broker(fd);
}

}  // namespace verbatim::rdspreload
