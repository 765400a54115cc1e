#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cm/iwarp/stream_manager.h"
#include "dropin/rdmacm/objects.h"

namespace verbatim::rdmacm {

/// Connections over iWARP: the engine of cm/iwarp/stream_manager.h, the sockets that it wants, and
/// what it says as events of ids. Every call but `on_ready` under Manager::lock.
class Streams {
 public:
  Streams(Manager& manager, std::uint64_t seed, const cm::MpaOffer& wishes);
  /// Refuses where there is no descriptor for the timer.
  Result<void> start();

  /// Opens the id's connection.
  Result<void> connect(Id& id, const cm::StreamOffer& offer);
  Result<void> establish(Id& id);
  Result<void> accept(Id& id, const cm::StreamOffer& offer);
  Result<void> reject(Id& id, ByteSpan private_data);
  Result<void> disconnect(Id& id);
  void release(cm::ConnectionId connection);

  /// TCP sockets at the id's address and port; where it names no address, at each of the node's.
  Result<cm::ListenerId> listen(Id& id, int backlog);
  void unlisten(cm::ListenerId listener);
  /// The node's addresses have changed: who listens at all of them does at new ones, too.
  void follow_addresses();

 private:
  struct Link {
    UniqueFd fd;
    bool is_connecting = false;
    std::uint32_t qpn = 0;  // Whose the stream is; 0: nobody's yet.
  };
  struct Listening {
    SocketAddress at;
    bool both_families = false;  // Of a wildcard.
    int backlog = 0;
    std::unordered_map<SocketAddress, UniqueFd> sockets;  // By address, without a port.
  };

  /// What the background thread is called with: a number, and above it what it numbers.
  static constexpr std::uint64_t kListenerTag = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kTimerTag = std::uint64_t{2} << 32;
  static std::uint64_t tag_of(cm::ConnectionId connection) { return raw(connection); }
  static std::uint64_t tag_of(cm::ListenerId listener) { return kListenerTag | raw(listener); }

  /// How many descriptors this program may have now.
  static int descriptor_limit();

  /// `call(engine, effects)`, then what the engine says is done.
  template <typename Call>
  auto step(Call call) {
    cm::StreamEffects effects;
    if constexpr (std::is_void_v<decltype(call(engine_, effects))>) {
      call(engine_, effects);
      carry_out(effects);
    } else {
      auto result = call(engine_, effects);
      carry_out(effects);
      return result;
    }
  }
  void carry_out(const cm::StreamEffects& effects);
  void on(const cm::OpenStream& open);
  void on(const cm::SendBytes& send);
  void on(const cm::HandOver& over);
  void on(const cm::CloseStream& close);
  void on(const cm::StreamRequest& request);
  void on(const cm::StreamReply& reply);
  void on(const cm::StreamFailed& failed);
  void on(const cm::StreamEnded& ended);

  Result<UniqueFd> open_socket(const SocketAddress& local, bool only_ipv6) const;
  std::vector<SocketAddress> addresses_of(const Listening& listening) const;
  Result<void> listen_at(cm::ListenerId listener, Listening& listening,
                         const SocketAddress& address) const;
  void end(cm::ConnectionId connection, int error);
  void watch(cm::ConnectionId connection, const Link& link);
  void arm_timer_fd();
  void pause();
  void resume();
  /// Not of each one of a flood.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    const TimeNs now = monotonic_now();
    if (now < next_warning_) return;
    next_warning_ = now + 10 * kSecond;
    log(LogLevel::warn, format, std::forward<Args>(args)...);
  }

  // The background thread.
  static void on_ready(std::uint64_t tag);
  void on_timer_fd();
  void on_listener(cm::ListenerId listener);
  bool accept_from(cm::ListenerId listener, int socket, int descriptors);
  void take_socket(cm::ListenerId listener, UniqueFd fd, const SocketAddress& peer,
                   bool few_are_left);
  void on_link(cm::ConnectionId connection);
  bool read(cm::ConnectionId connection, Link& link);
  std::uint32_t queue_pair_of(cm::ConnectionId connection);

  Manager& manager_;
  cm::StreamManager engine_;
  TimerFd timer_fd_;
  std::unordered_map<cm::ConnectionId, Link> links_;
  std::unordered_map<cm::ListenerId, Listening> listening_;
  std::uint32_t last_listener_ = 0;
  TimeNs resume_at_ = kNever;  // Until then nobody is accepted: there was no descriptor.
  TimeNs next_warning_ = 0;    // Of what strangers bring about.
};

}  // namespace verbatim::rdmacm
