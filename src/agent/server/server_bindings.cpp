#include <sys/socket.h>
#include <unistd.h>

#include "agent/server/server.h"

/// rdma_cm ports and InfiniBand services, which programs request over a separate socket pair.
namespace verbatim::agent {
namespace {

constexpr int kDatagramBytes = 4 << 20;

/// May bind ports below 1024, for which the kernel requires CAP_NET_BIND_SERVICE.
bool is_privileged() { return geteuid() == 0; }

PortBinding binding_of(const BindingRequest& request) {
  return {.handle = request.handle,
          .port_space = request.port_space,
          .services = ServiceRange::of(ServiceId{request.services.id}, request.services.mask),
          .address = from_record(request.address),
          .reuses_address = request.reuses_address != 0,
          .own_family_only = request.own_family_only != 0,
          .listens = request.listens != 0};
}

bool is_sequential_socket(int fd) {
  int type = 0, domain = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET &&
         getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

}  // namespace

Result<void> Server::on_open_bindings(Connection& connection, Incoming& incoming) {
  if (auto request = incoming.as<OpenBindings>(); !request) {
    return std::unexpected(request.error());
  }
  if (!connection.program || incoming.descriptors.size() != 1 ||
      !is_sequential_socket(incoming.descriptors[0].get())) {
    return refuse(EPROTO, "a malformed opening of bindings");
  }
  // Many datagrams may be sent to it from now on. Whatever buffer the kernel grants is enough.
  const int fd = connection.fd.get();
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kDatagramBytes, sizeof kDatagramBytes) != 0) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kDatagramBytes, sizeof kDatagramBytes);
  }
  if (connection.bindings >= 0) close_connection(connection.bindings);
  Connection opened{.fd = std::move(incoming.descriptors[0]), .pid = connection.pid};
  opened.bindings_of = connection.fd.get();
  if (auto watched = watch(opened.fd.get()); !watched) return watched;
  connection.bindings = opened.fd.get();
  connections_.emplace(connection.bindings, std::move(opened));
  return {};
}

Result<void> Server::on_binding_request(Connection& connection, const Incoming& incoming) {
  const auto request = incoming.as<BindingRequest>();
  if (!request) return std::unexpected(request.error());
  const auto owner = connections_.find(connection.bindings_of);
  if (owner == connections_.end() || !owner->second.program) {
    return refuse(EPROTO, "a binding without a program");
  }
  const auto program = static_cast<PortTable::ProgramId>(owner->second.program->slot);
  const PortBinding binding = binding_of(*request);
  BindingAnswer answer;
  switch (request->operation) {
    case BindingOperation::bind: {
      const auto port = ports_.bind(program, binding, is_privileged());
      if (!port) return std::unexpected(port.error());
      answer.port = *port;
      break;
    }
    case BindingOperation::listen:
      if (auto listening = ports_.listen(program, binding.handle); !listening) return listening;
      break;
    case BindingOperation::release:
      if (const auto gone = ports_.release(program, binding.handle); gone && gone->listens) {
        early_requests_.on_listener_gone(gone->all_services(), monotonic_now());
      }
      break;
    case BindingOperation::restore:
      ports_.restore(program, binding);
      break;
    default:
      return refuse(EPROTO, "an unknown operation on a binding");
  }
  return send(connection.fd.get(), answer, {}, MSG_DONTWAIT);
}

}  // namespace verbatim::agent
