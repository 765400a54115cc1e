#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/types.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/// Helpers for tests that use only libibverbs: they would also run with a card.
namespace verbs_test {

struct Delete {
  void operator()(ibv_context* context) const { EXPECT_EQ(ibv_close_device(context), 0); }
  void operator()(ibv_pd* pd) const { EXPECT_EQ(ibv_dealloc_pd(pd), 0); }
  void operator()(ibv_mr* mr) const { EXPECT_EQ(ibv_dereg_mr(mr), 0); }
  void operator()(ibv_cq* cq) const { EXPECT_EQ(ibv_destroy_cq(cq), 0); }
  void operator()(ibv_qp* qp) const { EXPECT_EQ(ibv_destroy_qp(qp), 0); }
  void operator()(ibv_srq* srq) const { EXPECT_EQ(ibv_destroy_srq(srq), 0); }
  void operator()(ibv_xrcd* xrcd) const { EXPECT_EQ(ibv_close_xrcd(xrcd), 0); }
  void operator()(ibv_ah* ah) const { EXPECT_EQ(ibv_destroy_ah(ah), 0); }
  void operator()(ibv_comp_channel* channel) const {
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Delete>;

/// Scope object: objects made meanwhile are left behind on purpose; the leak checker ignores them.
class LeftBehind {
 public:
#ifdef __SANITIZE_ADDRESS__
  LeftBehind() { __lsan_disable(); }
  ~LeftBehind() { __lsan_enable(); }
#else
  LeftBehind() {}
  ~LeftBehind() {}
#endif
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;
};

inline constexpr std::uint32_t kQKey = 0x1234;
/// Of the link-local GID and of the node's IPv4 address.
inline constexpr std::uint8_t kGidIndexes[] = {0, 1};
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// The first device, opened.
class OpenDevice {
 public:
  OpenDevice();
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_gid gid(int index) const;
  ibv_mtu active_mtu() const;
  /// Returns the asynchronous event that comes within five seconds, acknowledged; nothing and a
  /// test failure otherwise.
  std::optional<ibv_async_event> wait_for_event() const;

 private:
  Owned<ibv_context> context_;
  Owned<ibv_pd> pd_;
};

struct EndpointOptions {
  ibv_qp_type type = IBV_QPT_RC;
  int completions = 64;
  std::uint32_t sends = 16;
  std::uint32_t receives = 16;
  std::uint32_t segments = 4;
  std::uint32_t inline_bytes = 64;
  bool signal_all = false;
  std::size_t memory_bytes = 64 << 10;
  int memory_access = kAllAccess;
  int queue_pair_access = kAllAccess;
  ibv_comp_channel* channel = nullptr;
  ibv_srq* srq = nullptr;
  ibv_pd* pd = nullptr;               // Of the queue pair, if it is not the host's.
  ibv_cq* shared_cq = nullptr;        // Used instead of its own; outlives the endpoint.
  std::uint64_t send_operations = 0;  // `send_ops_flags` of an extended queue pair.
  std::uint32_t create_flags = 0;     // IBV_QP_CREATE_*.
};

/// What the other side needs to know.
struct Address {
  std::uint32_t qpn = 0;
  std::uint32_t rkey = 0;
  std::uint64_t memory = 0;
  ibv_gid gids[2] = {};
};

struct ConnectOptions {
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t gid_index = 1;
  std::uint8_t timeout = 14;  // 4.096 us << 14: 67 ms.
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 0.01 ms.
  std::uint8_t rd_atomic = 4;
  std::uint32_t psn = 0xfffffe;  // Wraps soon.
};

/// A queue pair with its own completion queue and registered buffer.
class Endpoint {
 public:
  explicit Endpoint(const OpenDevice& host, const EndpointOptions& options = {});

  ibv_qp* qp() const { return qp_.get(); }
  ibv_qp_ex* qp_ex() const { return ibv_qp_to_qp_ex(qp_.get()); }
  ibv_cq* cq() const { return options_.shared_cq != nullptr ? options_.shared_cq : cq_.get(); }
  ibv_mr* mr() const { return mr_.get(); }
  std::span<std::byte> memory() const { return {memory_, options_.memory_bytes}; }
  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_) + offset;
  }
  const OpenDevice& host() const { return host_; }
  Address address() const;
  ibv_qp_state state() const;
  void destroy_queue_pair() { qp_.reset(); }

  void to_init() const;
  void to_rtr(const Address& peer, const ConnectOptions& options = {}) const;
  void to_rts(const ConnectOptions& options = {}) const;
  /// From RESET to RTS.
  void connect(const Address& peer, const ConnectOptions& options = {}) const;
  int modify_state(ibv_qp_state state) const;

  ibv_sge segment(std::size_t offset, std::uint32_t length) const {
    return {.addr = at(offset), .length = length, .lkey = mr_->lkey};
  }
  /// Post one request; return the value of ibv_post_recv and ibv_post_send.
  int receive(std::uint64_t wr_id, std::size_t offset, std::uint32_t length) const;
  int receive(std::uint64_t wr_id, std::vector<ibv_sge> segments) const;
  int post(ibv_send_wr request, std::vector<ibv_sge> segments) const;
  /// Posts a signaled request of `opcode` with `length` bytes at `offset` of its memory.
  int post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::size_t offset, std::uint32_t length,
           const std::function<void(ibv_send_wr&)>& change = {}) const;

  /// Returns the next completion within `limit`; a test failure and an entry with status
  /// IBV_WC_GENERAL_ERR otherwise.
  ibv_wc wait(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  /// Returns the first completion of at most `turns` polls.
  std::optional<ibv_wc> poll(int turns = 1) const;

 private:
  struct Unmap {
    std::size_t length;
    void operator()(std::byte* memory) const;
  };
  const OpenDevice& host_;
  EndpointOptions options_;
  std::unique_ptr<std::byte, Unmap> mapping_;
  std::byte* memory_;
  Owned<ibv_cq> cq_;
  Owned<ibv_mr> mr_;
  Owned<ibv_qp> qp_;
};

/// Two connected endpoints of one program.
struct Pair {
  explicit Pair(const EndpointOptions& endpoint = {}, const ConnectOptions& connection = {});
  Pair(const EndpointOptions& a_options, const EndpointOptions& b_options,
       const ConnectOptions& connection = {});
  OpenDevice host;
  Endpoint a;
  Endpoint b;
};

/// Makes a request refer to `offset` of the peer's memory.
std::function<void(ibv_send_wr&)> to(const Endpoint& peer, std::size_t offset = 0);
std::function<void(ibv_send_wr&)> to(const Address& peer, std::size_t offset = 0);

/// Fills memory with bytes that depend on the position and the seed.
void fill(std::span<std::byte> memory, unsigned seed);
/// Returns the first position at which `memory` differs from `fill`'s bytes, or nothing.
std::optional<std::size_t> difference(std::span<const std::byte> memory, unsigned seed);

/// Another node of this machine: a process forked from this one. It runs `body`, which communicates
/// with the test through a pipe, and fails the test if one of its expectations failed.
class Pipe {
 public:
  explicit Pipe(int fd) : fd_(fd) {}
  template <typename T>
  void send(const T& value) const {
    write_all(&value, sizeof value);
  }
  template <typename T>
  T receive() const {
    T value{};
    read_all(&value, sizeof value);
    return value;
  }
  /// Sends our address and receives the other's.
  Address exchange(const Address& own) const {
    send(own);
    return receive<Address>();
  }

 private:
  void write_all(const void* data, std::size_t size) const;
  void read_all(void* data, std::size_t size) const;
  int fd_;
};

class OtherNode {
 public:
  explicit OtherNode(const std::function<void(const Pipe&)>& body);
  ~OtherNode();
  const Pipe& pipe() const { return pipe_; }
  /// `kill -9`.
  void kill();

 private:
  Pipe pipe_{-1};
  int fd_ = -1;
  pid_t process_ = -1;
};

/// Called before main's tests: uses a new node with a new runtime folder.
void enter_own_node();

#define ASSERT_OK(completion)                                                       \
  do {                                                                              \
    const ibv_wc checked = (completion);                                            \
    ASSERT_EQ(checked.status, IBV_WC_SUCCESS) << ibv_wc_status_str(checked.status); \
  } while (false)

}  // namespace verbs_test
