#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/os/liveness.h"
#include "base/os/process_token.h"
#include "base/os/unique_fd.h"
#include "base/types.h"
#include "observe/counters.h"
#include "region/region_table.h"

/// The shared arena of one process: everything that peers touch on the direct path lies in it, with
/// offsets instead of pointers, in a memfd that the agent and peers can map (docs/design.md, 4).
namespace verbatim::adapter {

/// Where something lies in the arena, in bytes from its start; 0 is nothing.
template <typename T>
struct Offset {
  std::uint64_t value = 0;
  explicit operator bool() const { return value != 0; }
};

inline constexpr std::uint32_t kProgramQueuePairsMax = 1 << 14;
inline constexpr std::uint32_t kProxyTargetsMax = 1 << 10;  // XRC targets of other programs.
/// By local number: the program's own, then its guests.
inline constexpr std::uint32_t kTargetsMax = kProgramQueuePairsMax + kProxyTargetsMax;
inline constexpr std::uint32_t kRegionsMax = 1 << 20;
inline constexpr std::uint32_t kConnectionsMax = 1 << 14;    // Of the CM, set up or being so.
inline constexpr std::uint32_t kAttachedPeersMax = 1 << 10;  // Programs that watch out for one.
inline constexpr std::uint64_t kArenaBytes = std::uint64_t{64} << 30;  // Of address space.

/// What others may read of one queue pair. Written by its owner; plain values that a reader may see
/// torn. Two queue pairs share no cache line.
struct alignas(64) QueuePairRecord {
  std::atomic<std::uint32_t> qpn{0};  // 0: no queue pair here. Published last.
  std::atomic<std::uint32_t> dest_qpn{0};
  std::atomic<std::uint8_t> type{0};   // As `enum ibv_qp_type`.
  std::atomic<std::uint8_t> state{0};  // As `enum ibv_qp_state`.
  Gid dest_gid;
  observe::QueuePairCounters counters;
  observe::DirectCounters direct_sent;  // What peers have sent stands in their DirectTarget.
};

/// A connection of the CM, for the agent: it says farewell to the peer when the program dies.
/// Written by its owner, `state` last (and first when it goes).
struct alignas(64) ConnectionRecord {
  enum State : std::uint8_t {
    kNone,
    kConnecting,
    kEstablished
  };  // Connecting: request or reply sent.
  std::atomic<std::uint8_t> state{kNone};
  std::uint8_t has_sent_reply = 0;  // Connecting: the passive side.
  std::uint8_t address = 0;         // Of the node's addresses: where packets leave from.
  std::uint32_t local_id = 0;       // Communication ids.
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qpn = 0;
  std::uint32_t scope_id = 0;  // Of a link-local remote_gid.
  Gid remote_gid;
};

struct DirectTarget;
struct XrcQueue;

/// A bit for each local number.
using LocalNumberBitmap = std::array<std::atomic<std::uint64_t>, kTargetsMax / 64>;

struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x76657262'61726e61;  // "verbarna"
  static constexpr std::uint32_t kVersion = 6;
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  ProcessToken process_token = 0;
  std::uint64_t pid_namespace = 0;  // Its inode.
  std::uint64_t base_address = 0;   // Where the owner has this header.
  Liveness liveness;                // Of the background thread: of the program.
  observe::PortCounters port_counters;
  region::RegionTableHeader region_header;
  Offset<QueuePairRecord> queue_pairs;  // kProgramQueuePairsMax of them, by local number.
  Offset<region::RegionEntry> regions;  // kRegionsMax of them.
  Offset<DirectTarget> targets;         // kTargetsMax of them, by local number.
  Offset<XrcQueue> xrc_queues;          // kProgramQueuePairsMax of them, by local number.
  Offset<ConnectionRecord> connections;
  std::atomic<std::uint32_t> connection_count{0};  // Records that may be in use, the first ones.
  std::atomic<std::uint32_t> proxy_count{0};       // Guests that may be in use, the first ones.
  LocalNumberBitmap notified_targets{};            // Targets that have news.
  LocalNumberBitmap notified_srqs{};               // XRC queues that have.
  /// Who has mapped this arena, for its owner to hear of their ends: they may end in the middle of
  /// something. 0: free; where all are taken, one more says nothing.
  std::array<std::atomic<ProcessToken>, kAttachedPeersMax> attached_peers{};
  std::atomic<bool> has_new_attached_peers{
      false};  // Set after the visitor's place, before the doorbell.
};

/// Of this process: the inode of its pid namespace.
std::uint64_t own_pid_namespace();

/// Owns the memfd and its mapping. Sparse: memory is used when it is touched, and given back (hole
/// punched) when a block of a page or more is freed. Thread-safe.
///
/// The mapping is not inherited by a forked child: both would write the same queues. In a child,
/// touching the arena is a fault until `abandon_in_child`, allocating is refused and freeing does
/// nothing.
class Arena {
 public:
  /// ENOMEM, EMFILE, EFBIG and what else the kernel says, in words.
  static Result<std::unique_ptr<Arena>> create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  std::byte* base() const { return base_; }  // Where this process has it.
  ArenaHeader& header() { return *reinterpret_cast<ArenaHeader*>(base_); }
  QueuePairRecord& queue_pair(std::uint32_t local_number);
  DirectTarget& target(std::uint32_t local_number);
  XrcQueue& xrc_queue(SrqNumber number);

  /// In a child after fork: private zeroes where the arena was, so that its queues read as empty
  /// and take nothing. Safe in a pthread_atfork handler: a few system calls. Where the kernel
  /// refuses so much address space, touching stays a fault.
  void abandon_in_child();

  /// Zeroed memory, aligned to 64 bytes, and to a page from a page on. ENOMEM when the arena is
  /// full.
  Result<Offset<std::byte>> allocate(std::size_t bytes);
  void free(Offset<std::byte> at, std::size_t bytes);
  template <typename T>
  T* at(Offset<T> offset) {
    return reinterpret_cast<T*>(base_ + offset.value);
  }

 private:
  Arena() = default;
  bool is_ours() const;  // False in a forked child.
  void lay_out(std::uint64_t secret);
  Result<std::uint64_t> carve(std::size_t block_bytes);
  Result<std::uint64_t> carve_pages(std::size_t block_bytes);

  UniqueFd fd_;
  int process_id_ = 0;
  std::byte* base_ = nullptr;
  std::mutex lock_;               // Guards what follows.
  std::uint64_t next_ = 0;        // Never given out from here on; a multiple of the page size.
  std::uint64_t accessible_ = 0;  // Mapped readable and writable up to here.
  std::uint64_t small_next_ = 0;  // The chunk that blocks of less than a page are cut from.
  std::uint64_t small_end_ = 0;
  std::map<std::size_t, std::vector<std::uint64_t>> free_;  // By rounded size.
};

}  // namespace verbatim::adapter
