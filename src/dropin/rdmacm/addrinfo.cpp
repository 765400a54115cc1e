#include <cstdlib>
#include <cstring>

#include <infiniband/ib.h>
#include <netdb.h>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Resolves names and services with the C library, by the hints of rdma_addrinfo.
namespace verbatim::rdmacm {
namespace {

// rdma-core 65.
constexpr int kFromSubnetAdministrator = 0x10;
constexpr int kFromNames = 0x20;

addrinfo to_hints(const rdma_addrinfo& wanted) {
  addrinfo hints{};
  if ((wanted.ai_flags & RAI_PASSIVE) != 0) hints.ai_flags |= AI_PASSIVE;
  if ((wanted.ai_flags & RAI_NUMERICHOST) != 0) hints.ai_flags |= AI_NUMERICHOST;
  if (wanted.ai_family != AF_IB) hints.ai_family = wanted.ai_family;
  const bool datagrams = wanted.ai_qp_type == IBV_QPT_UD;
  if (wanted.ai_qp_type != 0) hints.ai_socktype = datagrams ? SOCK_DGRAM : SOCK_STREAM;
  switch (wanted.ai_port_space) {
    case RDMA_PS_TCP:
      hints.ai_protocol = IPPROTO_TCP;
      break;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      hints.ai_protocol = IPPROTO_UDP;
      break;
    case RDMA_PS_IB:
      if (hints.ai_socktype != 0) hints.ai_protocol = datagrams ? IPPROTO_UDP : IPPROTO_TCP;
      break;
    default:
      break;
  }
  return hints;
}

/// Copies to the C heap; programs free it with rdma_freeaddrinfo.
sockaddr* copy(const void* address, socklen_t length) {
  auto* const own = static_cast<sockaddr*>(std::malloc(length));
  if (own != nullptr) std::memcpy(own, address, length);
  return own;
}

/// Converts an IPv6 address to AF_IB, as the same GID.
sockaddr_ib to_ib(const sockaddr* address, int port_space) {
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  ib.sib_pkey = htobe16(0xffff);
  const auto ip = SocketAddress::from(address, sizeof(sockaddr_in6)).value_or(SocketAddress());
  const Gid gid = connect::is_wildcard(ip) ? Gid{} : gid_of(ip);
  std::copy(gid.bytes.begin(), gid.bytes.end(), ib.sib_addr.sib_raw);
  ib.sib_scope_id = ip.scope_id();
  ib.sib_sid = htobe64(static_cast<std::uint64_t>(port_space) << 16 | ip.port());
  std::uint64_t mask = port_space != 0 ? RDMA_IB_IP_PS_MASK : 0;
  if (ip.port() != 0) mask |= RDMA_IB_IP_PORT_MASK;
  ib.sib_sid_mask = htobe64(mask);
  return ib;
}

void put_address(rdma_addrinfo& to, bool passive, const void* address, socklen_t length) {
  (passive ? to.ai_src_addr : to.ai_dst_addr) = copy(address, length);
  (passive ? to.ai_src_len : to.ai_dst_len) = length;
}

/// Returns the resolver's first answer.
int look_up(const char* node, const char* service, const rdma_addrinfo* wanted,
            rdma_addrinfo& out) {
  const addrinfo hints = wanted != nullptr ? to_hints(*wanted) : addrinfo{};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(node, service, wanted != nullptr ? &hints : nullptr, &found);
  if (error != 0) return error;
  const int flags = wanted != nullptr ? wanted->ai_flags : 0;
  out.ai_qp_type = wanted != nullptr && wanted->ai_qp_type != 0 ? wanted->ai_qp_type
                   : found->ai_socktype == SOCK_DGRAM           ? IBV_QPT_UD
                                                                : IBV_QPT_RC;
  out.ai_port_space = wanted != nullptr && wanted->ai_port_space != 0 ? wanted->ai_port_space
                      : found->ai_protocol == IPPROTO_UDP             ? RDMA_PS_UDP
                                                                      : RDMA_PS_TCP;
  const bool passive = (flags & RAI_PASSIVE) != 0;
  if (passive) out.ai_flags = RAI_PASSIVE;
  if (found->ai_canonname != nullptr) {
    (passive ? out.ai_src_canonname : out.ai_dst_canonname) = strdup(found->ai_canonname);
  }
  const int as_ib = RAI_FAMILY | RAI_NUMERICHOST;
  if ((flags & as_ib) == as_ib && wanted->ai_family == AF_IB) {
    const sockaddr_ib ib = to_ib(found->ai_addr, out.ai_port_space);
    out.ai_family = AF_IB;
    put_address(out, passive, &ib, sizeof ib);
  } else {
    out.ai_family = found->ai_family;
    put_address(out, passive, found->ai_addr, found->ai_addrlen);
  }
  freeaddrinfo(found);
  return 0;
}

/// Neither node nor service is given: the result is the hints.
void copy_hints(const rdma_addrinfo& hints, rdma_addrinfo& out) {
  out.ai_flags = hints.ai_flags;
  out.ai_family = hints.ai_family;
  out.ai_qp_type = hints.ai_qp_type;
  out.ai_port_space = hints.ai_port_space;
  if (hints.ai_dst_len != 0) put_address(out, false, hints.ai_dst_addr, hints.ai_dst_len);
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** res) {
  const char* const call = "rdma_getaddrinfo";
  if (node == nullptr && service == nullptr && hints == nullptr) {
    return answer(call, refuse(EINVAL, "neither node, service nor hints"));
  }
  if (hints != nullptr && (hints->ai_flags & kFromSubnetAdministrator) != 0) {
    return answer(call, refuse(EOPNOTSUPP, "RoCE has no subnet administrator to ask (RAI_SA)"));
  }
  auto* const made = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (made == nullptr) return answer(call, refuse(ENOMEM, "no memory"));
  if (node != nullptr || service != nullptr) {
    if (const int error = look_up(node, service, hints, *made)) {
      rdma_freeaddrinfo(made);
      return error;  // A value of getaddrinfo.
    }
  } else {
    copy_hints(*hints, *made);
  }
  if (made->ai_src_len == 0 && hints != nullptr && hints->ai_src_len != 0) {
    put_address(*made, true, hints->ai_src_addr, hints->ai_src_len);
  }
  *res = made;
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res != nullptr) {
    rdma_addrinfo* const next = res->ai_next;
    std::free(res->ai_connect);
    std::free(res->ai_route);
    std::free(res->ai_src_canonname);
    std::free(res->ai_dst_canonname);
    std::free(res->ai_src_addr);
    std::free(res->ai_dst_addr);
    std::free(res);
    res = next;
  }
}

int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                          const rdma_addrinfo* hints) {
  const char* const call = "rdma_resolve_addrinfo";
  if (id == nullptr) return answer(call, refuse(EINVAL, "no id"));
  constexpr int kBoth = kFromSubnetAdministrator | kFromNames;
  if (hints != nullptr && (hints->ai_flags & kBoth) == kBoth) {
    return answer(call, refuse(EOPNOTSUPP, "RAI_SA and RAI_DNS exclude each other"));
  }
  Id& own = from(id);
  Manager& cm = manager();
  {
    const std::lock_guard guard(cm.lock);
    if (own.is_resolving_addresses) return answer(call, refuse(EBUSY, "an answer waits already"));
    own.is_resolving_addresses = true;
  }
  rdma_addrinfo* found = nullptr;
  const int error = rdma_getaddrinfo(node, service, hints, &found);
  {
    const std::lock_guard guard(cm.lock);
    if (error != 0) {
      own.is_resolving_addresses = false;
      return error < 0 ? -1 : answer(call, refuse(error, "the name is not found"));
    }
    own.resolved_addresses = found;
    cm.push(own, make_event(own, kAddrinfoResolved, 0));
  }
  return complete(own);
}

int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) {
  if (id == nullptr || info == nullptr) {
    return answer("rdma_query_addrinfo", refuse(EINVAL, "no id, or nowhere to put the answer"));
  }
  Id& own = from(id);
  const std::lock_guard guard(manager().lock);
  if (own.resolved_addresses == nullptr) {
    return answer("rdma_query_addrinfo", refuse(ENOENT, "nothing was resolved"));
  }
  *info = std::exchange(own.resolved_addresses, nullptr);
  own.is_resolving_addresses = false;
  return 0;
}
