#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "base/net/path.h"
#include "base/types.h"
#include "ulp/engine/slice.h"

/// The driver of all upper-layer protocols: the C interfaces of libibverbs, librdmacm and
/// libibumad, ours or rdma-core's with a card. One thread uses an object of this folder.
namespace verbatim::ulp::rdma {

/// What the adapter allows: the least of this and of a protocol's wishes is used.
struct Limits {
  std::uint32_t send_depth = 0;
  std::uint32_t shared_receives = 0;
  std::uint32_t slices = 0;
  std::uint32_t inline_bytes = 0;
  std::uint32_t completions = 0;
  std::uint8_t reads_as_initiator = 0;
  std::uint8_t reads_as_responder = 0;
  bool has_windows = false;    // Type 2: siw has none.
  bool has_on_demand = false;  // IBV_ACCESS_ON_DEMAND: registering makes no page resident.
  bool is_iwarp = false;
  std::uint32_t vendor = 0, part = 0;
};

/// One port, as engines need it. `pkeys` by index.
struct PortFacts {
  std::uint8_t number = 1;
  bool is_active = false;
  bool is_infiniband = false;
  Lid lid{};
  Lid sm_lid{};
  Mtu mtu = Mtu::k1024;
  std::vector<Gid> gids;
  std::vector<PKey> pkeys;
};

/// Asynchronous events of the device that upper layers act upon.
enum class DeviceEvent : std::uint8_t {
  port_active,
  port_down,
  lid_change,
  pkey_change,
  gid_change,
  sm_change,
  client_reregister,  // Join all groups and register all services again (IBA 14.4.11).
  queue_pair_failed,
  last_receive,  // A queue pair in the error state takes no more shared receives (IBA 11.6.3.1).
  device_gone,
};
struct DeviceNotice {
  DeviceEvent event{};
  Qpn queue_pair{};       // Of `queue_pair_failed` and `last_receive`.
  std::uint8_t port = 0;  // Of those of a port: all others but `device_gone`.
};

/// Registered memory of this process. Deregistered by the destructor.
class Region {
 public:
  Slice slice(std::size_t offset, std::uint32_t bytes) const;
  MemoryKey local_key() const { return MemoryKey{region_->lkey}; }
  MemoryKey remote_key() const { return MemoryKey{region_->rkey}; }
  std::span<std::byte> bytes() const { return bytes_; }
  ibv_mr* get() const { return region_.get(); }

 private:
  struct Deregister {
    void operator()(ibv_mr* region) const { ibv_dereg_mr(region); }
  };
  std::unique_ptr<ibv_mr, Deregister> region_;
  std::span<std::byte> bytes_;
  friend class Device;
};

/// A device that rdma_cm has opened, with one protection domain for all that a process serves.
class Device {
 public:
  /// By name or by one of its addresses; empty: the first with an active port. ENODEV in words.
  static Result<std::unique_ptr<Device>> open(const std::string& choice);

  const Limits& limits() const { return limits_; }
  const char* name() const { return ibv_get_device_name(context_->device); }
  /// Of the node: an InfiniBand service that needs one number of its own has this.
  std::uint64_t guid() const { return guid_; }
  PortFacts port(std::uint8_t number = 1) const;  // Asks the device each time.

  /// `rights`: IBV_ACCESS_*; over iWARP remote_write is added where local_write is, for READs.
  /// Receives and what peers write lie in anonymous memory: into a mapped file, a peer of this
  /// machine needs a system call for each message.
  Result<Region> register_memory(std::span<std::byte> memory, int rights) const;
  /// RDS: the region's first byte has the address `at` for peers.
  Result<Region> register_at(std::span<std::byte> memory, std::uint64_t at, int rights) const;

  int event_descriptor() const { return context_->async_fd; }
  /// Never waits.
  std::optional<DeviceNotice> take_event();

  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_.get(); }

 private:
  struct Deallocate {
    void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
  };
  struct FreeList {
    void operator()(ibv_context** list) const;
  };
  using List = std::unique_ptr<ibv_context*[], FreeList>;
  static Result<ibv_context*> choose(const List& list, const std::string& choice);
  Result<void> read_limits();
  int rights_here(int rights) const;

  List devices_;                    // rdma_cm keeps them open as long.
  ibv_context* context_ = nullptr;  // One of them.
  std::unique_ptr<ibv_pd, Deallocate> domain_;
  Limits limits_;
  std::uint64_t guid_ = 0;
};

}  // namespace verbatim::ulp::rdma
