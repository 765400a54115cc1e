#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "connect/connection_service.h"

/// A connection service's host for tests: the test sets the time and delivers MADs, an epoll of the
/// test watches sockets, and events are recorded.
namespace verbatim::connect {

inline ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline bool begins_with(const PrivateData& data, std::string_view text) {
  return data.size() >= text.size() && std::memcmp(data.begin(), text.data(), text.size()) == 0;
}

class FakeHost final : public Host, public Events {
 public:
  struct Mad {
    SocketAddress source;
    verbatim::Path destination;
    std::array<std::byte, kMadBytes> bytes;
  };
  struct Started {
    Qpn qpn;
    UniqueFd socket;
    StreamAgreement agreed;
    bool is_initiator;
  };

  // Host.
  void send_mad(const SocketAddress& source, const verbatim::Path& destination,
                std::span<const std::byte, kMadBytes> mad) override {
    mads.push_back({.source = source, .destination = destination, .bytes = {}});
    std::ranges::copy(mad, mads.back().bytes.begin());
  }
  Result<void> watch(int fd, std::uint32_t events, std::uint64_t tag) override {
    if (itimerspec left{}; timerfd_gettime(fd, &left) == 0) {
      timers_.emplace_back(fd, tag);
      return {};
    }
    epoll_event event{.events = events, .data = {.u64 = tag}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ||
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) {
      return {};
    }
    return refuse_errno("epoll_ctl");
  }
  void unwatch(int fd) override { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  Result<void> start_stream(Qpn qpn, UniqueFd socket, const StreamAgreement& agreed,
                            bool is_initiator) override {
    if (refuses_streams) return refuse(EINVAL, "there is no such queue pair");
    streams.push_back({qpn, std::move(socket), agreed, is_initiator});
    return {};
  }
  void end_stream(Qpn qpn) override {
    for (const Started& stream : streams) {
      if (stream.qpn == qpn && !has_more_to_send) shutdown(stream.socket.get(), SHUT_WR);
    }
  }
  void note(std::uint32_t entry, const ConnectionNote* note) override {
    ASSERT_LT(entry, notes_max());
    note != nullptr ? void(notes[entry] = *note) : void(notes.erase(entry));
  }
  std::uint32_t notes_max() const override { return entries; }
  TimeNs now() const override { return time; }
  // Events.
  void on(const Event& event) override { told.push_back(event); }

  /// Takes the event of this type; there must be exactly one.
  template <typename Kind>
  std::optional<Kind> only() {
    if (told.size() != 1 || !std::holds_alternative<Kind>(told.front())) return std::nullopt;
    auto one = std::get<Kind>(told.front());
    told.clear();
    return one;
  }
  /// Calls `service.on_ready` for each timer that has expired and each socket that is ready, as the
  /// background thread does. Returns false if there was none.
  bool serve(ConnectionService& service) {
    bool served = false;
    for (const auto& [fd, tag] : timers_) {
      if (rings(fd)) service.on_ready(tag), served = true;
    }
    std::array<epoll_event, 16> ready;
    const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t tag = ready[static_cast<std::size_t>(i)].data.u64;
      if (const Qpn qpn = service.queue_pair_of(tag); qpn != Qpn{}) drained.push_back(qpn);
      service.on_ready(tag);
    }
    return served || count > 0;
  }
  int epoll() const { return epoll_.get(); }

  /// Ahead of the real clock: no timer of a service expires by itself.
  TimeNs time = monotonic_now() + 100'000 * kSecond;
  std::vector<Mad> mads;
  std::vector<Event> told;
  std::vector<Started> streams;
  std::vector<Qpn> drained;
  std::map<std::uint32_t, ConnectionNote> notes;
  std::uint32_t entries = 4;
  bool refuses_streams = false;
  bool has_more_to_send = false;  // Queue pairs do not end their side of a stream yet.

 private:
  /// The kernel computes a timer's remaining time by its own clock.
  bool rings(int fd) const {
    itimerspec left{};
    timerfd_gettime(fd, &left);
    const TimeNs rest = static_cast<TimeNs>(left.it_value.tv_sec) * kSecond +
                        static_cast<TimeNs>(left.it_value.tv_nsec);
    return rest != 0 && monotonic_now() + rest <= time + kMillisecond;
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<std::pair<int, std::uint64_t>> timers_;
};

/// A service and its host.
struct Side {
  SocketAddress address;
  Addresses addresses{OwnLoopback::any};
  FakeHost host;
  std::unique_ptr<ConnectionService> service;
};

/// Two sides with the same time.
struct Bench {
  /// Delivers MADs in both directions until none is left.
  void deliver() {
    for (bool sent = true; sent;) sent = deliver(a, b) || deliver(b, a);
  }
  static bool deliver(Side& from, Side& to) {
    const auto mads = std::exchange(from.host.mads, {});
    for (const FakeHost::Mad& mad : mads) {
      to.service->on_mad(mad.bytes, roce_path(mad.source), address_of(mad.destination));
    }
    return !mads.empty();
  }
  /// Advances the time in small steps: timers expire, sockets are served, MADs are delivered if
  /// `through`.
  void pass(TimeNs span, bool through = true) {
    constexpr TimeNs kStep = 5 * kMillisecond;
    for (TimeNs passed = 0; passed < span; passed += kStep) {
      a.host.time = b.host.time += kStep;
      a.host.serve(*a.service);
      b.host.serve(*b.service);
      through ? deliver() : void(a.host.mads.clear());
    }
  }
  /// Serves sockets until `reached()` returns true, without advancing the services' time.
  template <typename Condition>
  bool until(Condition reached) {
    for (int tries = 0; tries < 100 && !reached(); ++tries) {
      const bool served_a = a.host.serve(*a.service);
      if (b.host.serve(*b.service) || served_a) continue;
      pollfd both[] = {{a.host.epoll(), POLLIN, 0}, {b.host.epoll(), POLLIN, 0}};
      poll(both, 2, 100);
    }
    return reached();
  }
  bool until_told(const Side& side) {
    return until([&] { return !side.host.told.empty(); });
  }

  Side a, b;
};

}  // namespace verbatim::connect
