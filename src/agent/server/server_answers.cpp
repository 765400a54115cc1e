#include <algorithm>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/server/server.h"

/// The agent's answers to requests.
namespace verbatim::agent {
namespace {

std::string joined(std::span<const SocketAddress> addresses) {
  std::string list;
  for (const auto& address : addresses) {
    list += list.empty() ? "" : ", ";
    list += address.ip_text();
  }
  return list;
}

/// Takes a program's shared files, which are the last of the message's descriptors.
Result<std::vector<UniqueFd>> take_files(std::span<UniqueFd> descriptors) {
  constexpr std::size_t kAll = 3;
  if (descriptors.size() > 1 && descriptors.size() != kAll) {
    return refuse(EPROTO, fmt::format("{} shared files: there are none, the arena, or {}",
                                      descriptors.size(), kAll));
  }
  std::vector<UniqueFd> files;
  for (UniqueFd& fd : descriptors) {
    struct stat info{};
    const bool is_doorbell = files.size() == kAll - 1;  // An eventfd has no file type in stat.
    if (fstat(fd.get(), &info) != 0 || (!is_doorbell && !S_ISREG(info.st_mode))) {
      return refuse(EINVAL, "arena or memory is no file");
    }
    files.push_back(std::move(fd));
  }
  return files;
}

Result<UniqueFd> memfd_with(const std::string& text) {
  UniqueFd fd(memfd_create("verbatim-status", MFD_CLOEXEC));
  if (!fd) return refuse_errno("memfd_create");
  std::size_t done = 0;
  while (done < text.size()) {
    const auto length = write(fd.get(), text.data() + done, text.size() - done);
    if (length <= 0) return refuse_errno("cannot write the status");
    done += static_cast<std::size_t>(length);
  }
  return fd;
}

}  // namespace

void Server::serve(Connection& connection, Incoming incoming) {
  const int fd = connection.fd.get();
  if (connection.is_surplus) spares_.let_go();  // It gets the node's description, and is no member.
  const auto answered = answer(connection, incoming);
  spares_.fill(signals_.get());
  if (stopping_) return;  // It gives way: the end of the connection is the answer.
  if (!answered) {
    const bool is_full = answered.error().code == EMFILE || answered.error().code == ENFILE;
    refuse_with(fd, is_full ? out_of_descriptors() : answered.error());
  }
  const auto still = connections_.find(fd);
  if (still == connections_.end()) return;
  if (still->second.program) return leave_room(still->second);
  if (still->second.is_surplus) close_connection(fd);
}

Result<void> Server::answer(Connection& connection, Incoming& incoming) {
  switch (incoming.type()) {
    case MessageType::hello:
      return on_hello(connection, incoming);
    case MessageType::rejoin:
      return on_rejoin(connection, incoming);
    case MessageType::description_request:
      return on_description_request(connection, incoming);
    case MessageType::status_request: {
      if (auto request = incoming.as<StatusRequest>(); !request) {
        return std::unexpected(request.error());
      }
      return on_status_request(connection);
    }
    case MessageType::peer_request:
      return on_peer_request(connection, incoming);
    case MessageType::open_bindings:
      return on_open_bindings(connection, incoming);
    case MessageType::binding_request:
      return on_binding_request(connection, incoming);
    case MessageType::capture_request:
      return on_capture_request(connection, incoming);
    case MessageType::capture_offer:
      return on_capture_offer(connection, incoming);
    case MessageType::capture_sync:
      return on_capture_sync(connection, incoming);
    case MessageType::fault_request:
      return on_fault_request(connection, incoming);
    case MessageType::give_way:
      return on_give_way(connection);
    default:
      return refuse(EPROTO, fmt::format("not a request: type {:#x}", raw(incoming.type())));
  }
}

Result<void> Server::check_addresses(const WantedNode& wanted) const {
  if (wanted.address_count > kAddressesMax) return refuse(EPROTO, "too many addresses");
  std::vector<SocketAddress> addresses;
  for (std::uint32_t i = 0; i < wanted.address_count; ++i) {
    addresses.push_back(from_record(wanted.addresses[i]));
  }
  const auto& own = slots_->node().addresses;
  const bool all_own = std::ranges::all_of(addresses, [&](const SocketAddress& address) {
    return std::ranges::any_of(own, [&](const SocketAddress& a) {
      return same_ip(a, address) || (address.scope_id() == 0 && a.is_link_local() &&
                                     a.ipv6_bytes() == address.ipv6_bytes());
    });
  });
  if (all_own) return {};
  return refuse(EEXIST, fmt::format("node '{}' runs already, with the address {} (asked for: {})",
                                    options_.node, joined(own), joined(addresses)));
}

Result<void> Server::check_versions(const WantedNode& wanted) const {
  if (wanted.version_count > config::kRoceVersionsMax)
    return refuse(EPROTO, "too many RoCE versions");
  const RoceVersions versions(wanted.versions.begin(),
                              wanted.versions.begin() + wanted.version_count);
  const RoceVersions own = versions_of(slots_->node().addresses);
  if (versions.empty() || versions == own) return {};
  return refuse(EEXIST,
                fmt::format("node '{}' runs already, with RoCE {} (asked for: {})", options_.node,
                            config::text_of(own), config::text_of(versions)));
}

Result<void> Server::check_protocol(const WantedNode& wanted) const {
  const WireProtocol own = slots_->node().protocol;
  if (wanted.names_protocol == 0 || wanted.protocol == own) return {};
  return refuse(EEXIST, fmt::format("node '{}' runs already, with protocol {} (asked for: {})",
                                    options_.node, name_of(own), name_of(wanted.protocol)));
}

Result<void> Server::check_device(const WantedNode& wanted) const {
  const Node& node = slots_->node();
  const std::string device = get_text(wanted.device);
  const std::string name = config::device_name(
      device, {.node = node.name, .guid = node.guid, .protocol = node.protocol});
  if (!device.empty() && name != node.device) {
    return refuse(EEXIST, fmt::format("node '{}' runs already, with device {} (asked for: {})",
                                      node.name, node.device, name));
  }
  const std::string profile = get_text(wanted.profile);
  if (profile.empty() || profile == node.profile) return {};
  return refuse(EEXIST, fmt::format("node '{}' runs already, with profile {} (asked for: {})",
                                    node.name, node.profile, profile));
}

Result<void> Server::check_host(const WantedNode& wanted) const {
  const Node& node = slots_->node();
  const bool is_same =
      wanted.host.empty() || (wanted.host == node.host && wanted.fabric == node.fabric);
  if (is_same) return {};
  const auto place = [](const auto& fabric, const auto& host) {
    return host.empty() ? std::string("on no fabric")
                        : fmt::format("host '{}' of fabric '{}'", host, fabric);
  };
  return refuse(EEXIST,
                fmt::format("node '{}' runs already, {} (asked for: {})", node.name,
                            place(node.fabric, node.host), place(wanted.fabric, wanted.host)));
}

Result<void> Server::check_function(const WantedNode& wanted) const {
  const Node& node = slots_->node();
  if (wanted.function.empty() || wanted.function == node.function) return {};
  return refuse(EEXIST,
                fmt::format("node '{}' runs already, {} (asked for: function {})", node.name,
                            node.has_function() ? fmt::format("on function {}", node.function)
                                                : std::string("on no card's function"),
                            wanted.function));
}

/// Another node is one whose values differ, defaults included.
Result<void> Server::become_wanted(const WantedNode& wanted) {
  const bool is_wanted = wanted.configuration == configuration_ && configuration_ != 0;
  if (!is_wanted && may_give_way()) {
    stopping_ = true;
    return refuse(kClosed, "the next agent has the wanted node");
  }
  has_served_ = true;
  if (auto same = check_addresses(wanted); !same) return same;
  if (auto same = check_versions(wanted); !same) return same;
  if (auto same = check_protocol(wanted); !same) return same;
  if (auto same = check_device(wanted); !same) return same;
  if (auto same = check_function(wanted); !same) return same;
  return check_host(wanted);
}

Result<void> Server::on_give_way(const Connection& connection) {
  if (!may_give_way()) return refuse(EBUSY, fmt::format("node '{}' is in use", options_.node));
  stopping_ = true;
  return refuse(kClosed,
                fmt::format("node '{}' ends for process {}", options_.node, connection.pid));
}

Result<void> Server::on_description_request(Connection& connection, const Incoming& incoming) {
  const auto request = incoming.as<DescriptionRequest>();
  if (!request) return std::unexpected(request.error());
  if (request->is_of_any_node == 0) {
    if (auto wanted = become_wanted(request->wanted); !wanted) return wanted;
  }
  connection.keeps_node = request->keeps_node != 0;
  Description answer;
  answer.node = description();
  return send(connection.fd.get(), answer, {}, MSG_DONTWAIT);
}

Result<void> Server::on_hello(Connection& connection, Incoming& incoming) {
  const auto hello = incoming.as<Hello>();
  if (!hello) return std::unexpected(hello.error());
  if (connection.program) return refuse(EPROTO, "a second hello");
  if (auto wanted = become_wanted(hello->wanted); !wanted) return wanted;
  if (auto fitting = check_room_for_program(connection); !fitting) return fitting;
  Program program;
  program.since = std::time(nullptr);
  program.name = get_text(hello->program_name);
  auto files = take_files(incoming.descriptors);
  if (!files) return std::unexpected(files.error());
  program.files = std::move(*files);
  connection.room.reset();  // Used for the lock, until the program has that.
  auto lease = slots_->take();
  if (!lease) return std::unexpected(lease.error());
  program.slot = lease->slot;
  return welcome(connection, std::move(program), lease->lock);
}

Result<void> Server::welcome(Connection& connection, Program program, const UniqueFd& lock) {
  Welcome message;
  message.slot = program.slot;
  message.since_seconds = program.since;
  message.node = description();
  connection.joined_links = link_change_;
  message.links = links_for(connection);
  std::vector<int> descriptors{slots_->descriptor_store().in(), slots_->descriptor_store().out(),
                               lock.get()};
  for (const UniqueFd& socket : slots_->sockets(program.slot)) descriptors.push_back(socket.get());
  // From here on the slot is freed when the connection ends.
  connection.program = std::move(program);
  connection_of_slot_[message.slot] = connection.fd.get();
  connection.announced_port = port_;
  connection.announced_addresses = slots_->node().socket_count();
  connection.announced_links = link_change_;
  return send(connection.fd.get(), message, descriptors, MSG_DONTWAIT);
}

Result<void> Server::on_rejoin(Connection& connection, Incoming& incoming) {
  const auto rejoin = incoming.as<Rejoin>();
  if (!rejoin) return std::unexpected(rejoin.error());
  const std::size_t count = incoming.descriptors.size();
  if (connection.program || count < Rejoin::kFixedDescriptors) {
    return refuse(EPROTO, "a malformed rejoin");
  }
  Program program;
  program.slot = rejoin->slot;
  program.since = rejoin->since_seconds;
  program.name = get_text(rejoin->program_name);
  auto files = take_files(std::span(incoming.descriptors).subspan(Rejoin::kFixedDescriptors));
  if (!files) return std::unexpected(files.error());
  program.files = std::move(*files);
  const bool was_recovering = recovering();
  if (was_recovering) {
    if (auto recovered = recover(incoming); !recovered) return recovered;
  } else if (!slots_->descriptor_store().is(incoming.descriptors[0].get())) {
    return refuse(ESTALE, "the program belongs to an earlier life of this node");
  }
  if (rejoin->address_count > slots_->node().socket_count()) {
    return refuse(EPROTO, "the program has sockets of addresses that the node does not have");
  }
  auto retaken = slots_->retake(program.slot);
  if (retaken) {
    connection_of_slot_[program.slot] = connection.fd.get();
    connection.program = std::move(program);
    retaken = send(connection.fd.get(), Rejoined{}, {}, MSG_DONTWAIT);
    // What an earlier agent has told it.
    connection.announced_addresses = rejoin->address_count;
    if (retaken) retaken = announce_port(connection);
    adopt_faults(rejoin->faults);
  }
  if (was_recovering) serve_waiting();
  return retaken;
}

std::vector<ProgramEntry> Server::program_entries() const {
  std::vector<ProgramEntry> programs;
  for (const auto& [fd, other] : connections_) {
    if (!other.program) continue;
    programs.push_back(
        {.pid = other.pid,
         .name = other.program->name,
         .slot = other.program->slot,
         .since = other.program->since,
         .arena_fd = other.program->arena(),
         .bindings = ports_.of(static_cast<PortTable::ProgramId>(other.program->slot)),
         .datagrams_dropped = other.datagrams_dropped});
  }
  std::ranges::sort(programs, {}, &ProgramEntry::slot);
  return programs;
}

Result<void> Server::on_status_request(Connection& connection) {
  const std::string text = status_text(description(), program_entries(), faults_of_the_gone_);
  auto memory = memfd_with(text);
  if (!memory) return std::unexpected(memory.error());
  Status answer;
  answer.size = text.size();
  const int descriptor = memory->get();
  return send(connection.fd.get(), answer, std::span(&descriptor, 1), MSG_DONTWAIT);
}

/// For another program of this user, which will use the direct path.
Result<void> Server::on_peer_request(Connection& connection, const Incoming& incoming) {
  const auto request = incoming.as<PeerRequest>();
  if (!request) return std::unexpected(request.error());
  const auto owner = connection_of_slot_.find(request->slot);
  if (owner == connection_of_slot_.end()) {
    return refuse(ENOENT,
                  fmt::format("node '{}' has no program in slot {}", options_.node, request->slot));
  }
  Connection& program = connections_.at(owner->second);
  std::vector<int> files;
  for (const UniqueFd& fd : program.program->files) files.push_back(fd.get());
  if (files.size() != Peer::kDescriptors)
    return refuse(EOPNOTSUPP, "the program keeps to the wire");
  note_direct(program);
  return send(connection.fd.get(), Peer{}, files, MSG_DONTWAIT);
}

Node Server::description() const {
  Node node = slots_->node();
  node.agent_pid = getpid();  // The descriptor store tells that of the first.
  node.network = port_;
  return node;
}

}  // namespace verbatim::agent
