#include "ulp/rdma/rdma_cm_id.h"

#include <cstring>

#include <fmt/format.h>

#include "base/overloaded.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uintptr_t kConnection = std::uintptr_t{1} << 32;

void* as_context(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

SocketAddress address_of(const sockaddr* address) {
  const socklen_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return SocketAddress::from(address, length).value_or(SocketAddress{});
}

Gid gid_from(const ibv_gid& from) {
  Gid gid;
  std::memcpy(gid.bytes.data(), from.raw, sizeof from.raw);
  return gid;
}

}  // namespace

void* to_context(ListenerId listener) { return as_context(raw(listener)); }
void* to_context(ConnectionId connection) { return as_context(kConnection | raw(connection)); }

std::variant<ListenerId, ConnectionId> from_context(const rdma_cm_id& id) {
  const auto value = reinterpret_cast<std::uintptr_t>(id.context);
  const auto number = static_cast<std::uint32_t>(value);
  if ((value & kConnection) != 0) return ConnectionId{number};
  return ListenerId{number};
}

PrivateData private_data_of(const rdma_cm_event& event) {
  const auto* const data = static_cast<const std::byte*>(event.param.conn.private_data);
  return to_private_data({data, data == nullptr ? 0u : event.param.conn.private_data_len});
}

ReadDepths reads_of(const rdma_cm_event& event) {
  return {.initiator = event.param.conn.initiator_depth,
          .responder = event.param.conn.responder_resources};
}

Meeting meeting_of(const rdma_cm_event& event, bool is_iwarp) {
  const rdma_addr& addresses = event.id->route.addr;
  Meeting meeting{.peer = address_of(&addresses.dst_addr),
                  .own = address_of(&addresses.src_addr),
                  .reads = reads_of(event),
                  .retry_count = event.param.conn.retry_count,
                  .rnr_retry_count = event.param.conn.rnr_retry_count,
                  .is_iwarp = is_iwarp,
                  .private_data = private_data_of(event)};
  if (is_iwarp) return meeting;
  meeting.peer_gid = gid_from(addresses.addr.ibaddr.dgid);
  meeting.own_gid = gid_from(addresses.addr.ibaddr.sgid);
  return meeting;
}

void stop_queue_pair(rdma_cm_id* id) {
  if (id == nullptr || id->qp == nullptr) return;
  ibv_qp_attr to{.qp_state = IBV_QPS_ERR};
  ibv_modify_qp(id->qp, &to, IBV_QP_STATE);
}

std::string text_of(const ServicePlace& place) {
  return std::visit(Overloaded{[](const IpService& ip) { return ip.address.text(); },
                               [](const InfinibandService& to) {
                                 return fmt::format("service {:#018x} of {}", to.service,
                                                    gid_text(to.gid));
                               }},
                    place);
}

}  // namespace verbatim::ulp::rdma
