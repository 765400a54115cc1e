#include <algorithm>
#include <cstring>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Multicast groups of datagram ids. RoCE has no subnet administrator: the group's GID is its IP
/// address (IBA A17.4.5), and each node's IP stack handles membership. Groups of a fabric:
/// fabric_groups.cpp.
namespace verbatim::rdmacm {
namespace {

void describe(const Id& id, const Multicast& multicast, rdma_ud_param& parameters) {
  const auto own = manager().addresses().own(id.connection.plan.path.local);
  parameters.ah_attr.grh = {.dgid = multicast.group,
                            .flow_label = 0,
                            .sgid_index = own ? own->gid_index : std::uint8_t{0},
                            .hop_limit = id.connection.plan.path.hop_limit,
                            .traffic_class = id.options.traffic_class};
  parameters.ah_attr.is_global = 1;
  parameters.ah_attr.port_num = 1;
  parameters.qp_num = kMulticastQpn.value();
  parameters.qkey = RDMA_UDP_QKEY;
}

Result<void> join(Id& id, const sockaddr* address, std::uint32_t flags, void* context) {
  const auto name = name_from(address);
  if (!name) return std::unexpected(name.error());
  if (!id.is_datagram()) return refuse(EINVAL, "only datagram ids join multicast groups");
  if (id.verbs.verbs == nullptr) return refuse(EINVAL, "the id is not bound to a device yet");
  if (!name->address.is_multicast()) {
    return refuse(EINVAL, fmt::format("{} is no multicast address", name->address.ip_text()));
  }
  Manager& cm = manager();
  const auto broadcast =
      cm.is_infiniband() ? cm.broadcast_group(id.connection.plan.port) : ibv_sa_mcmember_rec{};
  const std::lock_guard guard(cm.lock);
  Multicast& multicast = id.multicasts.emplace_back();
  multicast.id = &id;
  multicast.context = context;
  std::memcpy(&multicast.address, address, length_of(address));
  multicast.join_flags = static_cast<std::uint8_t>(flags);
  if (cm.is_infiniband()) {
    auto joining = cm.join_group(multicast, name->address, broadcast);
    if (!joining) id.multicasts.pop_back();
    return joining;
  }
  multicast.group = to_verbs(gid_of(name->address));
  auto event = make_multicast_event(multicast, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
  describe(id, multicast, event->verbs.param.ud);
  cm.push(id, std::move(event));
  return {};
}

Result<void> leave(Id& id, const sockaddr* address) {
  const socklen_t length = length_of(address);
  if (length == 0) return refuse(EINVAL, "an address of no known family");
  std::list<Multicast> left;
  {
    const std::lock_guard guard(manager().lock);
    const auto found = std::ranges::find_if(id.multicasts, [&](const Multicast& multicast) {
      return std::memcmp(&multicast.address, address, length) == 0;
    });
    if (found == id.multicasts.end()) return refuse(EADDRNOTAVAIL, "the id is not in that group");
    manager().leave_group(*found);
    left.splice(left.begin(), id.multicasts, found);
    from(id.verbs.channel).events.remove_if([&](Event* event) {
      if (event->multicast != &left.front()) return false;
      delete event;
      return true;
    });
  }
  Multicast& multicast = left.front();
  if (id.verbs.qp != nullptr && multicast.join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER) {
    ibv_detach_mcast(id.verbs.qp, &multicast.group, multicast.lid);
  }
  multicast.events.wait_for_acknowledgements();
  return {};
}

int join_and_complete(const char* call, rdma_cm_id* id, const sockaddr* address,
                      std::uint32_t flags, void* context) {
  if (auto begun = join(from(id), address, flags, context); !begun) return answer(call, begun);
  return complete(from(id));
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) {
  return join_and_complete("rdma_join_multicast", id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* mc_join_attr, void* context) {
  const char* const call = "rdma_join_multicast_ex";
  const std::uint32_t mask = mc_join_attr->comp_mask;
  if (mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) {
    return answer(call, refuse(ENOTSUP, fmt::format("comp_mask {:#x} is unknown", mask)));
  }
  constexpr std::uint32_t kBoth = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (mask != kBoth || mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
    return answer(call, refuse(EINVAL, "needs an address and a known join flag"));
  }
  return join_and_complete(call, id, mc_join_attr->addr, mc_join_attr->join_flags, context);
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* addr) {
  return answer("rdma_leave_multicast", leave(from(id), addr));
}
