#include "adapter/adapter.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include "adapter/progress/progress.h"
#include "adapter/services/stream.h"
#include "link/ethernet/neighbour.h"
#include "port/roce_link.h"

namespace verbatim::adapter {

Result<std::unique_ptr<Adapter>> Adapter::create(std::unique_ptr<Arena> arena,
                                                 Membership membership) {
  std::unique_ptr<Adapter> adapter(new Adapter(std::move(arena), std::move(membership)));
  for (const GidEntry& entry : adapter->node().gids.elements()) {
    if (auto linked = adapter->link_gid(entry); !linked) return std::unexpected(linked.error());
  }
  if (auto begun = adapter->begin_progress(); !begun) return std::unexpected(begun.error());
  if (auto served = adapter->serve_peers(); !served) return std::unexpected(served.error());
  return adapter;
}

Adapter::Adapter(std::unique_ptr<Arena> arena, Membership membership)
    : arena_(std::move(arena)),
      membership_(std::move(membership)),
      numbers_(membership_.first_qpn) {
  ArenaHeader& header = arena_->header();
  regions_ = std::make_unique<region::RegionTable>(
      header.region_header, std::span(arena_->at(header.regions), kRegionsMax));
}

Result<void> Adapter::begin_progress() {
  ArenaHeader& header = arena_->header();
  auto progress =
      Progress::create(numbers_, {.event_fd = membership_.event_fd,
                                  .on_event = membership_.on_event,
                                  .thread_begins = [&header] { header.liveness.begin(); },
                                  .busy_poll = membership_.busy_poll});
  if (!progress) return std::unexpected(progress.error());
  progress_ = std::move(*progress);
  delivery_.emplace(numbers_, groups_, *progress_, header.port_counters);
  packets_.emplace(*progress_, *delivery_, header.port_counters, node().interface_index);
  if (node().is_iwarp) return {};  // Nothing is said by datagrams there.
  for (const int fd : membership_.receive_sockets) {
    if (auto received = packets_->receive_from(fd); !received) return received;
  }
  progress_->add(*packets_);
  return {};
}

/// Programs without streams have no turns look for them.
Result<void> Adapter::begin_streams() {
  const std::lock_guard guard(lock_);
  if (streams_ != nullptr) return {};
  auto streams = StreamSource::create(*progress_, [this](Qpn qpn, TimeNs now, bool to_the_end) {
    if (QueuePair* const queue_pair = numbers_.find(qpn)) {
      queue_pair->on_stream(now, to_the_end);
    }
  });
  if (!streams) return std::unexpected(streams.error());
  streams_ = std::move(*streams);
  return {};
}

Adapter::~Adapter() = default;

void Adapter::before_fork() {
  if (membership_.memory) membership_.memory->before_fork();
}

void Adapter::in_parent_after_fork() {
  if (membership_.memory) membership_.memory->in_parent();
}

void Adapter::abandon_in_child() {
  if (membership_.memory) membership_.memory->in_child();
  progress_->abandon();
  arena_->abandon_in_child();
}

// Protection domains.

Result<PdNumber> Adapter::allocate_pd() {
  const std::lock_guard guard(lock_);
  if (pds_.size() >= Limits::protection_domains) {
    return refuse(ENOMEM, fmt::format("there are {} protection domains already", pds_.size()));
  }
  return add_pd({});
}

/// Under lock_.
PdNumber Adapter::add_pd(Pd pd) {
  do {
    ++last_pd_;
  } while (last_pd_ == 0 || pds_.contains(PdNumber{last_pd_}));
  pds_.emplace(PdNumber{last_pd_}, std::move(pd));
  return PdNumber{last_pd_};
}

bool Adapter::has_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  return pds_.contains(pd);
}

Result<void> Adapter::deallocate_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end()) return refuse(EINVAL, "no such protection domain");
  if (found->second.users > 0) {
    return refuse(EBUSY, fmt::format("{} regions, windows or queue pairs still use the protection "
                                     "domain",
                                     found->second.users));
  }
  pds_.erase(found);
  return {};
}

// Completion queues.

Result<std::unique_ptr<CompletionQueue>> Adapter::create_completion_queue(
    const CompletionQueueOptions& options) {
  return CompletionQueue::create(*arena_, options);
}

bool Adapter::await_completions(CompletionQueue& queue) {
  if (progress_->poll() && queue.lacks_entry()) queue.recover();
  return !queue.empty();
}

void Adapter::arm(CompletionQueue& queue, bool solicited_only) {
  queue.arm(solicited_only);
  progress_->serve_events();
}

// Queue pairs.

Result<void> Adapter::check_capacity(const QueuePairOptions& options) const {
  const QueuePairCapacity& want = options.capacity;
  const auto above = [](const char* what, std::uint32_t value,
                        std::uint32_t limit) -> Result<void> {
    if (value <= limit) return {};
    return refuse(EINVAL, fmt::format("{} {} is above {}", what, value, limit));
  };
  if (auto ok = above("max_send_wr", want.send_requests, Limits::requests); !ok) return ok;
  if (auto ok = above("max_recv_wr", want.receive_requests, Limits::requests); !ok) return ok;
  if (auto ok = above("max_send_sge", want.send_segments, Limits::segments); !ok) return ok;
  if (auto ok = above("max_recv_sge", want.receive_segments, Limits::segments); !ok) return ok;
  return above("max_inline_data", want.inline_bytes, Limits::inline_bytes);
}

std::uint32_t granted_receives(std::uint32_t wanted) {
  constexpr std::uint32_t kApart = 8;
  return std::min(std::bit_ceil(wanted + kApart), Limits::requests);
}

namespace {

/// What the program is told that it has: a ring has room for one at least. Cards put bytes where a
/// request's segments would be, so programs find room for a segment's 16 without asking for it.
QueuePairCapacity granted(const QueuePairCapacity& wanted, bool own_receives, bool sends) {
  constexpr std::uint32_t kSegmentBytes = 16;
  QueuePairCapacity capacity = wanted;
  capacity.send_segments = std::max(1u, wanted.send_segments);
  capacity.receive_requests = own_receives ? granted_receives(wanted.receive_requests) : 0;
  capacity.receive_segments = own_receives ? std::max(1u, wanted.receive_segments) : 0;
  if (!sends) return capacity;
  capacity.send_requests = std::max(1u, wanted.send_requests);
  capacity.inline_bytes = std::max(kSegmentBytes, wanted.inline_bytes);
  return capacity;
}

}  // namespace

Result<void> Adapter::check_parts(const QueuePairOptions& options) const {
  if (options.type == QpType::xrc_receive) {
    if (!xrc_domains_.contains(options.xrc_domain)) return refuse(EINVAL, "no such XRC domain");
    return {};
  }
  if (!pds_.contains(options.pd)) return refuse(EINVAL, "no such protection domain");
  const bool matches_tags =
      options.shared_receive != nullptr && options.shared_receive->matches_tags();
  if (matches_tags && options.type != QpType::rc) {
    return refuse(EOPNOTSUPP, "tag matching queues serve RC queue pairs");
  }
  return {};
}

Result<QueuePair*> Adapter::create_queue_pair(const QueuePairOptions& wanted) {
  if (auto ok = check_capacity(wanted); !ok) return std::unexpected(ok.error());
  const bool tags = wanted.shared_receive != nullptr && wanted.shared_receive->matches_tags();
  if (node().is_iwarp && (wanted.type != QpType::rc || tags)) {
    return refuse(EOPNOTSUPP, "iWARP has RC queue pairs alone, without tag matching");
  }
  QueuePairOptions options = wanted;
  const bool own_sends = options.finishes_rendezvous();
  const bool own_receives =
      options.shared_receive == nullptr && service_of(options.type) != wire::Service::xrc;
  options.capacity = granted(wanted.capacity, own_receives, !own_sends);
  const auto& capacity = options.capacity;
  SendQueue sends =
      own_sends ? SendQueue::for_rendezvous(options.memory)
                : SendQueue(capacity.send_requests, capacity.send_segments, capacity.inline_bytes,
                            options.type == QpType::ud, options.memory);
  const std::lock_guard guard(lock_);
  if (auto there = check_parts(options); !there) return std::unexpected(there.error());
  const auto is_imported = [this](PdNumber pd) { return pds_[pd].exporter != nullptr; };
  const SharedReceiveQueue* const shared = options.shared_receive;
  if (options.type != QpType::xrc_receive) {
    options.is_imported =
        is_imported(options.pd) || (shared != nullptr && is_imported(shared->options().pd));
  } else {
    options.xrc_file = xrc_domains_[options.xrc_domain].file;
  }
  const std::uint32_t number = numbers_.take_number();
  if (number == 0) {
    return refuse(ENOMEM, fmt::format("all {} queue pair numbers are in use", Limits::queue_pairs));
  }
  if (options.type == QpType::raw_packet) {
    if (auto opened = steering_.open(); !opened) return std::unexpected(opened.error());
  }
  std::unique_ptr<ReceiveQueue> receives;
  if (own_receives) {
    auto created = ReceiveQueue::create(*arena_, options.capacity.receive_requests,
                                        options.capacity.receive_segments);
    if (!created) return std::unexpected(created.error());
    receives = std::move(*created);
  }
  auto* queue_pair =
      new QueuePair(*this, options, numbers_.number(number), arena_->queue_pair(number),
                    arena_->target(number), std::move(sends), std::move(receives));
  ++users_of(options);
  numbers_.add(*queue_pair);
  return queue_pair;
}

/// Of what the queue pair belongs to: its XRC domain or its protection domain.
std::uint32_t& Adapter::users_of(const QueuePairOptions& options) {
  if (options.type == QpType::xrc_receive) return xrc_domains_[options.xrc_domain].users;
  return pds_[options.pd].users;
}

void Adapter::destroy_queue_pair(QueuePair* queue_pair) {
  queue_pair->transmit();  // Acknowledgements that wait for the program's next post or poll.
  std::optional<SendQueue> sends;  // Its memory may be the program's: it goes when no lock is held.
  const std::lock_guard guard(lock_);
  for (Group& group : groups_) {
    if (std::ranges::find(group.members, queue_pair) != group.members.end()) {
      leave(group, *queue_pair);
    }
  }
  drop_empty_groups();
  steering_.forget(*queue_pair);
  std::erase_if(frame_groups_, [queue_pair](const auto& joined) {
    return joined.first.first == queue_pair->number().value();
  });
  numbers_.remove(*queue_pair);
  progress_->forget(*queue_pair);
  regions_->unbind_all(queue_pair->number());
  --users_of(queue_pair->options());
  sends.emplace(std::move(queue_pair->send_queue_));
  delete queue_pair;
}

Result<void> Adapter::start_stream(Qpn qpn, StreamStart start) {
  if (auto begun = begin_streams(); !begun) return begun;
  QueuePair* queue_pair = nullptr;
  progress_->between_passes([&] { queue_pair = numbers_.find(qpn); });
  if (queue_pair == nullptr) {
    return refuse(EINVAL, fmt::format("there is no QP {:#x}", qpn.value()));
  }
  return queue_pair->start_stream(std::move(start));
}

void Adapter::drain_stream(Qpn qpn) {
  progress_->between_passes([&] {
    if (QueuePair* const queue_pair = numbers_.find(qpn)) {
      queue_pair->on_stream(monotonic_now(), true);
    }
  });
}

// Flow rules.

Result<FlowTable::RuleId> Adapter::create_flow(QueuePair& target, FlowRule rule) {
  if (target.type() != QpType::raw_packet) {
    return refuse(EINVAL, fmt::format("flow rules steer Ethernet frames to RAW_PACKET queue pairs; "
                                      "this one is {}",
                                      name_of(target.type())));
  }
  rule.target = target.number();
  const std::lock_guard guard(lock_);
  return steering_.add(std::move(rule));
}

void Adapter::destroy_flow(FlowTable::RuleId rule) {
  const std::lock_guard guard(lock_);
  steering_.remove(rule);
}

// Addresses.

Result<SocketAddress> Adapter::check_vector(const AddressVector& vector) const {
  if (vector.port != 1) {
    return refuse(EINVAL,
                  fmt::format("port {} does not exist: the adapter has port 1", vector.port));
  }
  if (!vector.is_global) return refuse(EINVAL, "RoCE needs a GRH: is_global must be 1");
  if (vector.source_gid_index >= node().gids.size()) {
    return refuse(EINVAL, fmt::format("sgid_index {} does not exist: the GID table has {} entries",
                                      vector.source_gid_index, node().gids.size()));
  }
  if (!port_.state().has_gid(vector.source_gid_index)) {
    return refuse(EINVAL, fmt::format("sgid_index {} is empty: no interface has the address {} now",
                                      vector.source_gid_index,
                                      node().gids[vector.source_gid_index].address.ip_text()));
  }
  auto address = resolve_gid(vector.dest_gid, node().interface_index);
  if (!address) return address;
  const GidEntry& source = node().gids[vector.source_gid_index];
  if (address->family() != source.address.family()) {
    return refuse(
        EINVAL, fmt::format("GID {} is {} and cannot be reached from sgid_index {}, which is {}",
                            gid_text(vector.dest_gid), address->ip_text(), vector.source_gid_index,
                            source.address.ip_text()));
  }
  return address->with_port(source.address.port());
}

Result<void> Adapter::link_gid(const GidEntry& entry) {
  if (link::Stack* const known = port_.links_of(entry.address)) {
    port_.add_gid(entry, *known);
    return {};
  }
  auto link = port::make_roce_link(entry.address, node().interface_index, buffers_, -1);
  if (!link) return std::unexpected(link.error());
  port_.add_gid(entry, std::move(*link));
  return {};
}

Result<void> Adapter::add_gid(const GidEntry& entry, int receive_socket) {
  auto& gids = membership_.node.gids;
  if (gids.size() == kGidsMax) return refuse(ENOSPC, "the GID table is full");
  if (!node().is_iwarp) {  // Nothing is said by datagrams there.
    if (auto received = packets_->receive_from(receive_socket); !received) return received;
  }
  if (auto linked = link_gid(entry); !linked) return linked;
  gids.push_back(entry);  // Last: now it can be named.
  return {};
}

Result<port::Route> Adapter::route(const AddressVector& vector, Qpn dest_qpn) {
  auto address = check_vector(vector);
  if (!address) return std::unexpected(address.error());
  return port_.route(vector.source_gid_index, roce_path(*address), dest_qpn,
                     link::kNeighbourTimeout);
}

Result<Destination> Adapter::resolve(const AddressVector& vector) {
  auto address = check_vector(vector);
  if (!address) return std::unexpected(address.error());
  if (roce_version(*address) == RoceVersion::v1) {  // Here one may wait for the neighbour.
    const auto found = route(vector, Qpn{});
    if (!found) return std::unexpected(found.error());
  }
  return Destination{*address, vector.dest_gid, vector};
}

}  // namespace verbatim::adapter
