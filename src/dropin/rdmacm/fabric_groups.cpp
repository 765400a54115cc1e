#include <cerrno>

#include <endian.h>

#include "base/net/group_gid.h"
#include "dropin/rdmacm/calls.h"

/// Multicast groups of datagram ids on hosts of a fabric, whose subnet administrator assigns the
/// groups' LIDs.
namespace verbatim::rdmacm {
namespace {

/// The Q_Key of opensm's groups for IP over InfiniBand, where there is no broadcast group.
constexpr std::uint32_t kIpQKey = 0x0b1b;
// Join states (IBA 15.2.5.17.2).
constexpr std::uint8_t kFullMember = 1;
constexpr std::uint8_t kSendOnlyFullMember = 8;

void describe(const Multicast& multicast, const ibv_sa_mcmember_rec& group,
              rdma_ud_param& parameters) {
  parameters.ah_attr = {.grh = {.dgid = group.mgid,
                                .flow_label = be32toh(group.flow_label),
                                .sgid_index = 0,
                                .hop_limit = group.hop_limit,
                                .traffic_class = group.traffic_class},
                        .dlid = multicast.lid,
                        .sl = group.sl,
                        .src_path_bits = 0,
                        .static_rate = group.rate,
                        .is_global = 1,
                        .port_num = multicast.id->connection.plan.port};
  parameters.qp_num = kMulticastQpn.value();
  parameters.qkey = be32toh(group.qkey);
}

}  // namespace

ibv_sa_mcmember_rec Manager::broadcast_group(std::uint8_t port) const {
  const ibv_gid gid = to_verbs(broadcast_gid_of(PKey{node_.pkey}));
  ibv_sa_mcmember_rec group;
  services_->find_group(port, &gid, &group);
  if (group.mlid == 0) group.qkey = htobe32(kIpQKey);
  return group;
}

/// As Linux's cma_join_ib_multicast(). Of another use than IP, a group has no limits of its own.
Result<void> Manager::join_group(Multicast& multicast, const SocketAddress& address,
                                 const ibv_sa_mcmember_rec& broadcast) {
  const bool is_ip = multicast.id->verbs.ps == RDMA_PS_IPOIB;
  const auto use = is_ip ? GroupUse::ip_over_infiniband : GroupUse::rdma_cm;
  const bool receives = multicast.join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
  ibv_sa_mcmember_rec wanted = broadcast;
  wanted.mgid = to_verbs(group_gid_of(address, use, PKey{node_.pkey}));
  if (!is_ip) wanted.qkey = htobe32(std::uint32_t{RDMA_UDP_QKEY});
  wanted.pkey = htobe16(node_.pkey);
  wanted.join_state = receives ? kFullMember : kSendOnlyFullMember;
  const bool has_limits = is_ip && broadcast.mlid != 0;
  multicast.membership = ++last_membership_;
  groups_.emplace(multicast.membership, &multicast);
  if (const int error =
          services_->join_group(multicast.membership, multicast.id->connection.plan.port, &wanted,
                                has_limits, on_group)) {
    groups_.erase(multicast.membership);
    return refused_below(error);
  }
  return {};
}

void Manager::leave_group(Multicast& multicast) {
  if (groups_.erase(multicast.membership) != 0) services_->leave_group(multicast.membership);
}

void Manager::leave_groups(Id& id) {
  for (Multicast& multicast : id.multicasts) leave_group(multicast);
}

/// Called by the background thread. If the subnet administrator has made another group, the program
/// gets an error, as with Linux: it has to leave and to join again.
void Manager::on_group(std::uint32_t membership, int error, const ibv_sa_mcmember_rec* record) {
  Manager* const manager = existing();
  if (manager == nullptr) return;
  const std::lock_guard guard(manager->lock);
  const auto found = manager->groups_.find(membership);
  if (found == manager->groups_.end()) return;  // It has left.
  Multicast& multicast = *found->second;
  const int failure = error != 0 ? error : multicast.is_member ? ENETRESET : 0;
  const auto type = failure != 0 ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN;
  auto event = make_multicast_event(multicast, type, -failure);
  if (failure == 0) {
    multicast.is_member = true;
    multicast.group = record->mgid;
    multicast.lid = be16toh(record->mlid);
    describe(multicast, *record, event->verbs.param.ud);
  }
  manager->push(*multicast.id, std::move(event));
}

}  // namespace verbatim::rdmacm
