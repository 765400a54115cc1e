#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>

#include "adapter/direct/imports.h"
#include "adapter/direct/peers.h"
#include "adapter/ethernet/groups.h"
#include "adapter/ethernet/steering.h"
#include "adapter/limits.h"
#include "adapter/membership.h"
#include "adapter/memory/device_memory.h"
#include "adapter/memory/regions.h"
#include "adapter/numbers.h"
#include "adapter/ports/delivery.h"
#include "adapter/ports/multicast.h"
#include "adapter/ports/port_events.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/core/surroundings.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/queues/xrc_domains.h"
#include "adapter/services/stream/stream_source.h"
#include "arena/arena.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/types.h"
#include "link/udp/udp.h"
#include "port/address_vector.h"
#include "port/ports.h"
#include "region/region_table.h"

/// The emulated channel adapter of one program, which the drop-in library calls.
namespace verbatim::adapter {

/// One for each process that has opened the device: creates the adapter's parts, and does what
/// concerns several of them. Thread-safe.
class Adapter final : private Visited {
 public:
  static Result<std::unique_ptr<Adapter>> create(std::unique_ptr<Arena> arena,
                                                 Membership membership);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const arena::Node& node() const { return membership_.node; }
  const Membership& membership() const { return membership_; }
  /// From now on the node has one GID more, the next of its table, and packets for its address come
  /// over this socket (borrowed). ENOSPC where the table is full. One thread at a time;
  /// `port_events()` then says that the entry is valid.
  Result<void> add_gid(const port::GidEntry& entry, int receive_socket);

  // Its parts.
  const port::Ports& ports() const { return ports_; }
  port::Port& port(unsigned number = 1) const { return ports_.at(number); }
  PortEvents& port_events() { return port_events_; }
  Arena& arena() { return *arena_; }
  Regions& memory() { return memory_; }
  region::RegionTable& regions() { return memory_.table(); }
  Imports& imports() { return imports_; }
  XrcDomains& xrc_domains() { return xrc_domains_; }
  SharedReceives& shared_receives() { return shared_receives_; }
  PeerDirectory& peers() { return peers_; }
  Progress& progress() { return *progress_; }

  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options);
  /// Returns true if the queue has entries. If it is empty and a pass of progress is due, runs one
  /// in this thread first.
  bool look_for_completions(CompletionQueue& queue) {
    return !queue.empty() || (progress_->is_due() && await_completions(queue));
  }
  /// `ibv_poll_cq`.
  template <typename Use>
  std::size_t poll(CompletionQueue& queue, std::size_t most, Use use) {
    return look_for_completions(queue) ? queue.poll(most, use) : 0;
  }
  std::size_t poll(CompletionQueue& queue, std::span<Completion> out) {
    return look_for_completions(queue) ? queue.poll(out) : 0;
  }
  /// `ibv_req_notify_cq`.
  void arm(CompletionQueue& queue, bool solicited_only);

  /// As `SharedReceives`; EINVAL if the protection domain does not exist.
  Result<SharedReceiveQueue*> create_shared_receive_queue(const SharedReceiveOptions& options);
  Result<void> destroy_shared_receive_queue(SharedReceiveQueue* queue);

  /// EINVAL if Limits is exceeded, ENOMEM if no number is left. `QueuePair::options` has the
  /// granted capacities (at least those asked for).
  Result<QueuePair*> create_queue_pair(const QueuePairOptions& options);
  /// `ibv_open_qp`: adds a user of an XRC target of this program. EINVAL; EOPNOTSUPP for a target
  /// of another program.
  Result<QueuePair*> open_queue_pair(Qpn qpn, XrcDomain domain, AsyncEvents& events, void* owner);
  /// Removes a user; the last one destroys the queue pair.
  void release_queue_pair(QueuePair* queue_pair, const void* owner);
  /// Waits until no thread uses it; its outstanding requests are dropped without completions.
  void destroy_queue_pair(QueuePair* queue_pair);

  /// Resolves an address vector for UD. EINVAL for GIDs that lead nowhere, a GID index or a port
  /// that does not exist; RoCE v1: EHOSTUNREACH where nobody answers within kNeighbourTimeout.
  Result<Destination> resolve(const port::AddressVector& vector);
  /// The same for packets to a connected queue pair.
  Result<port::Route> resolve(const port::AddressVector& vector, Qpn dest_qpn);

  /// iWARP: moves it from INIT to RTS over a negotiated connection. EINVAL if the queue pair does
  /// not exist or is in another state.
  Result<void> start_stream(Qpn qpn, StreamStart start);
  /// The queue pair, where there is one, enters the error state, and its side of the stream ends
  /// when what it has begun to send has left.
  void end_stream(Qpn qpn);
  /// `QueuePair::on_stream`, now.
  void drain_stream(Qpn qpn);

  /// Sends a management datagram from queue pair 1 to queue pair 1. EADDRNOTAVAIL unless `source`
  /// is an address of the node; a datagram that the network refuses counts as lost.
  Result<void> send_management(const SocketAddress& source, const SocketAddress& destination,
                               std::span<const std::byte, 256> mad);
  /// Returns the record, 0 to kConnectionsMax - 1, of a CM connection in the arena, where the agent
  /// reads it. ENOMEM.
  Result<ConnectionRecord*> connection_record(std::uint32_t record);

  /// A port's P_Key table, which queue pairs follow at once. At most `port::PKeyTable::kSizeMax`.
  void set_pkeys(port::Port& port, std::span<const PKey> pkeys);
  /// InfiniBand: queue pairs follow what the subnet manager has changed of the ports.
  void follow_ports();
  /// The queue pair receives the group's packets by its port from now on, or no longer. Over
  /// InfiniBand they have the group's LID and GID; over RoCE the LID is ignored. EINVAL; errors of
  /// the port's links.
  Result<void> attach_multicast(QueuePair& queue_pair, MulticastGroup group);
  Result<void> detach_multicast(QueuePair& queue_pair, MulticastGroup group);
  bool is_in_multicast_group(const QueuePair& queue_pair);

  /// `ibv_create_flow`: the rule's target receives matching frames from now on. Errors of
  /// `Steering::add`; EINVAL if the target is no raw packet queue pair.
  Result<FlowTable::RuleId> create_flow(QueuePair& target, FlowRule rule);
  void destroy_flow(FlowTable::RuleId rule);

  /// Called around fork: the child gets copies of registered memory.
  void before_fork();
  void in_parent_after_fork();
  /// Called in a forked child: closes the descriptors; the threads do not exist, and every later
  /// call of this adapter's objects fails.
  void abandon_in_child();

 private:
  Adapter(std::unique_ptr<Arena> arena, Membership membership, std::unique_ptr<Numbers> numbers,
          std::unique_ptr<Progress> progress);
  void make_ports();
  Result<void> begin_streams();
  bool await_completions(CompletionQueue& queue);
  /// Count the queue pair as a user of its XRC domain or protection domain, or no longer.
  Result<void> enter_domain(QueuePairOptions& options);
  void leave_domain(const QueuePairOptions& options);
  Result<QueuePair*> add_queue_pair(const QueuePairOptions& options, SendQueue sends,
                                    bool own_receives);
  Result<void> open_ethernet();
  bool is_target_elsewhere(Qpn qpn, const XrcFile& file);
  /// The port's next GID: GIDs of one address share its link, which receives from the socket.
  Result<void> link_gid(const port::GidEntry& entry, int receive_socket);
  void adopt_memory();
  Result<void> link_roce();
  Result<void> link_infiniband();
  /// The background thread wakes for what comes over these.
  Result<void> listen(std::span<const int> descriptors);
  Result<void> join(const MulticastGroup& group);

  // Implementation of `Visited`: what peers do.
  void on_peer_gone(const DirectPeer& peer) override;
  void on_attached_peer_gone() override;
  void on_target_notified(std::uint32_t local_number) override;
  void on_queue_notified(std::uint32_t local_number) override;
  void wait_for_user(std::uint32_t local_number) override;
  void answer_importer(OwnerRequest& wanted) override;
  void on_memory_wanted(MemoryKey key) override;
  bool move_memory() override;

  const std::unique_ptr<Arena> arena_;
  Membership membership_;
  const std::shared_ptr<link::UdpReceiver> buffers_ = std::make_shared<link::UdpReceiver>();
  const std::unique_ptr<Numbers> numbers_;
  Regions memory_;
  PeerDirectory peers_;
  Imports imports_;
  XrcDomains xrc_domains_;
  SharedReceives shared_receives_;
  Multicast multicast_;
  std::deque<Delivery> deliveries_;  // One for each port. They stay where they are.
  port::Ports ports_;
  PortEvents port_events_;
  /// Guards what follows, and which queue pairs there are. No call asks the agent or another
  /// program with it held.
  std::mutex lock_;
  Steering steering_;  // Passes use it, too.
  FrameGroups frame_groups_;
  std::unique_ptr<StreamSource> streams_;  // Null before the first stream.
  const Surroundings surroundings_;        // Of queue pairs.

  const std::unique_ptr<Progress> progress_;  // Last, because its thread uses all of the above.
};

}  // namespace verbatim::adapter
