#include "link/ethernet/function_port.h"

#include <cerrno>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include "base/log.h"

namespace verbatim::link {
namespace {

constexpr TimeNs kRejoinPause = 100 * kMillisecond;
/// How long a sender waits for room: as with sockets.
constexpr TimeNs kRoomTime = 10 * kMillisecond;
constexpr int kLooksBetweenClocks = 64;

}  // namespace

Result<FunctionName> parse_function(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  const std::string_view name = slash == text.npos ? text : text.substr(slash + 1);
  FunctionName parsed;
  const bool is_named = text.starts_with('/') && slash != 0 && name.starts_with("vf");
  const char* const end = name.data() + name.size();
  const auto number = is_named ? std::from_chars(name.data() + 2, end, parsed.function)
                               : std::from_chars_result{end, std::errc::invalid_argument};
  if (number.ec != std::errc{} || number.ptr != end || parsed.function >= VNIC_PORTS_MAX) {
    return refuse(EINVAL, fmt::format("'{}' is no function of a card: SOCKET/vf2 is, with the "
                                      "absolute path of the card's socket",
                                      text));
  }
  parsed.socket = text.substr(0, slash);
  return parsed;
}

Result<std::unique_ptr<FunctionPort>> FunctionPort::open(const Wish& wish) {
  std::unique_ptr<FunctionPort> port(new FunctionPort(wish));
  port->events_.reset(epoll_create1(EPOLL_CLOEXEC));
  auto timer = TimerFd::create();
  if (!port->events_ || !timer) return refuse_errno("epoll");
  port->again_ = std::move(*timer);
  if (auto watched = port->watch(port->again_.fd()); !watched) {
    return std::unexpected(watched.error());
  }
  auto client = offload::FunctionClient::join(wish);
  if (!client) return std::unexpected(client.error());
  port->mac_ = (*client)->mac();
  port->mtu_ = (*client)->mtu();
  port->adopt(std::move(*client));
  return port;
}

Result<void> FunctionPort::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refuse_errno("epoll_ctl");
  return {};
}

/// Null: the card has ended.
void FunctionPort::adopt(std::unique_ptr<offload::FunctionClient> client) {
  if (client != nullptr && !watch(client->fd())) client = nullptr;
  is_joined_.store(client != nullptr, std::memory_order_relaxed);
  mutex_.lock();
  client_.swap(client);  // A descriptor that is closed leaves the epoll.
  mutex_.unlock();
  if (client_ == nullptr) again_.set(monotonic_now() + kRejoinPause);
}

void FunctionPort::keep_card() {
  if (client_ == nullptr) return rejoin();
  if (!std::exchange(look_for_card_, false)) return;
  if (client_->has_card()) return;
  log(LogLevel::warn, "the card at {} has ended: frames are lost until it is back", wish_.socket);
  adopt(nullptr);
}

void FunctionPort::rejoin() {
  if (monotonic_now() < again_.at()) return;
  again_.clear();
  auto client = offload::FunctionClient::join(wish_);
  if (!client) return adopt(nullptr);
  log(LogLevel::info, "the card at {} is back", wish_.socket);
  adopt(std::move(*client));
  look_for_card_ = true;
}

bool FunctionPort::begin_sleep() {
  if (client_ == nullptr || client_->begin_sleep()) return true;
  look_for_card_ = true;
  return false;
}

MutableByteSpan FunctionPort::room_in_time() {
  MutableByteSpan room = client_->room();
  if (!room.empty()) return room;
  client_->ring();
  const TimeNs deadline = monotonic_now() + kRoomTime;
  for (int look = 0; room.empty(); room = client_->room()) {
    if (++look % kLooksBetweenClocks == 0 && monotonic_now() > deadline) break;
    sched_yield();
  }
  return room;
}

}  // namespace verbatim::link
