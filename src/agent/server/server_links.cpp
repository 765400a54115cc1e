#include <algorithm>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/server/server.h"
#include "base/log.h"
#include "link/decorators/fault_plan.h"

/// What programs do with the packets of their links: `verbatim capture` and `verbatim fault`. The
/// agent tells all programs, hands the rings that they offer to who captures, and sees no packet.
namespace verbatim::agent {

Result<void> Server::on_capture_request(Connection& connection, const Incoming& incoming) {
  const auto request = incoming.as<CaptureRequest>();
  if (!request) return std::unexpected(request.error());
  if (auto wanted = become_wanted(request->wanted); !wanted) return wanted;
  if (connection.is_surplus) return std::unexpected(out_of_descriptors());
  if (slots_->node().protocol == WireProtocol::iwarp) {
    return refuse(EOPNOTSUPP,
                  fmt::format("node '{}' speaks iWARP, whose packets are the kernel's TCP: capture "
                              "them with 'tcpdump -i {}' or Wireshark",
                              options_.node, slots_->node().interface));
  }
  if (capturer_ >= 0) {
    return refuse(EBUSY, fmt::format("node '{}' is being captured already, by process {}",
                                     options_.node, connections_.at(capturer_).pid));
  }
  CaptureStarted answer;
  answer.programs = static_cast<std::uint32_t>(connection_of_slot_.size());
  if (auto sent = send(connection.fd.get(), answer, {}, MSG_DONTWAIT); !sent) return sent;
  capturer_ = connection.fd.get();
  links_.capture = monotonic_now();  // Never that of an earlier agent.
  ++link_change_;
  announce_links();
  return {};
}

void Server::end_capture() {
  capturer_ = -1;
  links_.capture = 0;
  ++link_change_;
  announce_links();
}

void Server::announce_links() {
  links_are_announced_ = true;
  for (auto& [fd, connection] : connections_) {
    if (!connection.program || connection.announced_links == link_change_) continue;
    LinkOrder message;
    message.links = links_for(connection);
    if (send(fd, message, {}, MSG_DONTWAIT)) {
      connection.announced_links = link_change_;
    } else {
      links_are_announced_ = false;
    }
  }
}

/// Faults that are off end those of programs that ran then. Later ones have what they begin with.
LinkOrders Server::links_for(const Connection& program) const {
  LinkOrders links = links_;
  const auto plan = link::FaultPlan::parse(get_text(links.faults));
  const bool is_later = program.joined_links >= fault_change_;
  if (is_later && plan && plan->is_off()) links.faults = {};
  return links;
}

Result<void> Server::on_capture_offer(Connection& connection, Incoming& incoming) {
  const auto offer = incoming.as<CaptureOffer>();
  if (!offer) return std::unexpected(offer.error());
  if (!connection.program || incoming.descriptors.size() > 1) {
    return refuse(EPROTO, "a malformed offer of captured packets");
  }
  if (capturer_ < 0 || offer->capture != links_.capture) return {};  // It has ended meanwhile.
  std::vector<int> ring;
  for (const UniqueFd& fd : incoming.descriptors) ring.push_back(fd.get());
  if (!tell_capturer(connection, ring, get_text(offer->failure))) {
    // Who captures is busy with the packets that it has: the program offers its ring again.
    connection.announced_links = 0;
    links_are_announced_ = false;
  }
  return {};
}

Result<void> Server::on_capture_sync(const Connection& connection, const Incoming& incoming) {
  if (auto request = incoming.as<CaptureSync>(); !request) return std::unexpected(request.error());
  const int fd = connection.fd.get();
  if (fd != capturer_) return refuse(EPROTO, "a sync without a capture");
  std::vector<int> programs;
  for (const auto& [slot, program] : connection_of_slot_) programs.push_back(program);
  for (const int program : programs) hear_out(program);
  return send(fd, CaptureSynced{}, {}, MSG_DONTWAIT);
}

/// What has come over a connection, up to as much as lies in a socket.
void Server::hear_out(int fd) {
  constexpr int kMessagesMax = 64;
  for (int i = 0; i < kMessagesMax && connections_.contains(fd); ++i) {
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 0) != 1) return;
    on_message(fd);
  }
}

Result<void> Server::tell_capturer(const Connection& program, std::span<const int> ring,
                                   std::string_view failure) {
  CapturedProgramMessage message;
  message.pid = program.pid;
  message.slot = program.program->slot;
  put_text(message.name, program.program->name);
  message.is_direct = program.is_direct ? 1 : 0;
  put_text(message.failure, failure);
  return send(capturer_, message, ring, MSG_DONTWAIT);
}

/// A peer got the program's files: between the two there are no packets from now on. But some ask
/// for other reasons, and a program that keeps to the wire has no memory file.
void Server::note_direct(Connection& program) {
  struct stat memory{};
  if (program.is_direct || fstat(program.program->files[1].get(), &memory) != 0) return;
  program.is_direct = memory.st_size > 0;
  if (!program.is_direct || capturer_ < 0) return;
  if (const auto told = tell_capturer(program, {}, {}); !told) {
    log(LogLevel::debug, "who captures is not told of the direct path: {}", told.error().text);
  }
}

Result<void> Server::on_fault_request(Connection& connection, const Incoming& incoming) {
  const auto request = incoming.as<FaultRequest>();
  if (!request) return std::unexpected(request.error());
  if (slots_->node().protocol == WireProtocol::iwarp) {
    return refuse(EOPNOTSUPP, fmt::format("node '{}' speaks iWARP, over the kernel's TCP, which "
                                          "hides faults: use 'tc qdisc ... netem' for its delay",
                                          options_.node));
  }
  if (slots_->node().is_infiniband()) {
    if (const auto plan = link::FaultPlan::parse(get_text(request->faults))) {
      if (auto checked = plan->check_for_infiniband(); !checked) return checked;
    }
  }
  if (request->faults[0] != '\0') {
    put_text(links_.faults, get_text(request->faults));
    fault_change_ = ++link_change_;
    announce_links();
  }
  NodeFaultsMessage answer;
  answer.faults = links_.faults;
  answer.programs = static_cast<std::uint32_t>(connection_of_slot_.size());
  return send(connection.fd.get(), answer, {}, MSG_DONTWAIT);
}

/// Of the agent before, which the first program that rejoins still knows. A capture ended with it.
void Server::adopt_faults(const FaultText& faults) {
  if (links_.faults[0] == '\0' && faults[0] != '\0') {
    put_text(links_.faults, get_text(faults));
    fault_change_ = ++link_change_;
  }
  announce_links();
}

}  // namespace verbatim::agent
