#pragma once

#include <cstdint>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/os/timer_fd.h"
#include "connect/connection_service.h"

namespace verbatim::connect {

/// Connections over iWARP: the engine of cm/iwarp/stream_manager.h with a clock and TCP sockets.
class MpaService final : public ConnectionService {
 public:
  MpaService(Host& host, Events& events, const Addresses& addresses, std::uint64_t seed,
             const cm::MpaOffer& wishes)
      : host_(host), events_(events), addresses_(addresses), engine_(seed, wishes) {}
  Result<void> start();

  /// Opens TCP sockets at the address and port; for a wildcard, at each of the node's addresses.
  Result<ListenerId> listen(ListenAt where, int backlog) override;
  void unlisten(ListenerId listener) override;
  void note_taken(ConnectionId id) override;
  Result<ConnectionId> connect(const ConnectParameters& parameters) override;
  Result<void> accept(ConnectionId id, const AcceptParameters& parameters) override;
  Result<void> establish(ConnectionId id) override;
  Result<void> reject(ConnectionId id, RejectReason reason, ByteSpan private_data) override;
  Result<void> disconnect(ConnectionId id) override;
  void release(ConnectionId id) override;
  Result<ConnectionId> resolve(const ResolveParameters& parameters) override;
  Result<void> answer(ConnectionId id, const SidrAnswer& answer) override;
  Result<void> notify_established(ConnectionId id) override;
  bool uses_streams() const override { return true; }
  void on_mad(ByteSpan, const verbatim::Path&, const SocketAddress&) override {}
  Qpn queue_pair_of(std::uint64_t tag) const override;
  void on_ready(std::uint64_t tag) override;
  void on_addresses_changed() override;

 private:
  struct Stream {
    UniqueFd fd;
    bool is_connecting = false;
    bool is_handed_over = false;
    Qpn queue_pair{};  // The one that has the stream, or will have it.
  };
  struct Listener {
    SocketAddress at;
    bool both_families = false;  // For a wildcard.
    int backlog = 0;
    int waiting = 0;                                      // Requests that the user has not taken.
    std::unordered_map<SocketAddress, UniqueFd> sockets;  // By address, without a port.
  };
  struct FailedOpen {
    ConnectionId connection{};
    int error = 0;
  };

  // The tags of `on_ready`: a number, and in the bits above the kind of what it numbers.
  static constexpr std::uint64_t kListenerTag = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kTimerTag = std::uint64_t{2} << 32;
  static std::uint64_t tag_of(ConnectionId connection) { return raw(connection); }
  static std::uint64_t tag_of(ListenerId listener) { return kListenerTag | raw(listener); }

  /// Calls `call(effects)` of the engine, then carries out the effects.
  template <typename Call>
  auto step(Call call) {
    cm::StreamEffects effects;
    if constexpr (std::is_void_v<decltype(call(effects))>) {
      call(effects);
      carry_out(effects);
    } else {
      auto result = call(effects);
      carry_out(effects);
      return result;
    }
  }
  void carry_out(const cm::StreamEffects& effects);
  void on(const cm::OpenStream& open);
  void on(const cm::SendBytes& send);
  void on(const cm::HandOver& over);
  void on(const cm::EndStream& end);
  void on(const cm::CloseStream& close);
  void on(const cm::StreamRequest& request);
  void on(const cm::StreamReply& reply);
  void on(const cm::StreamFailed& failed) { events_.on(failed); }
  void on(const cm::StreamEnded& ended) { events_.on(ended); }

  // mpa_service.cpp: streams.
  void on_timer();
  void on_stream(ConnectionId connection);
  bool read(ConnectionId connection, Stream& stream);
  void end(ConnectionId connection, int error);
  void watch(ConnectionId connection, const Stream& stream);
  void arm_timer();
  // mpa_listen.cpp: accepting connections.
  std::vector<SocketAddress> addresses_of(const Listener& listener) const;
  Result<void> listen_at(ListenerId number, Listener& listener, const SocketAddress& address) const;
  bool wait_at(ListenerId listener, ConnectionId request);
  void on_listener(ListenerId listener);
  bool accept_from(ListenerId listener, int socket, int descriptors);
  void take_socket(ListenerId listener, UniqueFd fd, const SocketAddress& peer, bool few_are_left);
  void pause();
  void resume();

  /// Logs at most one warning in a while, so that a flood of connections causes few.
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    const TimeNs now = host_.now();
    if (now < next_warning_) return;
    next_warning_ = now + 10 * kSecond;
    log(LogLevel::warn, format, std::forward<Args>(args)...);
  }

  Host& host_;
  Events& events_;
  const Addresses& addresses_;
  cm::StreamManager engine_;
  TimerFd timer_;
  std::unordered_map<ConnectionId, Stream> streams_;
  std::unordered_map<ListenerId, Listener> listeners_;
  std::unordered_map<ConnectionId, ListenerId> waiting_;  // The listener at which a request waits.
  std::vector<FailedOpen> failed_opens_;  // Reported by the timer, after `connect` has returned.
  std::uint32_t last_listener_ = 0;
  TimeNs resume_at_ = kNever;  // Until then none is accepted: no descriptor was left.
  TimeNs next_warning_ = 0;    // When the next warning about strangers may be logged.
};

/// Opens a non-blocking TCP socket, bound to `local`.
Result<UniqueFd> open_tcp_socket(const SocketAddress& local, bool only_ipv6);
/// Returns how many descriptors this program may have now.
int descriptor_limit();

}  // namespace verbatim::connect
