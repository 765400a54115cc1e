#include "dropin/rspreload/pending/gate.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dropin/rspreload/carriers.h"
#include "dropin/rspreload/fd_table.h"
#include "ulp/rsocket/private.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

using ulp::sdp::Carrier;

/// As many connections may wait for the thread.
constexpr int kBacklog = 1024;

std::uint16_t& port_of(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr_in*>(&address)->sin_port;  // At the same place in IPv6's.
}

class Gates {
 public:
  ~Gates() { close(wake_); }
  Gates() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  Expected expect(Carrier carrier, const Names& names, sockaddr_storage bindable) {
    const std::lock_guard lock(mutex_);
    sockaddr_storage peer = names.peer;
    port_of(bindable) = 0;
    const std::size_t place = find_or_make(carrier, bindable, port_of(peer));
    if (place == gates_.size()) return {};
    const int arrival = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (arrival < 0) return {};
    guests_[arrival] = {.gate = place, .port = port_of(peer), .names = names};
    return {.arrival = arrival, .port = gates_[place].port};
  }

  int take(int arrival) {
    const std::lock_guard lock(mutex_);
    const auto found = guests_.find(arrival);
    return found == guests_.end() ? -1 : std::exchange(found->second.rsocket, -1);
  }

  void name(int arrival, int rsocket) {
    const std::lock_guard lock(mutex_);
    const auto found = guests_.find(arrival);
    if (found != guests_.end()) {
      verbatim_rnames(rsocket, &found->second.names.local, &found->second.names.peer);
    }
  }

  bool forget(int arrival) {
    int rsocket = -1;
    {
      const std::lock_guard lock(mutex_);
      const auto found = guests_.find(arrival);
      if (found == guests_.end()) return false;
      rsocket = found->second.rsocket;
      guests_.erase(found);
      close(arrival);
    }
    if (rsocket >= 0) rclose(rsocket);
    return true;
  }

  /// The thread: never ends.
  void serve() {
    std::vector<pollfd> fds;
    for (;;) {
      fds.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
      {
        const std::lock_guard lock(mutex_);
        for (const Gate& gate : gates_) {
          fds.push_back({.fd = gate.listener, .events = POLLIN, .revents = 0});
        }
      }
      poll(fds.data(), fds.size(), -1);  // Listeners are readable without being armed.
      eventfd_t ignored = 0;
      if (fds[0].revents != 0) eventfd_read(wake_, &ignored);
      for (std::size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents != 0) admit(i - 1, fds[i].fd);
      }
    }
  }

 private:
  struct Gate {
    Carrier carrier{};
    sockaddr_storage address{};
    int listener = -1;
    std::uint16_t port = 0;
  };
  struct Guest {
    std::size_t gate = 0;
    std::uint16_t port = 0;  // Its peer's, in network order.
    Names names;
    int rsocket = -1;  // Has come.
  };

  bool expects(std::size_t gate, std::uint16_t port) const {
    return std::ranges::any_of(
        guests_, [&](const auto& it) { return it.second.gate == gate && it.second.port == port; });
  }

  /// A gate where nobody else expects this port: peers of two machines may have the same.
  std::size_t find_or_make(Carrier carrier, const sockaddr_storage& address, std::uint16_t port) {
    for (std::size_t place = 0; place < gates_.size(); ++place) {
      const Gate& gate = gates_[place];
      const bool is_same =
          gate.carrier == carrier && std::memcmp(&gate.address, &address, sizeof address) == 0;
      if (is_same && !expects(place, port)) return place;
    }
    Gate made{.carrier = carrier, .address = address};
    made.listener = listen(carrier, made.address, made.port);
    if (made.listener < 0) return gates_.size();
    if (gates_.empty() && !start()) return gates_.size();
    gates_.push_back(made);
    eventfd_write(wake_, 1);
    return gates_.size() - 1;
  }

  static int listen(Carrier carrier, const sockaddr_storage& address, std::uint16_t& port) {
    const int listener = new_stream(carrier, address.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
    if (listener < 0) return -1;
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    if (rbind(listener, at, sizeof address) == 0 && rlisten(listener, kBacklog) == 0 &&
        rgetsockname(listener, reinterpret_cast<sockaddr*>(&bound), &length) == 0) {
      port = port_of(bound);
      return listener;
    }
    rclose(listener);
    return -1;
  }

  /// Signals are the program's own threads'.
  bool start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const auto run = [](void* gates) -> void* {
      const Inside mark;
      static_cast<Gates*>(gates)->serve();
      return nullptr;
    };
    const int error = pthread_create(&thread, nullptr, run, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) return false;
    pthread_setname_np(thread, "rspreload");
    return pthread_detach(thread) == 0;
  }

  void admit(std::size_t gate, int listener) {
    for (int number; (number = raccept(listener, nullptr, nullptr)) >= 0;) {
      const std::uint16_t port = htobe16(static_cast<std::uint16_t>(verbatim_rpeer_port(number)));
      const std::unique_lock lock(mutex_);
      const auto guest = std::ranges::find_if(guests_, [&](const auto& it) {
        return it.second.gate == gate && it.second.port == port && it.second.rsocket < 0;
      });
      if (guest == guests_.end()) {
        rclose(number);
        continue;
      }
      auto& [arrival, found] = *guest;
      verbatim_rnames(number, &found.names.local, &found.names.peer);
      found.rsocket = number;
      eventfd_write(arrival, 1);
    }
  }

  std::mutex mutex_;
  const int wake_;
  std::vector<Gate> gates_;                // They stay: the next connection needs them.
  std::unordered_map<int, Guest> guests_;  // By `arrival`.
};

std::atomic<Gates*> the_gates = nullptr;  // Never destroyed: the thread uses it.

/// A forked child begins without listeners.
Gates& gates() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { the_gates = nullptr; });
  static_cast<void>(registered);
  Gates* found = the_gates;
  while (found == nullptr) {
    auto fresh = std::make_unique<Gates>();
    if (the_gates.compare_exchange_strong(found, fresh.get())) found = fresh.release();
  }
  return *found;
}

}  // namespace

Expected expect(Carrier carrier, const Names& names, const sockaddr_storage& bindable) {
  const Inside mark;
  return gates().expect(carrier, names, bindable);
}

int take_arrival(int arrival) { return gates().take(arrival); }

void name_as_expected(int arrival, int rsocket) { gates().name(arrival, rsocket); }

bool forget_arrival(int arrival) {
  const Inside mark;
  return the_gates != nullptr && gates().forget(arrival);
}

}  // namespace verbatim::rspreload
