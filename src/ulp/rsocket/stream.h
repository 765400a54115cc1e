#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>

#include <rdma/rdma_cma.h>
#include <sys/time.h>

#include "ulp/rsocket/known_options.h"
#include "ulp/rsocket/socket.h"
#include "ulp/rsocket/stream_end.h"

namespace verbatim::rsocket {

/// A stream rsocket, or one of SDP: connects, accepts, and transfers bytes through its end.
class Stream final : public Socket {
 public:
  static Outcome<std::shared_ptr<Stream>> make(Protocol protocol);
  ~Stream() override;

  int type() const override { return SOCK_STREAM; }
  Outcome<void> bind(const sockaddr* address, socklen_t length) override;
  Outcome<void> listen(int backlog) override;
  Outcome<Accepted> accept() override;
  Outcome<void> accompany(UniqueFd listener) override;
  Outcome<void> connect(const sockaddr* address, socklen_t length) override;
  Outcome<void> shut_down(int how) override;
  void close() override;
  Outcome<std::size_t> send(const Message& message) override;
  Outcome<std::size_t> receive(const Message& message) override;
  short ready(short events) override;
  short look(short events) override;
  void arm() override;
  bool armed() override;
  void wake() override;
  bool may_be_quick() override;
  std::size_t bytes_to_read() override;
  Outcome<void> name(sockaddr* address, socklen_t* length, bool peer) override;
  void set_port(std::uint16_t port) override { port_ = port; }
  std::uint16_t peer_port() override { return endpoint_ ? endpoint_->peer_port() : 0; }
  bool is_at_mark() override;
  void set_names(const sockaddr_storage& local, const sockaddr_storage& peer) override;
  Outcome<void> set_option(int level, int option, const void* value, socklen_t length) override;
  Outcome<void> get_option(int level, int option, void* value, socklen_t* length) override;
  Outcome<off_t> map(void* buffer, std::size_t bytes, int protection, off_t offset) override;
  Outcome<void> unmap(void* buffer, std::size_t bytes) override;
  Outcome<std::size_t> write_mapped(const void* from, std::size_t bytes, off_t offset,
                                    int flags) override;

 private:
  enum class Phase : std::uint8_t {
    fresh,  // Perhaps bound.
    listening,
    opening,  // Resolving, connecting; or accepted and waiting for the peer.
    open,     // Or was open: there may still be bytes to read.
    failed,   // The reason is in `error_`.
  };

  Stream(Handle handle, Protocol protocol) : Socket(std::move(handle)), protocol_(protocol) {}
  void process() override { process(false); }
  bool process(bool surely);
  void arm_locked() override;
  bool armed_locked() const override;
  /// Only an end whose peer may have sent something.
  bool may_be_quick_locked() const override {
    return phase_ == Phase::open || (phase_ == Phase::opening && !active_);
  }
  void wake_locked(bool surely) override;

  // connect.cpp
  Outcome<void> adopt(rdma_cm_id* id);
  void take_events();
  void poll_pending_accepts();
  void poll_companion();
  void on_event(rdma_cm_event_type event, int status, const rdma_conn_param& parameters);
  void on_request(rdma_cm_id* id, const rdma_conn_param& parameters);
  Outcome<void> take_request(rdma_cm_id* id, const rdma_conn_param& parameters);
  Outcome<void> make_endpoint();
  Outcome<void> request_connection();
  void on_established(const rdma_conn_param& parameters);
  void fail_with(int error);
  /// Waits until the connection is established, if the call may wait.
  Outcome<void> finish_opening(std::unique_lock<std::mutex>& lock, bool may_wait);

  // stream.cpp
  bool is_up() const;    // Neither side has ended it.
  bool is_lost() const;  // Without the peer's end.
  /// TCP's state CLOSE: a reset, or both ends have ended their direction.
  bool is_over() const { return is_lost() || (!writable_ && endpoint_->peer_shut()); }
  bool has_error() const;
  int take_error(int otherwise);
  bool can_read() const { return endpoint_->has_data() || !readable_ || endpoint_->peer_shut(); }
  bool can_write() const { return endpoint_->can_send() || !writable_ || !is_up(); }
  short state(short events);
  Outcome<void> end(std::unique_lock<std::mutex>& lock, int how);
  void reset();
  Outcome<void> check_open(std::unique_lock<std::mutex>& lock, bool may_wait, int flags);
  Outcome<void> send_rest_of_map(std::unique_lock<std::mutex>& lock, bool may_wait);
  Outcome<std::size_t> send_all(std::unique_lock<std::mutex>& lock, Cursor& from, int flags,
                                off_t* offset);
  std::size_t send_lent(std::unique_lock<std::mutex>& lock, Cursor& from);
  Outcome<std::size_t> receive_urgent(const Message& message);
  Outcome<void> set_structure(int option, const void* value, socklen_t length);
  Outcome<void> get_fact(int level, int option, void* value, socklen_t* length);
  Outcome<void> set_rdma_option(int option, int value);

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  const Protocol protocol_;
  std::unique_ptr<StreamEnd> endpoint_;
  Phase phase_ = Phase::fresh;
  bool active_ = false;   // This side asked for the connection.
  bool readable_ = true;  // Not shut down on this side.
  bool writable_ = true;
  bool has_ended_ = false;        // Both directions, in order.
  bool disconnected_ = false;     // By the connection manager's event.
  bool disconnect_sent_ = false;  // This side has told the peer.
  bool wants_room_ = false;       // Somebody was told that there is none; room will be an edge.
  std::uint32_t arrivals_ = 0;    // The endpoint's, of which edges were noted.
  int error_ = 0;                 // For SO_ERROR.
  bool error_told_ = false;       // ECONNRESET, which one call returns.
  Sizes sizes_;
  // Listener: accepted, waiting for the peer, by number,
  std::map<int, std::shared_ptr<Stream>> pending_accepts_;
  int last_pending_ = -1;          // the last that was looked at without an event,
  std::deque<Accepted> accepted_;  // and open, or the companion's.
  UniqueFd companion_;             // A TCP listener.
  OptionValues options_;
  linger linger_{};
  timeval receive_limit_{};  // SO_RCVTIMEO; 0: none.
  timeval send_limit_{};
  std::unique_ptr<std::array<sockaddr_storage, 2>> names_;  // Local and peer; null: those of `id_`.
  std::uint16_t port_ = 0;
  int type_of_service_ = 0;
  unsigned idle_turns_ = 0;
};

}  // namespace verbatim::rsocket
