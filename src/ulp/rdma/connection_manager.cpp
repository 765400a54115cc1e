#include "ulp/rdma/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/assert.h"
#include "ulp/rdma/rdma_cm_id.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr int kResolveMs = 2000;

}  // namespace

ConnectionId connection_of(const ConnectionEvent& event) {
  return std::visit([](const auto& one) { return one.connection; }, event);
}

ConnectionManager::ConnectionManager(Device& device, Completions& completions,
                                     ibv_srq* shared_receives, const Options& options)
    : device_(device),
      completions_(completions),
      shared_receives_(shared_receives),
      options_(options) {}

Result<std::unique_ptr<ConnectionManager>> ConnectionManager::create(Device& device,
                                                                     Completions& completions,
                                                                     ibv_srq* shared_receives,
                                                                     const Options& options) {
  std::unique_ptr<ConnectionManager> manager(
      new ConnectionManager(device, completions, shared_receives, options));
  manager->channel_ = rdma_create_event_channel();
  if (manager->channel_ == nullptr) return refuse_errno("rdma_create_event_channel");
  const int fd = manager->channel_->fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return refuse_errno("fcntl");
  return manager;
}

ConnectionManager::~ConnectionManager() {
  for (Entry& entry : entries_) {
    if (entry.state != State::free) release(entry);
  }
  for (rdma_cm_id* const id : listeners_) {
    if (id != nullptr) rdma_destroy_id(id);
  }
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

Result<ListenerId> ConnectionManager::listen(const ServicePlace& where, int backlog) {
  const ListenerId listener{static_cast<std::uint32_t>(listeners_.size())};
  rdma_cm_id* id = nullptr;
  const auto space = static_cast<rdma_port_space>(port_space_of(where));
  if (rdma_create_id(channel_, &id, to_context(listener), space) != 0)
    return refuse_errno("rdma_create_id");
  const auto fail = [&](const std::string& what) {
    auto error = refuse_errno(fmt::format("{} at {}", what, text_of(where)));
    rdma_destroy_id(id);
    return error;
  };
  int only_own = 1;
  const auto* const ip = std::get_if<IpService>(&where);
  if (ip != nullptr && ip->only_own_family &&
      rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only_own, sizeof only_own) != 0)
    return fail("rdma_set_option");
  sockaddr_storage address = to_sockaddr(where);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) return fail("rdma_bind_addr");
  if (rdma_listen(id, backlog) != 0) return fail("rdma_listen");
  listeners_.push_back(id);
  return listener;
}

void ConnectionManager::unlisten(ListenerId listener) {
  if (rdma_cm_id* const id = std::exchange(listeners_.at(raw(listener)), nullptr))
    rdma_destroy_id(id);
}

std::uint16_t ConnectionManager::port_of(ListenerId listener) const {
  return ntohs(rdma_get_src_port(listeners_.at(raw(listener))));
}

const ConnectionManager::Entry* ConnectionManager::find(ConnectionId connection) const {
  if (number_of(connection) >= entries_.size()) return nullptr;
  const Entry& entry = entries_[number_of(connection)];
  if (entry.state == State::free || entry.uses != count_of(connection)) return nullptr;
  return &entry;
}

ConnectionManager::Entry* ConnectionManager::find(ConnectionId connection) {
  return const_cast<Entry*>(std::as_const(*this).find(connection));
}

/// Null if there are too many.
ConnectionManager::Entry* ConnectionManager::add(rdma_cm_id* id, State state) {
  if (count_ >= std::min(options_.connections_max, WorkId::kConnectionsMax)) return nullptr;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.emplace_back().number = free_.back();
  }
  Entry& entry = entries_[free_.back()];
  free_.pop_back();
  ++count_;
  entry.id = id;
  entry.state = state;
  if (id != nullptr) id->context = to_context(id_of(entry));
  return &entry;
}

Result<ConnectionId> ConnectionManager::connect(const ServicePlace& to,
                                                const ConnectOptions& options) {
  Entry* const entry = add(nullptr, State::resolving);
  if (entry == nullptr)
    return refuse(ENOSPC, fmt::format("{} connections are the most", options_.connections_max));
  entry->is_active = true;
  entry->options = std::make_unique<ConnectOptions>(options);
  if (auto begun = begin(*entry, to); !begun) {
    release(*entry);
    return std::unexpected(begun.error());
  }
  return id_of(*entry);
}

Result<void> ConnectionManager::begin(Entry& entry, const ServicePlace& to) {
  const auto space = static_cast<rdma_port_space>(port_space_of(to));
  if (rdma_create_id(channel_, &entry.id, to_context(id_of(entry)), space) != 0)
    return refuse_errno("rdma_create_id");
  sockaddr_storage from{};
  const SocketAddress& source = entry.options->source;
  const auto* const infiniband = std::get_if<InfinibandService>(&to);
  if (infiniband != nullptr && !source.empty()) {  // The GID of a port of this side.
    from = to_sockaddr(InfinibandService{.gid = {source.ipv6_bytes()}, .pkey = infiniband->pkey});
  } else if (!source.empty()) {
    std::memcpy(&from, source.data(), source.size());
  }
  sockaddr_storage address = to_sockaddr(to);
  if (rdma_resolve_addr(entry.id, source.empty() ? nullptr : reinterpret_cast<sockaddr*>(&from),
                        reinterpret_cast<sockaddr*>(&address), kResolveMs) == 0)
    return {};
  if (std::holds_alternative<InfinibandService>(to) && errno == EINVAL)
    return refuse(EPROTONOSUPPORT, fmt::format("rdma_cm of this system does not take {}: Linux's "
                                               "has no service ids beside those of ports",
                                               text_of(to)));
  return refuse_errno(fmt::format("rdma_resolve_addr of {}", text_of(to)));
}

QueueSizes ConnectionManager::granted(const QueueSizes& wanted) const {
  const Limits& has = device_.limits();
  QueueSizes sizes = wanted;
  sizes.sends = std::clamp(wanted.sends, 1u, std::max(has.send_depth, 2u) - 1);
  // A chain of work requests has room for so many slices.
  sizes.send_slices = std::clamp(wanted.send_slices, 1u, std::clamp(has.slices, 1u, 64u));
  sizes.inline_bytes = std::min(wanted.inline_bytes, has.inline_bytes);
  return sizes;
}

/// One request more than the engine's: that which ends them.
Result<void> ConnectionManager::make_queue_pair(Entry& entry) {
  const std::uint32_t requests = entry.sizes.sends + 1;
  if (auto room = completions_.reserve(requests); !room) return room;
  entry.reserved = requests;
  ibv_qp_init_attr wanted{.send_cq = completions_.queue(),
                          .recv_cq = completions_.queue(),
                          .srq = shared_receives_,
                          .cap = {.max_send_wr = requests,
                                  .max_send_sge = entry.sizes.send_slices,
                                  .max_inline_data = entry.sizes.inline_bytes},
                          .qp_type = IBV_QPT_RC};
  if (rdma_create_qp(entry.id, device_.domain(), &wanted) != 0) {
    return refuse_errno(fmt::format("rdma_create_qp with {} sends of {} slices", requests,
                                    entry.sizes.send_slices));
  }
  return {};
}

Result<void> ConnectionManager::accept(ConnectionId connection, const QueueSizes& sizes,
                                       ByteSpan private_data) {
  Entry* const entry = find(connection);
  if (entry == nullptr || entry->state != State::requested)
    return refuse(ENOTCONN, "the peer's request is over");
  const Limits& has = device_.limits();
  entry->sizes = granted(sizes);
  entry->reads = {.initiator = std::min(
                      {entry->reads.initiator, sizes.reads_in_flight, has.reads_as_initiator}),
                  .responder = std::min(entry->reads.responder, has.reads_as_responder)};
  rdma_conn_param parameters{.private_data = private_data.data(),
                             .private_data_len = static_cast<std::uint8_t>(private_data.size()),
                             .responder_resources = entry->reads.responder,
                             .initiator_depth = entry->reads.initiator,
                             .flow_control = 1,
                             .rnr_retry_count = 7};
  auto made = make_queue_pair(*entry);
  if (made && rdma_accept(entry->id, &parameters) != 0) made = refuse_errno("rdma_accept");
  if (!made) {
    rdma_reject(entry->id, nullptr, 0);
    end(*entry, Disconnected{connection, {}});
    return made;
  }
  entry->state = State::accepting;
  entry->deadline = kNever;
  return {};
}

void ConnectionManager::reject(ConnectionId connection, ByteSpan private_data) {
  Entry* const entry = find(connection);
  if (entry == nullptr || entry->state != State::requested) return;
  rdma_reject(entry->id, private_data.data(), static_cast<std::uint8_t>(private_data.size()));
  end(*entry, Disconnected{connection, {}});
}

void ConnectionManager::disconnect(ConnectionId connection, TimeNs now) {
  Entry* const entry = find(connection);
  if (entry == nullptr) return;
  switch (entry->state) {
    case State::free:
    case State::ending:
    case State::ended:
      return;
    case State::requested:
      return reject(connection, {});
    case State::resolving:
    case State::routing:
    case State::connecting:
      return end(*entry, Disconnected{connection, {}});
    case State::accepting:
    case State::established:
      if (rdma_disconnect(entry->id) != 0) {
        stop_queue_pair(entry->id);
        return end(*entry, Disconnected{connection, {}});
      }
      entry->state = State::ending;
      set_deadline(*entry, now + options_.end_patience);
  }
}

void ConnectionManager::release(ConnectionId connection) {
  Entry* const entry = find(connection);
  if (entry == nullptr) return;
  VERBATIM_ASSERT(entry->state == State::ended);
  release(*entry);
}

void ConnectionManager::release(Entry& entry) {
  if (entry.id != nullptr) {
    if (entry.id->qp != nullptr) rdma_destroy_qp(entry.id);
    rdma_destroy_id(entry.id);
  }
  completions_.release(entry.reserved);
  const auto uses = static_cast<std::uint8_t>(entry.uses + 1);
  entry = {.number = entry.number, .uses = uses};
  free_.push_back(entry.number);
  --count_;
}

ibv_qp* ConnectionManager::queue_pair(ConnectionId connection) const {
  const Entry* const entry = find(connection);
  return entry == nullptr || entry->id == nullptr ? nullptr : entry->id->qp;
}

const QueueSizes& ConnectionManager::sizes(ConnectionId connection) const {
  const Entry* const entry = find(connection);
  VERBATIM_ASSERT(entry != nullptr);
  return entry->sizes;
}

}  // namespace verbatim::ulp::rdma
