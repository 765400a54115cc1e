#include <algorithm>
#include <utility>

#include "dropin/rdmacm/calls.h"

/// Queue pairs of ids: creation, state changes with the connection's attributes, destruction.
namespace verbatim::rdmacm {
namespace {

std::uint8_t gid_index(const Id& id) {
  const auto own = manager().addresses().own(id.connection.plan.path.local);
  return own ? own->gid_index : std::uint8_t{0};
}

Result<void> modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
  const int error = ibv_modify_qp(qp, &attributes, mask);
  if (error == 0) return {};
  return refuse(error, fmt::format("queue pair {:#x} cannot go to state {}", qp->qp_num,
                                   static_cast<int>(attributes.qp_state)));
}

Result<void> move(Id& id, ibv_qp* qp, std::initializer_list<ibv_qp_state> states) {
  for (const ibv_qp_state state : states) {
    ibv_qp_attr attributes{};
    const auto mask = attributes_for(id, state, attributes);
    if (!mask) return std::unexpected(mask.error());
    if (auto modified = modify(qp, attributes, *mask); !modified) return modified;
  }
  return {};
}

// Creates completion queues that the program has not given.

void destroy_queues(rdma_cm_id& id) {
  if (id.qp_type == IBV_QPT_XRC_RECV && id.srq != nullptr) return;  // The SRQ has one.
  if (id.recv_cq != nullptr) {
    ibv_destroy_cq(id.recv_cq);
    if (id.send_cq != nullptr && id.send_cq != id.recv_cq) ibv_destroy_cq(id.send_cq);
    id.send_cq = id.recv_cq = nullptr;
  } else if (ibv_cq* const queue = std::exchange(id.send_cq, nullptr)) {
    ibv_destroy_cq(queue);
  }
  const bool shared = id.send_cq_channel == id.recv_cq_channel;
  if (auto* const channel = std::exchange(id.recv_cq_channel, nullptr)) {
    ibv_destroy_comp_channel(channel);
  }
  if (auto* const channel = std::exchange(id.send_cq_channel, nullptr);
      channel != nullptr && !shared) {
    ibv_destroy_comp_channel(channel);
  }
}

Result<void> create_queue(rdma_cm_id& id, std::uint32_t entries, ibv_comp_channel*& channel,
                          ibv_cq*& queue) {
  if (entries == 0) return {};
  channel = ibv_create_comp_channel(id.verbs);
  if (channel != nullptr) {
    queue = ibv_create_cq(id.verbs, static_cast<int>(entries), &id, channel, 0);
  }
  if (queue != nullptr) return {};
  const int error = errno;
  destroy_queues(id);
  return refuse(error, fmt::format("no completion queue of {} entries", entries));
}

Result<void> create_queues(rdma_cm_id& id, std::uint32_t send_entries,
                           std::uint32_t receive_entries) {
  if (auto made = create_queue(id, receive_entries, id.recv_cq_channel, id.recv_cq); !made) {
    return made;
  }
  return create_queue(id, send_entries, id.send_cq_channel, id.send_cq);
}

Result<void> choose_domain(const rdma_cm_id& id, ibv_qp_init_attr_ex& attributes) {
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes.pd == nullptr) {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes.pd = id.pd;
  } else if (id.verbs != attributes.pd->context) {
    return refuse(EINVAL, "the protection domain is of another context");
  }
  if (id.qp_type != IBV_QPT_XRC_RECV) return {};
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attributes.xrcd != nullptr) return {};
  const auto domain = manager().domain_of_xrc();
  if (!domain) return std::unexpected(domain.error());
  attributes.xrcd = *domain;
  attributes.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  return {};
}

Result<void> choose_queues(rdma_cm_id& id, ibv_qp_init_attr_ex& attributes) {
  const auto conflict = [](const ibv_cq* own, const ibv_cq* given) {
    return own != nullptr && given != nullptr && own != given;
  };
  if (conflict(id.recv_cq, attributes.recv_cq) || conflict(id.send_cq, attributes.send_cq)) {
    return refuse(EINVAL, "the id has other completion queues already");
  }
  const bool has_send = attributes.send_cq != nullptr || id.send_cq != nullptr;
  const bool has_receive = attributes.recv_cq != nullptr || id.recv_cq != nullptr;
  auto made = create_queues(id, has_send ? 0 : attributes.cap.max_send_wr,
                            has_receive ? 0 : attributes.cap.max_recv_wr);
  if (!made) return made;
  if (attributes.send_cq == nullptr) attributes.send_cq = id.send_cq;
  if (attributes.recv_cq == nullptr) attributes.recv_cq = id.recv_cq;
  if (id.srq != nullptr && attributes.srq == nullptr) attributes.srq = id.srq;
  return {};
}

const char* name_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    default:
      return "other";
  }
}

const char* name_of(rdma_port_space space) {
  switch (space) {
    case RDMA_PS_IPOIB:
      return "RDMA_PS_IPOIB";
    case RDMA_PS_TCP:
      return "RDMA_PS_TCP";
    case RDMA_PS_UDP:
      return "RDMA_PS_UDP";
    default:
      return "rdma_create_ep";
  }
}

/// Datagrams of IP over InfiniBand have the Q_Key of their partition's broadcast group. Waits for
/// the subnet administrator.
void choose_qkey(Id& id) {
  if (id.verbs.ps != RDMA_PS_IPOIB || !manager().is_infiniband()) return;
  id.connection.plan.qkey = QKey{be32toh(manager().broadcast_group(id.connection.plan.port).qkey)};
}

Result<void> create_queue_pair(Id& id, ibv_qp_init_attr_ex& attributes) {
  rdma_cm_id& verbs = id.verbs;
  if (verbs.qp != nullptr) return refuse(EINVAL, "the id has a queue pair already");
  if (verbs.verbs == nullptr) {
    return refuse(EINVAL, "the id is not bound to a device yet: resolve or bind its address");
  }
  if (attributes.qp_type != verbs.qp_type) {
    return refuse(EINVAL, fmt::format("the id is for {} queue pairs, as {} says, not for {}",
                                      name_of(verbs.qp_type), name_of(verbs.ps),
                                      name_of(attributes.qp_type)));
  }
  if (auto chosen = choose_domain(verbs, attributes); !chosen) return chosen;
  if (auto chosen = choose_queues(verbs, attributes); !chosen) return chosen;
  ibv_qp* const qp = ibv_create_qp_ex(verbs.verbs, &attributes);
  if (qp == nullptr) {
    const int error = errno;
    destroy_queues(verbs);
    return refuse(error, "the queue pair cannot be made");
  }
  choose_qkey(id);
  const auto moved = id.is_datagram() ? move(id, qp, {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
                                      : move(id, qp, {IBV_QPS_INIT});
  if (!moved) {
    ibv_destroy_qp(qp);
    destroy_queues(verbs);
    return moved;
  }
  verbs.pd = attributes.pd;  // An XRC target itself has none; objects created for it use this one.
  verbs.qp = qp;
  return {};
}

Result<void> create_shared_queue(Id& id, ibv_srq_init_attr_ex& attributes) {
  rdma_cm_id& verbs = id.verbs;
  if ((attributes.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0) {
    return refuse(EINVAL, "the shared receive queue's type is not given");
  }
  if (verbs.verbs == nullptr) return refuse(EINVAL, "the id is not bound to a device yet");
  if ((attributes.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes.pd == nullptr) {
    attributes.pd = verbs.pd;
    attributes.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  if (attributes.srq_type == IBV_SRQT_XRC) {
    if ((attributes.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attributes.xrcd == nullptr) {
      const auto domain = manager().domain_of_xrc();
      if (!domain) return std::unexpected(domain.error());
      attributes.xrcd = *domain;
    }
    if ((attributes.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attributes.cq == nullptr) {
      if (auto made = create_queues(verbs, 0, attributes.attr.max_wr); !made) return made;
      attributes.cq = verbs.recv_cq;
    }
    attributes.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  }
  ibv_srq* const srq = ibv_create_srq_ex(verbs.verbs, &attributes);
  if (srq == nullptr) {
    const int error = errno;
    destroy_queues(verbs);
    return refuse(error, "the shared receive queue cannot be made");
  }
  if (verbs.pd == nullptr) verbs.pd = attributes.pd;
  verbs.srq = srq;
  return {};
}

}  // namespace

Result<int> attributes_for(Id& id, ibv_qp_state state, ibv_qp_attr& attributes) {
  const ibv_qp_type type = id.is_datagram() ? IBV_QPT_UD : id.type();
  auto mask = connect::attributes_for(id.connection.plan, type, gid_index(id), state, attributes);
  if (!mask || state != IBV_QPS_INIT) return mask;
  const auto pkey_index = manager().pkey_index(id.pkey, id.connection.plan.port);
  if (!pkey_index) return std::unexpected(pkey_index.error());
  attributes.pkey_index = *pkey_index;
  return mask;
}

Result<void> make_ready(Id& id) {
  if (id.verbs.qp == nullptr) return {};
  if (manager().connections().uses_streams()) return move(id, id.verbs.qp, {IBV_QPS_INIT});
  return move(id, id.verbs.qp, {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS});
}

Result<void> stop_queue_pair(Id& id) {
  if (id.verbs.qp == nullptr) return {};
  ibv_qp_attr attributes{.qp_state = IBV_QPS_ERR};
  return modify(id.verbs.qp, attributes, IBV_QP_STATE);
}

}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attr) {
  return answer("rdma_create_qp", create_queue_pair(from(id), *attr));
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  ibv_qp_init_attr_ex attributes{};
  std::memcpy(&attributes, qp_init_attr, sizeof *qp_init_attr);
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = pd != nullptr ? pd : id->pd;
  const int result = rdma_create_qp_ex(id, &attributes);
  std::memcpy(qp_init_attr, &attributes, sizeof *qp_init_attr);
  return result;
}

void rdma_destroy_qp(rdma_cm_id* id) {
  ibv_qp* qp = nullptr;
  {
    // A thread in rdma_get_cm_event may be moving it.
    const std::lock_guard guard(manager().lock);
    qp = std::exchange(id->qp, nullptr);
  }
  ibv_destroy_qp(qp);
  destroy_queues(*id);
}

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attr) {
  return answer("rdma_create_srq", create_shared_queue(from(id), *attr));
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex attributes{};
  std::memcpy(&attributes, attr, sizeof *attr);
  attributes.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attributes.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  attributes.pd = pd;
  const int result = rdma_create_srq_ex(id, &attributes);
  std::memcpy(attr, &attributes, sizeof *attr);
  return result;
}

void rdma_destroy_srq(rdma_cm_id* id) {
  ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  destroy_queues(*id);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* qp_attr, int* qp_attr_mask) {
  Manager& cm = manager();
  if (qp_attr->qp_state == IBV_QPS_INIT) choose_qkey(from(id));
  const std::lock_guard guard(cm.lock);
  const auto mask = attributes_for(from(id), qp_attr->qp_state, *qp_attr);
  if (!mask) return dropin::refused_minus_one("rdma_init_qp_attr", mask.error());
  *qp_attr_mask = *mask;
  return 0;
}
