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

/// A GID of the device's port, as a connection needs it.
struct SourceGid {
  ibv_gid gid{};
  std::uint8_t index = 0;
  std::uint8_t type = 0;  // enum ibv_gid_type.
};

/// What a context opened, and what it found there. Fields in the order of their making.
struct Device {
  Device(std::uint16_t index, std::uint16_t number);

  /// The GID for a connection whose TCP connection has this local address: that address, if it is
  /// one of the device's, else the first one of IPv4, else any. If the peer's is known, one of its
  /// RoCE version and family. Empty if there is none.
  std::optional<SourceGid> gid_for(const in6_addr& local, const SourceGid* peer) const;
  /// What registered memory allows a peer to do where it is the target of atomics.
  unsigned atomic_access() const;

  bool is_iwarp = false;
  bool is_ethernet = false;
  std::uint8_t port_number = 1;
  ibv_device_attr limits{};
  ibv_port_attr port{};
  ibv_context* context = nullptr;

 private:
  void open(std::uint16_t index);

  // iWARP: the contexts that rdma_cm has opened. They stay open while this list is held.
  Owned<ibv_context*, rdma_free_devices> manager_devices_;
  Owned<ibv_context, ibv_close_device> own_context_;

 public:
  Owned<ibv_pd, ibv_dealloc_pd> domain;
  Owned<ibv_cq, ibv_destroy_cq> send_completions;
  Owned<ibv_cq, ibv_destroy_cq> receive_completions;
  Owned<ibv_srq, ibv_destroy_srq> receives;
  std::shared_mutex queue_pairs_lock;  // Of the context's map.
};

/// An IPv4 address as IPv6 maps it: how RoCE's GIDs name it, too.
in6_addr mapped(const sockaddr_storage& address);

}  // namespace infinity::detail
