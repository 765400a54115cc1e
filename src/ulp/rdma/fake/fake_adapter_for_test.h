#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/os/unique_fd.h"
#include "sim/random.h"

/// libibverbs and librdmacm for tests, in the test's program in place of the libraries: an adapter
/// whose peers, failures and order of events come from a seed. Nothing happens by itself: `step`
/// does one thing. It checks what a real library leaves to the program.
namespace verbatim::ulp::rdma {

/// How often, of 1,000 chances.
struct Faults {
  int post_refused = 0;
  int queue_pair_refused = 0;  // rdma_create_qp.
  int call_refused = 0;        // rdma_connect, rdma_accept, rdma_resolve_*, rdma_disconnect.
  int not_connected = 0;       // An error instead of ESTABLISHED.
  int work_fails = 0;          // A completion with an error, which ends the queue pair.
  int peer_ends = 0;           // For each step.
  int event_twice = 0;         // DISCONNECTED.
  int event_lost = 0;          // DISCONNECTED, or that the last receive is over.
  int resize_refused = 0;
};

/// A receive.
struct FakeReceive {
  std::uint64_t id = 0;
  ibv_sge slice{};
};

struct FakeQueuePair : ibv_qp {
  struct Posted {
    std::uint64_t id = 0;
    bool signaled = false;
    bool invalidates = false;
    ibv_wr_opcode opcode{};
    std::vector<ibv_sge> slices;
    std::vector<std::byte> inline_bytes;
    std::uint64_t remote = 0;
  };
  ibv_qp_state at = IBV_QPS_INIT;
  std::uint32_t depth = 0;
  std::deque<Posted> posted;
  std::deque<FakeReceive> receives;  // Of a queue pair without a shared queue.
};

struct FakeCompletionQueue : ibv_cq {
  std::deque<ibv_wc> done;
  bool is_armed = false;
};

struct FakeSharedQueue : ibv_srq {
  std::uint32_t depth = 0;
  std::deque<FakeReceive> posted;
};

struct FakeId : rdma_cm_id {
  bool listens = false;
  bool is_connected = false;
  int unacknowledged = 0;
  std::deque<rdma_cm_event_type> coming;  // In this order.
};

class FakeAdapter {
 public:
  FakeAdapter(std::uint64_t seed, const Faults& faults);
  ~FakeAdapter();
  FakeAdapter(const FakeAdapter&) = delete;
  FakeAdapter& operator=(const FakeAdapter&) = delete;

  /// Does one thing of those that may happen now, or nothing.
  void step();
  /// A peer asks for a connection at some listener.
  bool request(std::uint8_t initiator = 16, std::uint8_t responder = 16);
  /// The peer sends as many bytes; false: no receive is posted, or nobody is connected.
  bool deliver(FakeQueuePair& queue_pair, std::size_t bytes);
  /// The first posted request ends.
  void complete(FakeQueuePair& queue_pair, ibv_wc_status status = IBV_WC_SUCCESS);
  void peer_ends(FakeId& id);
  void remove_device();
  void to_error(FakeQueuePair& queue_pair);

  /// A request that may still touch these bytes.
  bool uses(const void* address) const;
  /// What was left, doubled, overrun or destroyed too early; none is right.
  const std::vector<std::string>& violations() const { return violations_; }
  std::string objects_left() const;

  // What follows is for the calls of the C interfaces.
  static FakeAdapter& get();
  bool happens(int of_thousand) { return static_cast<int>(random_.below(1000)) < of_thousand; }
  void violation(std::string what) { violations_.push_back(std::move(what)); }
  void note(const char* kind, int change) { objects_[kind] += change; }
  void push(FakeCompletionQueue& queue, const ibv_wc& one);
  void push(const ibv_async_event& event);
  void push(FakeId& id, rdma_cm_event_type type);
  void drop(FakeId& id);
  FakeQueuePair* make_queue_pair(ibv_pd* domain, ibv_qp_init_attr& wanted);
  void destroy(FakeQueuePair* queue_pair);

  Faults faults;
  bool has_windows = true;
  bool is_iwarp = false;
  std::uint32_t inline_bytes_max = 64;
  ibv_device device{};
  ibv_context context{};
  rdma_event_channel channel{};
  ibv_comp_channel completion_channel{};
  UniqueFd channel_fd, completion_fd, async_fd;
  std::deque<rdma_cm_event*> events;
  std::deque<FakeCompletionQueue*> rung;
  std::deque<ibv_async_event> async;
  std::vector<FakeId*> ids;
  std::vector<FakeQueuePair*> queue_pairs;
  FakeSharedQueue* shared_queue = nullptr;  // The last.
  rdma_conn_param last_parameters{};        // Of rdma_connect or rdma_accept.
  std::string last_private_data;
  int post_calls = 0;

 private:
  FakeQueuePair* some_queue_pair();
  FakeId* some_id();

  sim::Random random_;
  std::vector<std::string> violations_;
  std::map<std::string, int> objects_;
  std::uint32_t last_number_ = 0;
};

/// A descriptor that is readable while something is there.
void show(const UniqueFd& fd, bool is_there);

}  // namespace verbatim::ulp::rdma
