#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

/// Helpers for tests that use only librdmacm: they would also run with a card.
namespace rdmacm_test {

inline constexpr int kTimeoutMs = 5'000;

/// Returns the node's address.
std::string own_address();
sockaddr_in address_of(const std::string& ip, std::uint16_t port);
sockaddr* as_sockaddr(sockaddr_in& address);

struct Acknowledge {
  void operator()(rdma_cm_event* event) const { EXPECT_EQ(rdma_ack_cm_event(event), 0); }
};
using Event = std::unique_ptr<rdma_cm_event, Acknowledge>;

/// Returns the event's private data, up to `length` bytes (the bytes after it are zero).
std::string private_data(const rdma_cm_event& event, std::size_t length);

class Channel {
 public:
  Channel() : channel_(rdma_create_event_channel()) { EXPECT_NE(channel_, nullptr); }
  ~Channel() { rdma_destroy_event_channel(channel_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  rdma_event_channel* get() const { return channel_; }
  bool readable(int timeout_ms = 0) const {
    pollfd waiting{channel_->fd, POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
  }
  /// Returns the next event; null and a test failure if none comes.
  Event next() const;
  /// The same; a test failure if it has another type.
  Event expect(rdma_cm_event_type type) const;

 private:
  rdma_event_channel* channel_;
};

struct Destroy {
  void operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
};
using Id = std::unique_ptr<rdma_cm_id, Destroy>;

Id make_id(const Channel& channel, rdma_port_space space = RDMA_PS_TCP, void* context = nullptr);
/// Requires an id that is bound to the device.
void make_queue_pair(rdma_cm_id* id);
ibv_qp_state state_of(const rdma_cm_id* id);

/// A listener at a free port of the node's address.
struct Listener {
  explicit Listener(rdma_port_space space = RDMA_PS_TCP, int backlog = 8);
  std::uint16_t port() const { return ntohs(rdma_get_src_port(id.get())); }
  Channel channel;
  Id id;
};

/// An id with a resolved route to the port and a queue pair.
struct Client {
  explicit Client(std::uint16_t port, rdma_port_space space = RDMA_PS_TCP);
  int connect(const std::string& private_data = "");
  Channel channel;
  Id id;
};

/// Refers to the private data, which must stay valid.
rdma_conn_param parameters(std::string_view private_data = "");

}  // namespace rdmacm_test
