#include <cstring>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"

/// Options of ids (man rdma_set_option), ECE, and queries.
namespace verbatim::rdmacm {
namespace {

template <typename T>
Result<T> value_of(const void* value, std::size_t length) {
  if (value == nullptr || length != sizeof(T)) {
    return refuse(EINVAL, fmt::format("an option of {} bytes, not {}", sizeof(T), length));
  }
  T result;
  std::memcpy(&result, value, sizeof result);
  return result;
}

Result<void> set_traffic_class(Id& id, const void* value, std::size_t length) {
  const auto wanted = value_of<std::uint8_t>(value, length);
  if (!wanted) return std::unexpected(wanted.error());
  id.options.traffic_class = *wanted;
  id.connection.plan.path.traffic_class = *wanted;
  return {};
}

Result<void> set_reuse(Id& id, const void* value, std::size_t length) {
  const auto wanted = value_of<int>(value, length);
  if (!wanted) return std::unexpected(wanted.error());
  if (id.state != IdState::idle) return refuse(EINVAL, "REUSEADDR is set before binding");
  id.options.reuses_address = *wanted != 0;
  return {};
}

Result<void> set_own_family_only(Id& id, const void* value, std::size_t length) {
  const auto wanted = value_of<int>(value, length);
  if (!wanted) return std::unexpected(wanted.error());
  if (id.state != IdState::idle) return refuse(EINVAL, "AFONLY is set before binding");
  id.options.own_family_only = *wanted != 0;
  return {};
}

Result<void> set_ack_timeout(Id& id, const void* value, std::size_t length) {
  const auto wanted = value_of<std::uint8_t>(value, length);
  if (!wanted) return std::unexpected(wanted.error());
  constexpr std::uint8_t kLargest = 31;
  if (*wanted > kLargest) return refuse(EINVAL, "an ACK timeout has 5 bits");
  if (id.is_datagram()) return refuse(EINVAL, "datagrams have no ACK timeout");
  id.options.ack_timeout = *wanted;
  id.connection.plan.path.ack_timeout = *wanted;
  // A RoCE path is as long as its time-out says; InfiniBand's is the subnet administrator's.
  if (*wanted > 0 && !manager().is_infiniband()) id.packet_life_time = *wanted - 1;
  return {};
}

/// Path records that the program provides. A RoCE route follows from the address alone, so they are
/// accepted if they agree with it, and replace rdma_resolve_route.
Result<void> set_path(Id& id, const void* value, std::size_t length) {
  if (value == nullptr || length < sizeof(ibv_path_data) || length % sizeof(ibv_path_data) != 0) {
    return refuse(EINVAL, "not a list of path records");
  }
  if (id.state != IdState::address_resolved) {
    return refuse(EINVAL, "a path is set once the address is resolved");
  }
  if (manager().is_infiniband()) {
    return refuse(EOPNOTSUPP, "a fabric's paths come from its subnet administrator");
  }
  ibv_path_data data;
  std::memcpy(&data, value, sizeof data);
  if (to_gid(data.path.dgid) != id.connection.plan.path.remote_gid) {
    return refuse(EINVAL, "the path leads to another GID than the id's");
  }
  id.connection.plan.path.traffic_class = data.path.tclass;
  if (auto shown = show_path(id); !shown) return shown;
  id.state = IdState::route_resolved;
  manager().push(id, make_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
  return {};
}

Result<void> set_option(Id& id, int level, int name, const void* value, std::size_t length) {
  const std::lock_guard guard(manager().lock);
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) return set_path(id, value, length);
  if (level == RDMA_OPTION_ID) {
    switch (name) {
      case RDMA_OPTION_ID_TOS:
        return set_traffic_class(id, value, length);
      case RDMA_OPTION_ID_REUSEADDR:
        return set_reuse(id, value, length);
      case RDMA_OPTION_ID_AFONLY:
        return set_own_family_only(id, value, length);
      case RDMA_OPTION_ID_ACK_TIMEOUT:
        return set_ack_timeout(id, value, length);
      default:
        break;
    }
  }
  return refuse(ENOSYS, fmt::format("option {} of level {} is unknown", name, level));
}

}  // namespace
}  // namespace verbatim::rdmacm

using namespace verbatim;
using namespace verbatim::rdmacm;

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval, std::size_t optlen) {
  return answer("rdma_set_option", set_option(from(id), level, optname, optval, optlen));
}

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id->qp != nullptr || ece == nullptr || ece->vendor_id == 0 || ece->options == 0) {
    return answer("rdma_set_local_ece",
                  refuse(EINVAL, "needs vendor and options, before the queue pair is made"));
  }
  return answer("rdma_set_local_ece",
                refuse(EOPNOTSUPP, "the adapter has no enhanced connection options"));
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id->qp != nullptr || ece == nullptr) {
    return answer("rdma_get_remote_ece", refuse(EINVAL, "asked before the queue pair is made"));
  }
  *ece = {};  // No vendor: there are no options.
  return 0;
}

const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr const char* kNames[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",     "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",    "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST",   "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",     "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",          "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",      "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",    "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",       "RDMA_CM_EVENT_TIMEWAIT_EXIT",
      "RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR"};
  const auto index = static_cast<std::size_t>(event);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN EVENT";
}

ibv_context** rdma_get_devices(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  const auto cm = Manager::get();
  if (!cm) return dropin::refused_null("rdma_get_devices", cm.error());
  const auto context = (*cm)->device();
  if (!context) return dropin::refused_null("rdma_get_devices", context.error());
  auto** const list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
  if (list == nullptr) return nullptr;
  list[0] = *context;
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}

void rdma_free_devices(ibv_context** list) { std::free(list); }
