#include <algorithm>

#include <sys/mman.h>

#include "adapter/memory/adoption.h"
#include "adapter/progress/progress.h"
#include "adapter/services/stream/stream_start.h"
#include "agent/client/locks.h"
#include "base/assert.h"
#include "dropin/ibverbs/fabric/fabric_services.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"
#include "dropin/ibverbs/services.h"
#include "dropin/ibverbs/with_program.h"

/// Access to this process's adapter and agent for the connection manager.
namespace verbatim::dropin {
namespace {

void store(const SocketAddress& from, sockaddr_storage& to) {
  to = {};
  std::copy_n(reinterpret_cast<const std::byte*>(from.data()), from.size(),
              reinterpret_cast<std::byte*>(&to));
}

SocketAddress load(const sockaddr* from) {
  return SocketAddress::from(from, sizeof(sockaddr_storage)).value_or(SocketAddress());
}
SocketAddress load(const sockaddr_storage& from) {
  return load(reinterpret_cast<const sockaddr*>(&from));
}

VerbatimNode describe(const arena::Node& node, std::uint32_t slot) {
  static_assert(std::size(VerbatimNode{}.gids) >= arena::kNodeGidsMax);
  static_assert(arena::kInfinibandPortsMax <= 2);  // A host has one GID at each.
  VerbatimNode out{};
  out.guid = node.guid;
  out.slot = slot;
  out.interface_index = node.interface_index;
  node.interface.view().copy(out.interface, sizeof out.interface - 1);
  out.active_mtu = raw(arena::active_mtu(node));
  const bool uses_frames = node.connection_version() == RoceVersion::v1;
  out.is_iwarp = node.is_iwarp();
  out.is_infiniband = node.is_infiniband();
  out.pkey = raw(arena::first_pkey(node.network.infiniband.front()));
  out.version = out.is_infiniband ? IBV_GID_TYPE_IB
                : uses_frames     ? IBV_GID_TYPE_ROCE_V1
                                  : IBV_GID_TYPE_ROCE_V2;
  for (const arena::GidEntry& entry : node.gids) {
    VerbatimGid& gid = out.gids[out.gid_count++];
    gid.port = 1;
    gid.gid = to_verbs(out.is_iwarp ? rnic_gid(node.mac) : entry.gid);
    const SocketAddress& address = entry.address;
    const bool is_for_connections = roce_version(address) == node.connection_version();
    store(is_for_connections ? address.with_port(0) : SocketAddress(), gid.address);
  }
  for (std::size_t i = 1; i < node.network.infiniband.size(); ++i) {
    const Gid gid = arena::gid_of(node.network.infiniband[i]);
    out.gids[out.gid_count++] = {
        .gid = to_verbs(gid), .address = {}, .port = static_cast<std::uint8_t>(i + 1)};
  }
  return out;
}

/// As `VerbatimPortChange`.
std::uint32_t valid_gids(const arena::Node& node) {
  std::uint32_t bits = gids_in_use(node);
  for (std::size_t i = 1; i < node.network.infiniband.size(); ++i)
    bits |= 1u << (node.gids.size() + i - 1);
  return bits;
}

int join(VerbatimNode* out) {
  return with_program("join_node", [&](Program& program) -> Result<void> {
    *out = describe(program.client->node(), program.client->slot());
    return open_management(program);
  });
}

int take_lock(const char* name) {
  const auto locks = agent::name_locks();
  if (!locks) return -refused("rdma_cm", locks.error());
  auto taken = locks->take(name, NameLocks::Kind::exclusive);
  if (taken) return taken->release();
  return taken.error().code == EWOULDBLOCK ? -EWOULDBLOCK : -refused("rdma_cm", taken.error());
}

void set_events(const VerbatimEvents* events) {
  const auto own = program();
  if (!own) return;
  const std::uint32_t slot = (*own)->client->slot();
  (*own)->client->set_events(
      {.on_mad =
           [events](const agent::ReceivedMad& mad) {
             const arena::FlatPath source = arena::flat_path_of(mad.source);
             sockaddr_storage destination;
             store(mad.destination, destination);
             events->on_mad(&source, reinterpret_cast<const sockaddr*>(&destination),
                            mad.bytes.data());
           },
       .on_port_changed =
           [events, slot](const auto& before, const auto& now) {
             const VerbatimNode node = describe(now, slot);
             const arena::NetworkState& network = now.network;
             const VerbatimPortChange change{
                 .node = &node,
                 .gids = valid_gids(now),
                 .is_removed = before.is_present && !network.is_present,
                 .has_new_hardware_address =
                     network.is_present && before.hardware_address != network.hardware_address};
             events->on_port_changed(&change);
           }});
}

int watch(int fd, std::uint32_t events, void (*on_ready)(std::uint64_t tag), std::uint64_t tag) {
  return with_program("rdma_cm", [&](Program& program) {
    return program.adapter->progress().watch(fd, [=] { on_ready(tag); }, events);
  });
}

void unwatch(int fd) {
  if (const auto own = program()) (*own)->adapter->progress().unwatch(fd);
}

int start_stream(std::uint32_t qpn, int fd, const VerbatimStream* stream) {
  return with_program("rdma_cm", [&](Program& program) {
    return program.adapter->start_stream(
        Qpn(qpn),
        {.socket = UniqueFd(fd),
         .agreement = {.sends_markers = stream->sends_markers,
                       .receives_markers = stream->receives_markers,
                       .has_crc = stream->has_crc,
                       .inbound_reads = stream->inbound_reads,
                       .outbound_reads = stream->outbound_reads,
                       .ready = static_cast<cm::MpaParameters::RtrMessage>(stream->ready)},
         .is_initiator = stream->is_initiator});
  });
}

void end_stream(std::uint32_t qpn) {
  if (const auto own = program()) (*own)->adapter->end_stream(Qpn(qpn));
}

void drain_stream(std::uint32_t qpn) {
  if (const auto own = program()) (*own)->adapter->drain_stream(Qpn(qpn));
}

int send_mad(const sockaddr* source, const arena::FlatPath* destination, const void* mad) {
  return with_program("rdma_cm", [&](Program& program) -> Result<void> {
    const std::span<const std::byte, agent::kMadBytes> bytes(static_cast<const std::byte*>(mad),
                                                             agent::kMadBytes);
    const auto path = arena::path_of(*destination);
    if (!path) return std::unexpected(path.error());
    if (program.management) {
      const auto* const infiniband = std::get_if<InfinibandPath>(&*path);
      if (infiniband == nullptr) return refuse(ENETUNREACH, "no way over InfiniBand");
      return program.management->send_cm(*infiniband, bytes);
    }
    return program.adapter->send_management(load(source), address_of(*path), bytes);
  });
}

int bind_port(const VerbatimPortBinding* wanted, std::uint16_t* port) {
  return with_program("rdma_bind_addr", [&](Program& program) -> Result<void> {
    const auto bound = program.client->bindings().bind(
        {.handle = wanted->handle,
         .port_space = static_cast<agent::PortSpace>(wanted->port_space),
         .services = {.mask = wanted->service_mask, .id = wanted->service},
         .address = load(wanted->address),
         .reuses_address = wanted->reuses_address,
         .own_family_only = wanted->own_family_only});
    if (!bound) return std::unexpected(bound.error());
    *port = *bound;
    return {};
  });
}

int listen_port(std::uint64_t handle) {
  return with_program("rdma_listen",
                      [&](Program& program) { return program.client->bindings().listen(handle); });
}

void release_port(std::uint64_t handle) {
  if (const auto own = program()) (*own)->client->bindings().release(handle);
}

/// Returns the index of the address in the agent's list; the agent sends from it.
std::uint8_t address_index(const arena::Node& node, const SocketAddress& address) {
  const auto found = std::ranges::find_if(
      node.addresses, [&](const SocketAddress& own) { return same_ip(own, address); });
  return static_cast<std::uint8_t>(found - node.addresses.begin());
}

/// The path to the peer, over the RoCE version of the node's connections.
arena::FlatPath roce_record(const Program& program, const VerbatimConnection& connection) {
  const auto path = arena::path_of(connection.remote);
  const SocketAddress remote = path ? address_of(*path) : SocketAddress();
  return arena::flat_path_of(
      roce_path(config::of_version(remote, program.client->node().connection_version())));
}

int set_connection(std::uint32_t entry, const VerbatimConnection* connection) {
  using adapter::ConnectionRecord;
  return with_program("rdma_cm", [&](Program& program) -> Result<void> {
    const auto found = program.adapter->connection_record(entry);
    if (!found) return std::unexpected(found.error());
    ConnectionRecord& record = **found;
    record.state.store(ConnectionRecord::kNone, std::memory_order_release);
    if (connection == nullptr) return {};
    record.has_sent_reply = connection->has_sent_reply;
    record.address = address_index(program.client->node(), load(connection->local));
    record.local_id = connection->local_id;
    record.remote_id = connection->remote_id;
    record.remote_qpn = connection->remote_qpn;
    record.path = program.management ? connection->remote : roce_record(program, *connection);
    record.state.store(
        connection->is_established ? ConnectionRecord::kEstablished : ConnectionRecord::kConnecting,
        std::memory_order_release);
    return {};
  });
}

region::MemoryFile* memory_file() {
  const auto own = program();
  adapter::Adoption* const adoption = own ? (*own)->adapter->memory().adoption() : nullptr;
  return adoption == nullptr ? nullptr : &adoption->memory();
}

void* take_pages(std::size_t bytes) {
  if (region::MemoryFile* const file = memory_file()) {
    const auto given = file->give(bytes);
    if (given) return reinterpret_cast<void*>(given->begin);  // NOLINT(performance-no-int-to-ptr)
  }
  void* const plain =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return plain == MAP_FAILED ? nullptr : plain;
}

void give_pages_back(void* pages, std::size_t bytes) {
  region::MemoryFile* const file = memory_file();
  if (file == nullptr || !file->take_back(reinterpret_cast<std::uint64_t>(pages))) {
    munmap(pages, bytes);
  }
}

constexpr VerbatimServices kServices{.connections_max = adapter::kConnectionsMax,
                                     .join = join,
                                     .take_lock = take_lock,
                                     .set_events = set_events,
                                     .watch = watch,
                                     .unwatch = unwatch,
                                     .send_mad = send_mad,
                                     .find_path = find_path,
                                     .find_gid = find_gid,
                                     .find_interface = find_interface,
                                     .find_group = find_group,
                                     .join_group = join_group,
                                     .leave_group = leave_group,
                                     .bind_port = bind_port,
                                     .listen_port = listen_port,
                                     .release_port = release_port,
                                     .set_connection = set_connection,
                                     .start_stream = start_stream,
                                     .end_stream = end_stream,
                                     .drain_stream = drain_stream,
                                     .take_pages = take_pages,
                                     .give_pages_back = give_pages_back};

}  // namespace
}  // namespace verbatim::dropin

const VerbatimServices* verbatim_services(std::uint32_t version) {
  using namespace verbatim::dropin;
  return version == kServicesVersion ? &kServices : nullptr;
}
