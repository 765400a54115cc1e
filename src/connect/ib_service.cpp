#include <sys/epoll.h>

#include "base/os/timer_fd.h"
#include "connect/connection_notes.h"
#include "connect/connection_service.h"

/// InfiniBand's connection manager with a clock and a host.
namespace verbatim::connect {
namespace {

constexpr int kBacklogDefault = 1024;  // As the kernel's ucma.
constexpr std::uint64_t kTimerTag = 0;

class IbService final : public ConnectionService {
  /// Calls `call(now, effects)` of the engine, then carries out the effects.
  template <typename Call>
  auto step(Call call) {
    cm::Effects effects;
    if constexpr (std::is_void_v<decltype(call(TimeNs{}, effects))>) {
      call(host_.now(), effects);
      carry_out(effects);
    } else {
      auto result = call(host_.now(), effects);
      carry_out(effects);
      return result;
    }
  }

 public:
  IbService(Host& host, Events& events, const cm::Settings& settings)
      : host_(host), events_(events), engine_(settings), notes_(host) {}

  Result<void> start() {
    auto timer = TimerFd::create();
    if (!timer) return std::unexpected(timer.error());
    timer_ = std::move(*timer);
    return host_.watch(timer_.fd(), EPOLLIN, kTimerTag);
  }

  Result<ListenerId> listen(ListenAt where, int backlog) override {
    where.backlog = static_cast<std::size_t>(backlog > 0 ? backlog : kBacklogDefault);
    return engine_.listen(where);
  }
  void unlisten(ListenerId listener) override { engine_.unlisten(listener); }
  void note_taken(ConnectionId id) override { engine_.note_taken(id); }

  Result<ConnectionId> connect(const ConnectParameters& parameters) override {
    const auto id =
        step([&](TimeNs now, cm::Effects& out) { return engine_.connect(parameters, now, out); });
    if (id) {
      notes_.begin(*id, parameters.path, false);
      write_note(*id, false);
    }
    return id;
  }
  Result<void> accept(ConnectionId id, const AcceptParameters& parameters) override {
    auto accepted = step(
        [&](TimeNs now, cm::Effects& out) { return engine_.accept(id, parameters, now, out); });
    if (accepted) write_note(id, false);
    return accepted;
  }
  Result<void> establish(ConnectionId id) override {
    auto established =
        step([&](TimeNs now, cm::Effects& out) { return engine_.establish(id, {}, now, out); });
    if (established) write_note(id, true);
    return established;
  }
  Result<void> reject(ConnectionId id, RejectReason reason, ByteSpan private_data) override {
    auto rejected = step([&](TimeNs now, cm::Effects& out) {
      return engine_.reject(id, reason, private_data, now, out);
    });
    if (rejected) notes_.end(id);
    return rejected;
  }
  Result<void> disconnect(ConnectionId id) override {
    return step([&](TimeNs now, cm::Effects& out) { return engine_.disconnect(id, {}, now, out); });
  }
  void release(ConnectionId id) override {
    notes_.end(id);
    step([&](TimeNs now, cm::Effects& out) { engine_.release(id, now, out); });
  }

  Result<ConnectionId> resolve(const ResolveParameters& parameters) override {
    return step(
        [&](TimeNs now, cm::Effects& out) { return engine_.resolve(parameters, now, out); });
  }
  Result<void> answer(ConnectionId id, const SidrAnswer& answer) override {
    return step([&](TimeNs now, cm::Effects& out) { return engine_.answer(id, answer, now, out); });
  }
  Result<void> notify_established(ConnectionId id) override {
    return step(
        [&](TimeNs now, cm::Effects& out) { return engine_.notify_established(id, now, out); });
  }

  bool uses_streams() const override { return false; }
  void on_mad(ByteSpan mad, const verbatim::Path& from, const SocketAddress& to) override {
    step([&](TimeNs now, cm::Effects& out) { engine_.on_mad(mad, from, to, now, out); });
  }
  Qpn queue_pair_of(std::uint64_t) const override { return {}; }
  void on_ready(std::uint64_t) override {
    timer_.clear();
    step([&](TimeNs now, cm::Effects& out) { engine_.on_timeout(now, out); });
  }
  void on_addresses_changed() override {
  }  // Listeners match requests by address and have no sockets.

 private:
  void carry_out(const cm::Effects& effects) {
    for (const cm::Effect& effect : effects) {
      std::visit([this](const auto& one) { on(one); }, effect);
    }
    // A timer that expires too early is harmless; most answers arrive long before their time-out.
    if (const TimeNs at = engine_.deadline(); at < timer_.at()) timer_.set(at);
  }

  void on(const cm::SendMad& mad) { host_.send_mad(mad.source, mad.destination, mad.bytes); }
  void on(const cm::ConnectRequest& request) {
    notes_.begin(request.connection, request.path, true);
    notes_.set_remote_qpn(request.connection, request.peer.qpn);
    events_.on(request);
  }
  void on(const cm::ConnectResponse& response) {
    notes_.set_remote_qpn(response.connection, response.peer.qpn);
    write_note(response.connection, true);
    events_.on(response);
  }
  void on(const cm::Established& established) {
    write_note(established.connection, true);
    events_.on(established);
  }
  template <typename End>
  void on_end(const End& end) {
    notes_.end(end.connection);
    events_.on(end);
  }
  void on(const cm::Rejected& rejected) { on_end(rejected); }
  void on(const cm::Unreachable& unreachable) { on_end(unreachable); }
  void on(const cm::Disconnected& disconnected) { on_end(disconnected); }
  void on(const cm::TimeWaitExit& exit) { on_end(exit); }
  void on(const cm::SidrRequest& request) { events_.on(request); }
  void on(const cm::SidrResponse& response) { events_.on(response); }

  void write_note(ConnectionId id, bool is_established) {
    notes_.write(id, engine_.peer_id(id), is_established);
  }

  Host& host_;
  Events& events_;
  cm::ConnectionManager engine_;
  ConnectionNotes notes_;
  TimerFd timer_;
};

}  // namespace

Result<std::unique_ptr<ConnectionService>> make_ib_service(Host& host, Events& events,
                                                           const cm::Settings& settings) {
  auto service = std::make_unique<IbService>(host, events, settings);
  if (auto started = service->start(); !started) return std::unexpected(started.error());
  return service;
}

}  // namespace verbatim::connect
