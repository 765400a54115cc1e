#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/ethernet/work_queue.h"
#include "agent/protocol/device_files.h"
#include "base/os/unique_fd.h"
#include "dropin/ibverbs/data/send_batch.h"
#include "dropin/ibverbs/program.h"
#include "dropin/ibverbs/verbs.h"

/// The objects behind the structures that programs see. Each begins with the public structure (a
/// context ends with it), so a pointer to one converts to the other.
namespace verbatim::dropin {

struct Device {
  ibv_device verbs;
  /// Providers loaded on top of this library read a pointer here, to see whether a device is
  /// theirs.
  const void* provider_operations;
  arena::Node node;
};
static_assert(offsetof(Device, provider_operations) == 664);

struct QueuePair;
struct SharedReceiveQueue;
struct XrcDomain;

/// The process that opened a context.
struct Exporter {
  int process_id = 0;
  Qpn first_qpn;  // First of its numbers.
};

struct Context {
  verbs_context verbs;
  Program* program;  // Valid until the process ends.
  Device* device;
  UniqueFd command_fd;  // `ibv_context::cmd_fd`: see import.cpp.
  Exporter exporter;    // The owner of its objects: another process, if it was imported.
  adapter::AsyncEvents events;
  /// Guards `live_objects` and the `events_delivered` of its members. An event whose object is no
  /// longer in `live_objects` is dropped: the object is being destroyed.
  std::mutex live_objects_lock;
  std::unordered_set<const void*>
      live_objects;  // Queue pairs, completion and shared receive queues.
  // Also protected by live_objects_lock.
  std::unordered_set<QueuePair*> queue_pairs;
  std::unordered_set<SharedReceiveQueue*> shared_receives;
  std::unordered_set<XrcDomain*> xrc_domains;

  adapter::Adapter& adapter() const { return *program->adapter; }
  Usage& usage() const { return *program->usage; }
  const config::DeviceLimits& limits() const { return program->usage->limits(); }
};

/// Number of objects that use another one.
using UserCount = std::atomic<std::uint32_t>;

struct ThreadDomain {
  ibv_td verbs;
  std::shared_ptr<UserCount> users = std::make_shared<UserCount>(0);
};

struct ParentDomain;

struct ProtectionDomain {
  ibv_pd verbs;  // `handle`: the adapter's number; a parent domain has that of its domain.
  // Objects made on it that the adapter does not count.
  std::shared_ptr<UserCount> users = std::make_shared<UserCount>(0);
  std::unique_ptr<ParentDomain> parent;  // If it is a parent domain: what it was made of.
  Share share;                           // Use of the device's limits.
  PdNumber number() const { return PdNumber{verbs.handle}; }
};

/// Counts an object among the domain's users for its lifetime. The domain may end before: a program
/// that un-imports it need not first destroy the objects made on it.
template <typename Domain>
class Use {
 public:
  Use() = default;
  explicit Use(Domain* domain) : users_(domain != nullptr ? domain->users : nullptr) {
    if (users_ != nullptr) ++*users_;
  }
  Use(Use&&) noexcept = default;
  Use& operator=(Use&& other) noexcept {
    users_.swap(other.users_);
    return *this;
  }
  ~Use() {
    if (users_ != nullptr) --*users_;
  }

 private:
  std::shared_ptr<UserCount> users_;
};

/// Allocates private buffers with the program's functions (ibv_alloc_parent_domain).
class ProgramMemory final : public std::pmr::memory_resource {
 public:
  ProgramMemory(ibv_pd* domain, const ibv_parent_domain_init_attr& attributes);

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  ibv_pd* domain_;
  decltype(ibv_parent_domain_init_attr::alloc) allocate_;
  decltype(ibv_parent_domain_init_attr::free) free_;
  void* context_;
  std::mutex lock_;
  std::unordered_set<void*> defaults_;  // Allocated by us, as the program asked.
};

struct ParentDomain {
  Use<ProtectionDomain> domain;
  Use<ThreadDomain> threads;
  std::optional<ProgramMemory> memory;
};

struct MemoryRegion {
  ibv_mr verbs;
  std::uint32_t device_memory = 0;   // Handle of the device memory under it; 0: none.
  std::span<std::byte> mapped = {};  // Our mapping of a DMA buffer.
  bool is_imported = false;          // Imported from another process.
  Share share = {};                  // Use of the device's limits.
};

struct MemoryWindow {
  ibv_mw verbs;
  Share share;  // Use of the device's limits.
};

struct DeviceBuffer {
  ibv_dm verbs;
  // Memory of another process, at addresses of adapter::ImportedMemory.
  std::span<std::byte> imported = {};
};

struct CompletionQueue;

struct Channel {
  ibv_comp_channel verbs;
  adapter::CompletionChannel queue;
  /// The same as Context::live_objects_lock, for completion events. Also protects `verbs.refcnt`.
  std::mutex live_objects_lock;
  std::unordered_map<adapter::CompletionQueue*, CompletionQueue*> live_objects;
};

struct CompletionQueue {
  ibv_cq_ex verbs;
  /// Owned. Threads that acknowledge events use it until its destructor has waited for them.
  adapter::CompletionQueue* queue = nullptr;
  std::uint32_t events_delivered = 0;  // Asynchronous events.
  // Extended queues: the entry that the program reads between start_poll and end_poll.
  bool single_threaded = false;
  Use<ProtectionDomain> domain;  // Its parent domain.
  std::mutex polling;  // Held from start_poll to end_poll; protects `entry`, `verbs.wr_id` and
                       // `verbs.status`.
  adapter::Completion entry;
  Share share;  // Use of the device's limits.
};

struct WorkQueue {
  ibv_wq verbs;
  std::unique_ptr<adapter::WorkQueue> queue;
  Use<ProtectionDomain> domain;
  // Entries of indirection tables; EBUSY to destroy it meanwhile.
  std::atomic<std::uint32_t> users{0};
  std::uint32_t events_delivered = 0;
};

struct IndirectionTable {
  ibv_rwq_ind_table verbs;
  std::vector<WorkQueue*> queues;
  // Queue pairs; EBUSY to destroy it meanwhile.
  std::shared_ptr<UserCount> users = std::make_shared<UserCount>(0);
};

struct QueuePair {
  ibv_qp_ex verbs;
  void* newer_fields;  // Fields that rdma-core 56 added to ibv_qp_ex; programs built with it may
                       // read them.
  adapter::QueuePair* queue_pair = nullptr;  // Owned by the adapter.
  std::unique_ptr<SendBatch> batch;          // Extended queue pairs only.
  Use<ProtectionDomain> domain;
  std::uint32_t events_delivered = 0;
  Use<IndirectionTable> scaling;
  // Flow rules that lead to it; EBUSY to destroy it meanwhile.
  std::atomic<std::uint32_t> flows{0};
  Share share;  // Use of the device's limits.
};

struct Flow {
  ibv_flow verbs;
  QueuePair* target;
  adapter::FlowTable::RuleId rule;
};

struct Counters {
  struct Point {
    std::uint32_t index = 0;
    ibv_counter_description what{};
  };
  ibv_counters verbs;
  /// Shared with the flow rules that count in it.
  std::shared_ptr<adapter::FlowCounter> counter = std::make_shared<adapter::FlowCounter>();
  std::mutex lock;  // Protects the members below.
  std::vector<Point> points;
};

struct XrcDomain {
  ibv_xrcd verbs;
  adapter::XrcDomain number{};
};

struct SharedReceiveQueue {
  ibv_srq verbs;
  adapter::SharedReceiveQueue* queue = nullptr;  // Owned by the adapter.
  Use<ProtectionDomain> domain;
  std::uint32_t events_delivered = 0;
  Share share;  // Use of the device's limits.
};

struct AddressHandle {
  ibv_ah verbs;
  adapter::Destination destination;
  Use<ProtectionDomain> domain;
  Share share;  // Use of the device's limits.
};

inline Device& from(ibv_device* device) { return *reinterpret_cast<Device*>(device); }
inline Context& from(ibv_context* context) {
  return *reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) -
                                     offsetof(verbs_context, context));
}
inline ProtectionDomain& from(ibv_pd* pd) { return *reinterpret_cast<ProtectionDomain*>(pd); }
inline Counters& from(ibv_counters* counters) { return *reinterpret_cast<Counters*>(counters); }
inline ThreadDomain& from(ibv_td* td) { return *reinterpret_cast<ThreadDomain*>(td); }
inline MemoryWindow& from(ibv_mw* mw) { return *reinterpret_cast<MemoryWindow*>(mw); }
inline DeviceBuffer& from(ibv_dm* dm) { return *reinterpret_cast<DeviceBuffer*>(dm); }
inline MemoryRegion& from(ibv_mr* mr) { return *reinterpret_cast<MemoryRegion*>(mr); }
inline Channel& from(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
inline CompletionQueue& from(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
inline CompletionQueue& from(ibv_cq_ex* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
inline QueuePair& from(ibv_qp* qp) { return *reinterpret_cast<QueuePair*>(qp); }
inline WorkQueue& from(ibv_wq* wq) { return *reinterpret_cast<WorkQueue*>(wq); }
inline IndirectionTable& from(ibv_rwq_ind_table* table) {
  return *reinterpret_cast<IndirectionTable*>(table);
}
inline Flow& from(ibv_flow* flow) { return *reinterpret_cast<Flow*>(flow); }
inline XrcDomain& from(ibv_xrcd* xrcd) { return *reinterpret_cast<XrcDomain*>(xrcd); }
inline SharedReceiveQueue& from(ibv_srq* srq) {
  return *reinterpret_cast<SharedReceiveQueue*>(srq);
}
inline AddressHandle& from(ibv_ah* ah) { return *reinterpret_cast<AddressHandle*>(ah); }

inline ibv_cq* to_verbs(CompletionQueue& cq) { return reinterpret_cast<ibv_cq*>(&cq.verbs); }

inline Gid to_gid(const ibv_gid& gid) {
  Gid own;
  std::copy(std::begin(gid.raw), std::end(gid.raw), own.bytes.begin());
  return own;
}
inline ibv_gid to_verbs(const Gid& gid) {
  ibv_gid theirs;
  std::copy(gid.bytes.begin(), gid.bytes.end(), theirs.raw);
  return theirs;
}

inline adapter::QueuePairCapacity to_capacity(const ibv_qp_cap& theirs) {
  return {.send_requests = theirs.max_send_wr,
          .receive_requests = theirs.max_recv_wr,
          .send_segments = theirs.max_send_sge,
          .receive_segments = theirs.max_recv_sge,
          .inline_bytes = theirs.max_inline_data};
}

inline ibv_qp_cap to_verbs(const adapter::QueuePairCapacity& own) {
  return {.max_send_wr = own.send_requests,
          .max_recv_wr = own.receive_requests,
          .max_send_sge = own.send_segments,
          .max_recv_sge = own.receive_segments,
          .max_inline_data = own.inline_bytes};
}

/// Length of the GID table that programs see.
inline std::uint32_t gid_table_length(const arena::Node& node) {
  return node.is_iwarp() || node.is_infiniband() ? 1 : agent::kGidTableLength;
}
/// Returns the index of the GID with that version in the port's table.
std::optional<std::uint8_t> gid_index_of(const port::Port& port, const Gid& gid,
                                         RoceVersion version);

/// Sets the functions with which programs poll an extended completion queue.
void extend(CompletionQueue& queue);

/// Called before an object's memory is freed: drops its asynchronous events that the program has
/// not taken, and waits until the others are acknowledged. `completed` is protected by `mutex`,
/// `delivered` by Context::live_objects_lock.
void drop_async_events(Context& context, const void* object, const std::uint32_t& delivered,
                       const std::uint32_t& completed, pthread_mutex_t& mutex,
                       pthread_cond_t& condition);

port::AddressVector to_address_vector(const ibv_ah_attr& attributes);

/// Returns the rights in `access`. Optional bits and the one of huge pages are hints, which a
/// device may ignore.
Result<std::uint32_t> to_rights(std::uint32_t access);
/// Registers `length` bytes at `address`. Returns the object, or null with errno.
ibv_mr* register_memory(const char* call, ibv_pd* pd, void* address, std::size_t length,
                        std::uint64_t iova, std::uint32_t access, std::uint32_t made_of = 0);

/// Converts a binding to the form of a send request.
region::WindowBinding to_binding(const ibv_mw& mw, std::uint32_t rkey,
                                 const ibv_mw_bind_info& info);

/// Creates a context of a device. `command_fd` becomes its `cmd_fd`; `exporter`: the process that
/// owns its objects.
Result<Context*> open_context(Device& device, UniqueFd command_fd, Exporter exporter);
/// Creates a descriptor that tells an importer which process owns the objects.
Result<UniqueFd> make_command_file(const adapter::Adapter& adapter);

/// Of a host of a fabric: what its subnet manager has set. Requires that the port exists.
arena::InfinibandPort infiniband_port(const Program& program, std::uint32_t number);

}  // namespace verbatim::dropin
