#include <algorithm>

#include <sys/socket.h>

#include "agent/server.h"

/// Management datagrams of the node: the communication manager's (IBA chapter 12) go to the program
/// that they are for; what is for no program is answered here.
namespace verbatim::agent {
namespace {

using wire::CmAbout;
using wire::CommunicationId;
using wire::RejectReason;

/// A program's communication ids begin with its slot, as its queue pair numbers do.
constexpr unsigned kLocalIdBits = 22;
constexpr std::uint32_t slot_of(CommunicationId id) { return raw(id) >> kLocalIdBits; }

/// To whom a message is addressed: the id that its receiver gave out, or the service that a first
/// message asks for.
struct Addressee {
  CommunicationId id{};
  wire::ServiceId service{};
  bool is_first = false;
};

template <typename Message>
Addressee addressee(const Message& message) {
  return {.id = message.remote_id};
}
Addressee addressee(const wire::CmReq& message) {
  return {.service = message.service_id, .is_first = true};
}
Addressee addressee(const wire::CmSidrReq& message) {
  return {.service = message.service_id, .is_first = true};
}
Addressee addressee(const wire::CmSidrRep& message) { return {.id = message.request_id}; }

std::optional<wire::CmMessage> answer_to(const wire::CmReq& request) {
  return wire::CmRej{.remote_id = request.local_id,
                     .rejected = CmAbout::req,
                     .reason = RejectReason::invalid_service_id};
}
std::optional<wire::CmMessage> answer_to(const wire::CmRep& reply) {
  return wire::CmRej{.local_id = reply.remote_id,
                     .remote_id = reply.local_id,
                     .rejected = CmAbout::rep,
                     .reason = RejectReason::invalid_communication_id};
}
std::optional<wire::CmMessage> answer_to(const wire::CmDreq& request) {
  return wire::CmDrep{.local_id = request.remote_id, .remote_id = request.local_id};
}
std::optional<wire::CmMessage> answer_to(const wire::CmSidrReq& request) {
  return wire::CmSidrRep{.request_id = request.request_id,
                         .status = wire::SidrStatus::service_not_supported,
                         .service_id = request.service_id};
}
template <typename Message>
std::optional<wire::CmMessage> answer_to(const Message&) {
  return std::nullopt;
}

}  // namespace

Result<void> Server::open_management_port() {
  auto port = ManagementPort::create(slots_->node(), slots_->sockets(0));
  if (!port) return std::unexpected(port.error());
  management_.emplace(std::move(*port));
  for (const int fd : management_->fds()) {
    if (auto watched = watch(fd); !watched) return watched;
  }
  return {};
}

Server::Connection* Server::manager_in(std::uint32_t slot) {
  const auto found = connection_of_slot_.find(slot);
  if (found == connection_of_slot_.end()) return nullptr;
  Connection& connection = connections_.at(found->second);
  return connection.bindings >= 0 ? &connection : nullptr;
}

void Server::on_mad(std::uint32_t address, const SocketAddress& source, wire::MadSpan mad) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) return;
  const Addressee to = std::visit([](const auto& m) { return addressee(m); }, decoded->message);
  Connection* program = nullptr;
  if (to.is_first) {
    const auto service = port_of_service(to.service);
    const auto& own = slots_->node().addresses[address];
    const auto found = service ? ports_.find(service->first, service->second, own) : std::nullopt;
    if (found) program = manager_in(static_cast<std::uint32_t>(found->program));
  } else {
    program = manager_in(slot_of(to.id));
  }
  if (program != nullptr) return pass_on(*program, address, source, mad);
  if (const auto* reply = std::get_if<wire::CmDrep>(&decoded->message)) {
    farewells_.on_reply(*reply);
  }
  answer_for_nobody(address, source, *decoded);
}

void Server::pass_on(Connection& program, std::uint32_t address, const SocketAddress& source,
                     wire::MadSpan mad) {
  MadMessage message;
  message.address = address;
  message.source = to_record(source);
  std::ranges::copy(mad, message.bytes.begin());
  // A program that does not read misses it, as a card whose receive queue is full: the CM repeats.
  if (!send(program.fd.get(), message, {}, MSG_DONTWAIT)) ++mads_dropped_;
}

void Server::answer_for_nobody(std::uint32_t address, const SocketAddress& source,
                               const wire::CmMad& request) {
  auto answer = std::visit([](const auto& m) { return answer_to(m); }, request.message);
  if (answer) send_mad(address, source, {request.transaction, *std::move(answer)});
}

void Server::send_mad(std::uint32_t address, const SocketAddress& destination,
                      const wire::CmMad& mad) {
  std::array<std::byte, wire::kMadBytes> bytes{};
  wire::encode(mad, bytes);
  management_->send(address, destination, bytes);
}

void Server::say_farewells() {
  if (!management_) return;
  farewells_.say_due(monotonic_now(), [this](const Farewells::Farewell& farewell) {
    send_mad(farewell.address, farewell.destination, farewell.mad);
  });
}

}  // namespace verbatim::agent
