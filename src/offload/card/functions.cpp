// Functions that are rings of memory: who attaches to them, and goes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/log.h"
#include "offload/card/card.h"

namespace verbatim::offload {

bool Card::is_rings(std::size_t port) const {
  return port != 0 && std::ranges::find(options_.rings, port - 1) != options_.rings.end();
}

Result<void> Card::on_join(service::Client& client, const service::Incoming& message) {
  vnic_join join{};
  if (message.bytes.size() != sizeof join) return refuse(EPROTO, "a client says which function");
  std::memcpy(&join, message.bytes.data(), sizeof join);
  if (&client == driver_client_ || member_of(client) != nullptr) {
    return refuse(EBUSY, "one connection has one function");
  }
  if (join.function >= options_.functions) {
    return refuse(ENODEV, fmt::format("the card has no function vf{}: it has vf0 to vf{}",
                                      std::uint16_t{join.function}, options_.functions - 1));
  }
  RingFunction* const function = ports_[join.function + 1u].rings();
  if (function == nullptr) {
    return refuse(EOPNOTSUPP, fmt::format("function vf{0} is a network interface; a card has it "
                                          "as rings of memory with: verbatim nic up --rings vf{0}",
                                          std::uint16_t{join.function}));
  }
  auto member = function->join(client.channel().fd(), join);
  if (!member) return std::unexpected(member.error());
  vnic_joined answer{.region_bytes = sizeof(vnic_function_region), .mtu = VNIC_FUNCTION_MTU};
  std::ranges::copy(function->mac(), answer.mac);
  const int files[] = {(*member)->region_file(), doorbell_.get()};
  clients_->send(client, VNIC_JOINED, std::as_bytes(std::span(&answer, 1)), files);
  say_link(*function);
  wake();
  return {};
}

FunctionMember* Card::member_of(const service::Client& client, std::uint16_t* port) {
  const int socket = const_cast<service::Client&>(client).channel().fd();
  for (std::uint16_t p = 0; p < ports_.size(); ++p) {
    RingFunction* const rings = ports_[p].rings();
    FunctionMember* const member = rings == nullptr ? nullptr : rings->find(socket);
    if (member == nullptr) continue;
    if (port != nullptr) *port = p;
    return member;
  }
  return nullptr;
}

void Card::leave_function(const service::Client& client) {
  std::uint16_t port = 0;
  const FunctionMember* const member = member_of(client, &port);
  if (member == nullptr) return;
  take_last_frames(port, *member);
  RingFunction& function = *ports_[port].rings();
  function.leave(member->socket());
  say_link(function);
}

/// What a client has sent before it ended, such as its last acknowledgement, is sent: as a kernel
/// does. Other clients have their turns meanwhile.
void Card::take_last_frames(std::uint16_t port, const FunctionMember& member) {
  const std::size_t turns = VNIC_SLOTS * ports_[port].rings()->members().size();
  for (std::size_t taken = 0; member.has_work() && taken < turns;) {
    taken += std::max<std::size_t>(serve_port(port), 1);
  }
  wake();
}

/// The driver sees the link of a function's port.
void Card::say_link(const RingFunction& function) {
  if (driver_ == nullptr) return;
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    if (ports_[p].rings() != &function) continue;
    driver_->say_link(static_cast<std::uint16_t>(p), function.link_is_up());
  }
}

void Card::say_asleep_to_members(bool asleep) {
  for (Port& port : ports_) {
    if (RingFunction* const rings = port.rings()) rings->say_asleep(asleep);
  }
}

bool Card::members_have_work() {
  return std::ranges::any_of(ports_, [](Port& port) {
    const RingFunction* const rings = port.rings();
    return rings != nullptr && rings->has_work();
  });
}

void Card::publish_to_members() {
  for (Port& port : ports_) {
    if (RingFunction* const rings = port.rings()) rings->publish();
  }
}

void Card::wake_members() {
  for (Port& port : ports_) {
    if (RingFunction* const rings = port.rings()) rings->wake_members();
  }
}

/// Ends the connections of clients that have cut off memory which they gave to the card.
void Card::expel_cutters() {
  for (Port& port : ports_) {
    const RingFunction* const rings = port.rings();
    if (rings == nullptr) continue;
    for (const auto& member : rings->members()) {
      if (!member->was_cut()) continue;
      log(LogLevel::warn, "a client of {} has cut off memory that it gave to the card: expelled",
          rings->name());
      shutdown(member->socket(), SHUT_RDWR);
    }
  }
}

}  // namespace verbatim::offload
