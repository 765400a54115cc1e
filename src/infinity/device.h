#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

namespace infinity::detail {

template <auto close>
struct Closer {
  template <class Object>
  void operator()(Object* object) const {
    close(object);
  }
};
template <class Object, auto close>
using Owned = std::unique_ptr<Object, Closer<close>>;

/// A GID of the device's port, for a connection.
struct SourceGid {
  ibv_gid gid{};
  std::uint8_t index = 0;
  std::uint8_t type = 0;  // Of enum ibv_gid_type.
};

/// A context's open device and its properties. Fields are in the order of their creation.
struct Device {
  Device(std::uint16_t index, std::uint16_t number);

  /// Returns the GID for a connection whose TCP connection has this local address: the GID of that
  /// address if the device has it, else the first IPv4 one, else any. If `peer` is known, one with
  /// its RoCE version and family. Empty if there is none.
  std::optional<SourceGid> gid_for(const in6_addr& local, const SourceGid* peer) const;
  /// Returns the access rights of memory that peers use for atomics.
  unsigned atomic_access() const;

  bool is_iwarp = false;
  bool is_ethernet = false;
  std::uint8_t port_number = 1;
  ibv_device_attr limits{};
  ibv_port_attr port{};
  ibv_context* context = nullptr;

 private:
  void open(std::uint16_t index);

  // iWARP: the contexts that rdma_cm has opened. They stay open while this list exists.
  Owned<ibv_context*, rdma_free_devices> manager_devices_;
  Owned<ibv_context, ibv_close_device> own_context_;

 public:
  Owned<ibv_pd, ibv_dealloc_pd> domain;
  Owned<ibv_cq, ibv_destroy_cq> send_completions;
  Owned<ibv_cq, ibv_destroy_cq> receive_completions;
  Owned<ibv_srq, ibv_destroy_srq> receives;
  std::shared_mutex queue_pairs_lock;  // Protects the context's map.
};

/// Maps an IPv4 address to IPv6, as RoCE's GIDs do.
in6_addr mapped(const sockaddr_storage& address);

}  // namespace infinity::detail
