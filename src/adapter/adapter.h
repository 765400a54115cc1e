#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapter/delivery.h"
#include "adapter/direct/direct_peer.h"
#include "adapter/direct/imported_memory.h"
#include "adapter/ethernet/steering.h"
#include "adapter/limits.h"
#include "adapter/memory/device_memory.h"
#include "adapter/numbers.h"
#include "adapter/packet_source.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/services/stream_source.h"
#include "arena/arena.h"
#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/types.h"
#include "link/udp/udp.h"
#include "port/port.h"
#include "region/adoption/memory_file.h"
#include "region/region_table.h"

/// The emulated channel adapter of one program: what the drop-in library drives.
namespace verbatim::adapter {

/// Room for more receive requests than were asked for, by some cache lines at least: who posts one
/// for each that was taken then neither writes beside where the peer takes, nor asks each time how
/// far it has come.
std::uint32_t granted_receives(std::uint32_t wanted);

/// What the agent tells a program of its node. GIDs may be added while it runs, all else stays.
struct NodeDescription {
  std::string name;
  std::uint64_t guid = 0;  // Host byte order.
  MacAddress mac{};
  std::string interface;  // Name of the network interface behind the port, such as "lo".
  std::uint32_t interface_index = 0;
  RoceVersion version = RoceVersion::v2;  // That the communication manager uses.
  bool is_iwarp = false;                  // RC queue pairs alone, and `start_stream` connects them.
  AppendOnlyList<GidEntry, kGidsMax> gids;
};

/// On the direct path, so long a message that finds no receive request waits for one before it
/// counts as RNR. A card's message is on a cable and in its receiver's buffers meanwhile, and
/// leaves its receiver the time to post.
inline constexpr TimeNs kRnrGrace = 20 * kMillisecond;

/// A program's place in its node: what the agent gave it (docs/design.md, 2).
struct Membership {
  NodeDescription node;
  Qpn first_qpn;                     // Of the range of kProgramQueuePairsMax numbers.
  std::vector<int> receive_sockets;  // Borrowed: they outlive the adapter.
  int event_fd = -1;                 // Readable when the agent says something; -1: none. Not owned.
  std::function<void()> on_event;    // Called by the background thread then.
  /// Its doorbell, which its agent has as well, and how to ask for what is known so of the program
  /// that a queue pair number at an address is of.
  UniqueFd doorbell;
  std::function<Result<PeerDescriptors>(const SocketAddress&, Qpn)> ask_for_peer;
  NameLocks locks;  // Between programs of this user and network namespace.
  /// The direct path, if the program may take it: its memory file, which its agent has, too.
  std::unique_ptr<region::MemoryFile> memory;
  /// RC and UC queue pairs that would need the wire do not get to RTS; datagrams fail that would.
  bool only_direct = false;
  /// So long after packets have come the background thread looks for others without sleeping.
  TimeNs busy_poll = 0;
  TimeNs rnr_grace = kRnrGrace;
};

/// Makes the memory file. What the kernel says where it refuses.
Result<void> prepare_direct_path(Membership& membership);

struct StreamStart;

struct XrcOpening {
  int fd = -1;             // Of the domain's file, borrowed; -1: none.
  bool create = false;     // O_CREAT
  bool exclusive = false;  // O_EXCL
};

/// One for each process that opened the device. Thread-safe.
class Adapter {
 public:
  static Result<std::unique_ptr<Adapter>> create(std::unique_ptr<Arena> arena,
                                                 Membership membership);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const NodeDescription& node() const { return membership_.node; }
  /// From now on the node has one GID more, the next of its table, and packets for its address come
  /// over this socket (borrowed). ENOSPC where the table is full. One thread at a time; `port()`
  /// then says that the entry is valid.
  Result<void> add_gid(const GidEntry& entry, int receive_socket);
  Port& port() { return port_; }
  Mtu active_mtu() const { return port_.state().active_mtu; }
  Arena& arena() { return *arena_; }

  Result<PdNumber> allocate_pd();
  /// EBUSY while regions, windows or queue pairs use it.
  Result<void> deallocate_pd(PdNumber pd);
  bool has_pd(PdNumber pd);
  /// `ibv_import_pd` of another program, whose numbers begin with `first_qpn`: a domain of this one
  /// in which that one's regions can be imported. ENOENT, ESRCH, EAGAIN.
  Result<PdNumber> import_pd(Qpn first_qpn, PdNumber there);
  void unimport_pd(PdNumber pd);
  bool is_imported(PdNumber pd);
  /// `ibv_import_mr` into such a domain: the region has its key here, too. Answers with what it is.
  /// ENOENT, EEXIST where something of this program has the key, ENOMEM.
  Result<region::Region> import_memory(PdNumber pd, MemoryKey key);
  void unimport_memory(MemoryKey key);
  /// `ibv_import_dm`: addresses in `ImportedMemory`. ENOENT, ESRCH, EAGAIN, ENOMEM.
  Result<MutableByteSpan> import_device_memory(Qpn first_qpn, std::uint32_t handle);
  Qpn first_qpn() const { return membership_.first_qpn; }

  /// `ibv_reg_mr`: EINVAL for rights that contradict each other (remote write or atomic without
  /// local write), EFAULT for memory that is not mapped, ENOMEM for a full table. On-demand memory
  /// may be anything: it is looked at when it is touched.
  Result<MemoryKey> register_memory(const region::Region& region);
  /// EBUSY while windows are bound to it.
  Result<void> deregister_memory(MemoryKey key);
  /// `ibv_rereg_mr`: the region with this key is `region` from now on. Errors as both of the above;
  /// then it is as it was.
  Result<void> change_memory(MemoryKey key, const region::Region& region);
  /// `ibv_alloc_mw`.
  Result<MemoryKey> allocate_window(region::EntryKind type, PdNumber pd);
  Result<void> deallocate_window(MemoryKey window, PdNumber pd);
  /// `ibv_advise_mr`: brings the pages of on-demand memory in. With errors as the manual page has
  /// them, of which those of the pages themselves are told only to who waits.
  enum class Prefetch : std::uint8_t { read, write, no_fault };
  Result<void> prefetch(PdNumber pd, Prefetch advice, bool waits, std::span<const Segment> list);
  DeviceMemory& device_memory() { return device_memory_; }
  /// `ibv_free_dm`: EBUSY while regions of this program lie over it. Who has imported it has it no
  /// more.
  Result<void> free_device_memory(std::uint32_t handle);

  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options);
  /// Whether the queue has entries; where it has none, after a turn of progress in this thread,
  /// where one is due.
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

  /// Capacities come back as given in the queue's `capacity` and `segments_max`. EINVAL, ENOMEM.
  Result<SharedReceiveQueue*> create_shared_receive_queue(const SharedReceiveOptions& options);
  /// EBUSY while queue pairs use it.
  Result<void> destroy_shared_receive_queue(SharedReceiveQueue* queue);

  /// `ibv_open_xrcd`: EAGAIN for a file without a domain, EINVAL for one that has it (with
  /// `exclusive`), EBUSY where another program has been opening it for ten seconds. Other calls do
  /// not wait for one that waits here.
  Result<XrcDomain> open_xrc_domain(const XrcOpening& opening);
  /// EBUSY while queue pairs or shared receive queues are in it.
  Result<void> close_xrc_domain(XrcDomain domain);

  /// EINVAL for what Limits does not allow, ENOMEM when numbers run out. Capacities come back as
  /// given (at least as asked for) in `QueuePair::options`.
  Result<QueuePair*> create_queue_pair(const QueuePairOptions& options);
  /// `ibv_open_qp`: another user of an XRC target of this program. EINVAL, and EOPNOTSUPP for one
  /// of another program.
  Result<QueuePair*> open_queue_pair(Qpn qpn, XrcDomain domain, AsyncEvents& events, void* owner);
  /// This user is done with it; the last one destroys it.
  void release_queue_pair(QueuePair* queue_pair, const void* owner);
  /// Waits until no thread works on it; its outstanding requests vanish without completions.
  void destroy_queue_pair(QueuePair* queue_pair);

  /// Resolves an address vector for UD. EINVAL for GIDs that lead nowhere, a GID index or a port
  /// that does not exist; RoCE v1: EHOSTUNREACH where nobody answers within kNeighbourTimeout.
  Result<Destination> resolve(const AddressVector& vector);

  /// iWARP: from INIT to RTS, over a connection whose ends have agreed. EINVAL where there is no
  /// such queue pair, and in other states.
  Result<void> start_stream(Qpn qpn, StreamStart start);
  /// `QueuePair::on_stream`, now.
  void drain_stream(Qpn qpn);

  /// A management datagram from queue pair 1 to queue pair 1. `source` is one of the node's
  /// addresses, else EADDRNOTAVAIL; one that the network does not take counts as lost.
  Result<void> send_management(const SocketAddress& source, const SocketAddress& destination,
                               std::span<const std::byte, 256> mad);
  /// Tells peers' agents, by way of the arena, of a connection of the CM: `record` is 0 to
  /// kConnectionsMax - 1. ENOMEM.
  Result<ConnectionRecord*> connection_record(std::uint32_t record);

  Result<void> attach_multicast(QueuePair& queue_pair, const Gid& group);
  Result<void> detach_multicast(QueuePair& queue_pair, const Gid& group);

  /// `ibv_create_flow`: from now on the rule's target gets the frames that it takes. What
  /// `Steering::add` says, and EINVAL for a target that is no raw packet queue pair.
  Result<FlowTable::RuleId> create_flow(QueuePair& target, FlowRule rule);
  void destroy_flow(FlowTable::RuleId rule);

  /// Around fork: the child gets copies of registered memory.
  void before_fork();
  void in_parent_after_fork();
  /// In a child after fork: the descriptors are closed, no thread is there; every later call of
  /// this adapter's objects fails.
  void abandon_in_child();

  /// The program on this machine that has the queue pair, or the XRC queue; null where the wire
  /// leads there. Asks its node's agent, but for programs that were found before.
  std::shared_ptr<DirectPeer> find_peer(const SocketAddress& address, Qpn qpn);
  bool takes_direct_path() const { return membership_.memory != nullptr; }
  bool only_direct() const { return membership_.only_direct; }
  TimeNs busy_poll() const { return membership_.busy_poll; }
  TimeNs rnr_grace() const { return membership_.rnr_grace; }

  region::RegionTable& regions() { return *regions_; }
  Progress& progress() { return *progress_; }
  Steering& steering() { return steering_; }
  /// Only once a stream was started.
  StreamSource& streams() { return *streams_; }

 private:
  friend class QueuePair;
  friend class Steering;
  bool await_completions(CompletionQueue& queue);
  Result<void> begin_progress();
  Result<void> begin_streams();
  Adapter(std::unique_ptr<Arena> arena, Membership membership);
  Result<void> check_capacity(const QueuePairOptions& options) const;
  /// What a queue pair of this type needs beside its capacity.
  Result<void> check_parts(const QueuePairOptions& options) const;
  std::uint32_t& users_of(const QueuePairOptions& options);
  Result<void> check_shared_receive(const SharedReceiveOptions& wanted) const;
  /// Whether a queue with that number would be this program's.
  bool has_number(SrqNumber number) const { return numbers_.has(raw(number)); }
  /// An XRC queue of that domain; during a turn.
  SharedReceiveQueue* find_shared_receive(SrqNumber number, XrcDomain domain) const;
  bool is_target_elsewhere(Qpn qpn, const XrcFile& file);
  void publish(const SharedReceiveQueue& queue);
  void withdraw(const SharedReceiveQueue& queue);
  void take_notifications(SharedReceiveQueue& queue);
  /// The port's next GID: GIDs of one address share its link.
  Result<void> link_gid(const GidEntry& entry);
  /// Where an address vector leads, and how packets get to that queue pair.
  Result<port::Route> route(const AddressVector& vector, Qpn dest_qpn);
  Result<SocketAddress> check_vector(const AddressVector& vector) const;

  // The direct path: adapter_direct.cpp.
  Result<void> serve_peers();
  void on_doorbell();
  void serve_notifications();
  void serve_proxy(DirectTarget& proxy);
  Result<std::shared_ptr<MappedTarget>> exporter_of(Qpn first_qpn);
  static Result<region::Region> reserve_imported(ImportedRegion loan);
  void answer_importer(OwnerRequest& wanted);
  void watch_attached_peers();
  void on_attached_peer_gone(std::uint32_t place, int fd);
  void on_peer_gone(const std::shared_ptr<DirectPeer>& peer);
  void wait_for_target_unlocks();
  void wait_for_users();
  /// Peers may visit the queue pair's target, or none does any more.
  void set_exposed(Qpn qpn, bool found) {
    const std::uint32_t local_number = qpn.value() % kProgramQueuePairsMax;
    const std::uint64_t bit = std::uint64_t{1} << (local_number % 64);
    std::atomic<std::uint64_t>& word = exposed_[local_number / 64];
    found ? word.fetch_or(bit) : word.fetch_and(~bit);
  }
  std::shared_ptr<DirectPeer> peer_at(const SocketAddress& address, Qpn qpn);
  std::shared_ptr<DirectPeer> known_peer(std::uint64_t arena_inode, const SocketAddress& address);
  const DirectPeer* own_peer() const { return own_peer_.get(); }
  /// Makes the region's bytes known to peers; what it is made of is released by `release_memory`.
  struct Adopted {
    std::vector<region::Extent> extents;
    Offset<std::byte> list;  // In the arena, where there is more than one.
  };
  Result<Adopted> adopt_memory(region::Region& region);
  void release_memory(const Adopted& adopted);
  Result<MemoryKey> enter(const region::Region& region, const Adopted& adopted);
  /// Leaves in `adopted` what the region had before.
  Result<void> exchange(MemoryKey key, const region::Region& region, Adopted& adopted);

  struct Pd {
    std::uint32_t users = 0;
    std::shared_ptr<MappedTarget> exporter;  // Imported: the program that it is of,
    PdNumber there{};                        // which it is there,
    std::uint32_t imports = 0;               // and how often it was.
  };
  PdNumber add_pd(Pd pd);
  static constexpr PdNumber kDeviceMemoryPd{};  // Of regions that show device memory; no program's.
  struct Xrc {
    XrcFile file;  // None: the domain is this program's alone.
    std::uint32_t handles = 0;
    std::uint32_t users = 0;
    UniqueFd kept_file;
    UniqueFd claim;  // Says to other programs that the file has a domain.
  };
  Result<std::optional<XrcDomain>> open_known_domain(const XrcOpening& opening,
                                                     const XrcFile& file);
  Result<XrcDomain> add_xrc_domain(Xrc created);
  Result<void> attach_frames(QueuePair& queue_pair, const Gid& group);
  Result<void> detach_frames(QueuePair& queue_pair, const Gid& group);
  void leave(Group& group, QueuePair& queue_pair);
  Result<void> join(const Gid& gid);
  void drop_empty_groups();

  std::unique_ptr<Arena> arena_;
  Membership membership_;
  Port port_;
  std::shared_ptr<link::UdpReceiver> buffers_ = std::make_shared<link::UdpReceiver>();
  std::unique_ptr<region::RegionTable> regions_;
  DeviceMemory device_memory_;
  Numbers numbers_;
  LocalNumberBitmap exposed_{};  // See `set_exposed`.

  /// Guards what follows. Before lock_, and held while exporters are asked, who may be asking, too.
  std::mutex exporters_lock_;
  std::map<std::uint32_t, std::shared_ptr<MappedTarget>> exporters_;  // By first number.

  /// Guards what follows: the control path. No call asks the agent or another program with it held.
  std::mutex lock_;
  std::map<PdNumber, Pd> pds_;
  std::uint32_t last_pd_ = 0;
  struct Registered {
    PdNumber pd{};
    Adopted adopted;
  };
  std::map<MemoryKey, Registered> registered_;
  std::map<MemoryKey, std::uint32_t> imports_;              // Regions of others: how often.
  std::map<std::uint32_t, MemoryKey> shown_device_memory_;  // By handle.
  std::map<XrcDomain, Xrc> xrc_domains_;
  std::uint32_t last_xrc_domain_ = 0;
  /// By local number. Read during turns, written under both locks, as groups_ is.
  std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> shared_receives_;
  std::uint32_t last_shared_receive_ = random_number();
  Groups groups_;  // Read during turns under Progress's turn lock, written under both locks.
  Steering steering_{*this};
  /// The rules of groups that raw packet queue pairs joined, by queue pair number and GID.
  std::map<std::pair<std::uint32_t, std::array<std::uint8_t, 16>>, FlowTable::RuleId> frame_groups_;

  std::mutex peers_lock_;  // Guards what follows.
  struct KnownPeer {
    std::shared_ptr<DirectPeer> peer;
    std::vector<SocketAddress> addresses;  // By which it was found.
    bool is_at(const SocketAddress& address) const {
      const auto is_same = [&](const SocketAddress& one) { return same_ip(one, address); };
      return std::ranges::any_of(addresses, is_same);
    }
  };
  std::vector<KnownPeer> peers_;
  std::shared_ptr<DirectPeer> own_peer_;  // One of them; null where there is no direct path.

  std::map<std::uint32_t, UniqueFd>
      attached_peers_;  // By place: pidfds. The background thread's own.
  std::optional<Delivery> delivery_;
  std::optional<PacketSource> packets_;
  std::unique_ptr<StreamSource> streams_;  // Null before the first stream.
  std::unique_ptr<Progress> progress_;     // Last: its thread uses all of the above.
};

}  // namespace verbatim::adapter
