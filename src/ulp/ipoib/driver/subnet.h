#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/time.h"
#include "ulp/ipoib/driver/datagram_queue.h"
#include "ulp/ipoib/outputs.h"
#include "ulp/rdma/infiniband/datagram_port.h"
#include "ulp/rdma/infiniband/management.h"

namespace verbatim::ulp::ipoib {

/// Paths and groups of a partition, as the subnet administrator tells them, and the ways to them.
class Subnet {
 public:
  using OnPath = std::function<void(const Gid& gid, std::optional<WayId> way)>;
  /// Empty: not a member, or no longer; `error` says why.
  using OnGroup = std::function<void(const Gid& group, std::optional<WayId> way)>;
  struct Events {
    OnPath on_path;
    OnGroup on_group;
    /// The broadcast group has these attributes, or is not there: before `on_group` of it.
    std::function<void(const Result<wire::MulticastRecord>& record)> on_broadcast;
  };
  /// All outlive it. `own`: the port's GID.
  Subnet(rdma::Management& management, const rdma::Device& device, std::uint8_t port,
         DatagramQueue& queue, PKey pkey, const Gid& own, Events events);

  /// Joins the broadcast group, whose attributes all others have.
  void begin(TimeNs now);
  /// Called in `on_broadcast`, once: ways are its address handles.
  void use(rdma::DatagramPort& port) { port_ = &port; }

  void find_path(const Gid& gid, TimeNs now);
  void join(const Gid& group, bool receives, TimeNs now);
  void leave(const Gid& group, TimeNs now);

  const Gid& broadcast() const { return broadcast_gid_; }
  const wire::MulticastRecord& record() const { return broadcast_; }
  /// Attributes with which a group is joined, and made if nobody was in it.
  static wire::MulticastRecord record_of(const Gid& group, const wire::MulticastRecord& broadcast);

 private:
  struct Membership {
    std::uint32_t number = 0;
    std::optional<wire::MulticastRecord> record;
    std::optional<WayId> way;
    bool receives = false;
    bool is_attached = false;
  };
  void on_joined(const Gid& group, const Result<wire::MulticastRecord>& record);
  void attach(Membership& membership);
  void detach(Membership& membership);
  std::optional<WayId> way_to(const wire::PathRecord& path);
  std::optional<WayId> way_to(const wire::MulticastRecord& group);
  std::optional<WayId> open(InfinibandPath path);
  MulticastGroup group_of(const Membership& membership) const;

  rdma::Management& management_;
  const rdma::Device& device_;
  const std::uint8_t port_number_;
  DatagramQueue& queue_;
  rdma::DatagramPort* port_ = nullptr;
  const PKey pkey_;
  const Gid own_;
  const Gid broadcast_gid_;
  const Events events_;
  wire::MulticastRecord broadcast_;
  std::map<Gid, Membership> memberships_;
};

}  // namespace verbatim::ulp::ipoib
