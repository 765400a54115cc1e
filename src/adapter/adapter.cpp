#include "adapter/adapter.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>

#include <fmt/format.h>

#include "adapter/direct/xrc_queue_owners.h"
#include "adapter/memory/adoption.h"
#include "link/ethernet/neighbour.h"
#include "port/encapsulation_infiniband.h"
#include "port/roce_link.h"

namespace verbatim::adapter {

Result<std::unique_ptr<Adapter>> Adapter::create(std::unique_ptr<Arena> arena,
                                                 Membership membership) {
  auto numbers = std::make_unique<Numbers>(membership.first_qpn);
  ArenaHeader& header = arena->header();
  auto progress = Progress::create(*numbers, {.event_fd = membership.event_fd,
                                              .on_event = membership.on_event,
                                              .thread_begins = [&] { header.liveness.begin(); },
                                              .busy_poll = membership.busy_poll});
  if (!progress) return std::unexpected(progress.error());
  std::unique_ptr<Adapter> adapter(new Adapter(std::move(arena), std::move(membership),
                                               std::move(numbers), std::move(*progress)));
  const bool is_infiniband = !adapter->membership_.infiniband.empty();
  const auto linked = is_infiniband ? adapter->link_infiniband() : adapter->link_roce();
  if (!linked) return std::unexpected(linked.error());
  // Over iWARP nothing is said by datagrams.
  if (!adapter->node().is_iwarp()) {
    for (Delivery& delivery : adapter->deliveries_) adapter->progress_->add(delivery);
  }
  const UniqueFd& doorbell = adapter->membership_.doorbell;
  if (doorbell) {
    if (adapter->membership_.memory) adapter->adopt_memory();
    if (auto heard = adapter->peers_.open(doorbell); !heard) return std::unexpected(heard.error());
  }
  return adapter;
}

Adapter::Adapter(std::unique_ptr<Arena> arena, Membership membership,
                 std::unique_ptr<Numbers> numbers, std::unique_ptr<Progress> progress)
    : arena_(std::move(arena)),
      membership_(std::move(membership)),
      numbers_(std::move(numbers)),
      memory_(*arena_),
      peers_(*arena_, *progress, memory_.table(), *this, membership_.ask_for_peer),
      imports_(peers_, memory_, membership_.first_qpn, node().gids[0].address),
      xrc_domains_(membership_.locks, node().guid),
      shared_receives_(*arena_, *progress, xrc_domains_, membership_.first_qpn, random_number()),
      multicast_(
          *progress, [this](const MulticastGroup& group) { return join(group); },
          [this](const MulticastGroup& group) {
            progress_->between_passes([&] { port(group.port).leave(group); });
          }),
      steering_(*progress,
                [this](Qpn target, const SteeredFrame& frame) {
                  QueuePair* const queue_pair = numbers_->find(target);
                  if (queue_pair != nullptr) queue_pair->on_frame(frame);
                }),
      frame_groups_(steering_),
      surroundings_{
          .arena = *arena_,
          .regions = memory_.table(),
          .ports = ports_,
          .progress = *progress,
          .peers = peers_,
          .shared_receives = shared_receives_,
          .steering = steering_,
          .streams = streams_,
          .find_route = [this](const port::AddressVector& vector,
                               Qpn to) { return resolve(vector, to); },
          .await_room = [this](Task& task,
                               std::uint8_t number) { deliveries_[number - 1].await_room(task); },
          .report_bad_key =
              [this](std::uint8_t number, wire::TrapNumber trap,
                     const wire::BadKeyDetails& details) {
                const auto& report = membership_.infiniband[number - 1].report_bad_key;
                if (report) report(trap, details);
              },
          .is_iwarp = node().is_iwarp(),
          .has_direct_path = membership_.memory != nullptr,
          .only_direct = membership_.only_direct,
          .rnr_grace = membership_.rnr_grace,
          .probes = membership_.probes},
      progress_(std::move(progress)) {
  make_ports();
}

void Adapter::adopt_memory() {
  memory_.adopt_by(std::make_unique<Adoption>(
      *membership_.memory, memory_.table(), arena_->header().moves_memory,
      [this](TimeNs deadline) { return peers_.wait_for_target_unlocks(deadline); }));
}

/// InfiniBand has as many as the host, other protocols have one.
void Adapter::make_ports() {
  const std::size_t count = std::max<std::size_t>(1, membership_.infiniband.size());
  for (std::size_t i = 1; i <= count; ++i) {
    ports_.add(deliveries_
                   .emplace_back(static_cast<std::uint8_t>(i), *numbers_, multicast_, *progress_,
                                 arena_->header().port_counters, node().interface_index)
                   .port());
  }
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

// Completion queues.

Result<std::unique_ptr<CompletionQueue>> Adapter::create_completion_queue(
    const CompletionQueueOptions& options) {
  CompletionQueueOptions attended = options;
  attended.attention = &progress_->attention();
  return CompletionQueue::create(*arena_, attended);
}

bool Adapter::await_completions(CompletionQueue& queue) {
  if (progress_->poll() && queue.lacks_entry()) queue.recover();
  return !queue.empty();
}

void Adapter::arm(CompletionQueue& queue, bool solicited_only) {
  queue.arm(solicited_only);
  progress_->serve_events();
}

/// A program without streams has no source for them that passes would ask.
Result<void> Adapter::begin_streams() {
  const std::lock_guard guard(lock_);
  if (streams_ != nullptr) return {};
  auto streams = StreamSource::create(*progress_, [this](Qpn qpn, TimeNs now, bool to_the_end) {
    if (QueuePair* const queue_pair = numbers_->find(qpn)) {
      queue_pair->on_stream(now, to_the_end);
    }
  });
  if (!streams) return std::unexpected(streams.error());
  streams_ = std::move(*streams);
  return {};
}

Result<void> Adapter::start_stream(Qpn qpn, StreamStart start) {
  if (auto begun = begin_streams(); !begun) return begun;
  const std::lock_guard guard(lock_);  // The queue pair is not destroyed meanwhile.
  QueuePair* const queue_pair = numbers_->find(qpn);
  if (queue_pair == nullptr) {
    return refuse(EINVAL, fmt::format("there is no QP {:#x}", qpn.value()));
  }
  return queue_pair->start_stream(std::move(start));
}

void Adapter::end_stream(Qpn qpn) {
  const std::lock_guard guard(lock_);
  QueuePair* const queue_pair = numbers_->find(qpn);
  if (queue_pair == nullptr) return;
  static_cast<void>(queue_pair->modify({.state = QpState::err}, kState));  // From each state.
}

void Adapter::drain_stream(Qpn qpn) {
  progress_->between_passes([&] {
    if (QueuePair* const queue_pair = numbers_->find(qpn)) {
      queue_pair->on_stream(monotonic_now(), true);
    }
  });
}

// Implementation of `Visited`: what peers do.

void Adapter::on_peer_gone(const DirectPeer& peer) {
  numbers_->for_each([&](QueuePair& queue_pair) { queue_pair.on_peer_gone(peer); });
}

void Adapter::on_attached_peer_gone() {
  numbers_->for_each([](QueuePair& queue_pair) { queue_pair.on_attached_peer_gone(); });
  shared_receives_.on_attached_peer_gone();
}

void Adapter::on_target_notified(std::uint32_t local_number) {
  if (QueuePair* const found = numbers_->find_local(local_number)) found->on_notifications();
}

void Adapter::on_queue_notified(std::uint32_t local_number) {
  shared_receives_.on_notified(local_number);
}

void Adapter::wait_for_user(std::uint32_t local_number) {
  if (QueuePair* const found = numbers_->find_local(local_number)) found->wait_for_user();
}

void Adapter::answer_importer(OwnerRequest& wanted) { imports_.answer_importer(wanted); }

// Without memory for its lists, memory stays where it is; peers ask again.

void Adapter::on_memory_wanted(MemoryKey key) {
  try {
    if (memory_.adoption() != nullptr) memory_.adoption()->want(key);
  } catch (const std::bad_alloc&) {
  }
}

bool Adapter::move_memory() {
  try {
    Adoption* const adoption = memory_.adoption();
    return adoption != nullptr && adoption->step();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Groups and flow rules.

Result<void> Adapter::attach_multicast(QueuePair& queue_pair, MulticastGroup group) {
  if (!port().is_infiniband()) group.lid = {};
  if (port().is_infiniband() && !port::is_multicast(group.lid)) {
    return refuse(EINVAL, fmt::format("LID {:#x} is no multicast LID", raw(group.lid)));
  }
  group.port = queue_pair.port();
  if (queue_pair.type() == QpType::ud) return multicast_.attach(queue_pair, group);
  if (queue_pair.type() == QpType::raw_packet) {
    const std::lock_guard guard(lock_);
    return frame_groups_.attach(queue_pair.number(), group.gid);
  }
  return refuse(EINVAL, "only UD and RAW_PACKET queue pairs join multicast groups");
}

Result<void> Adapter::detach_multicast(QueuePair& queue_pair, MulticastGroup group) {
  if (!port().is_infiniband()) group.lid = {};
  if (queue_pair.type() != QpType::raw_packet) return multicast_.detach(queue_pair, group);
  const std::lock_guard guard(lock_);
  return frame_groups_.detach(queue_pair.number(), group.gid);
}

bool Adapter::is_in_multicast_group(const QueuePair& queue_pair) {
  if (queue_pair.type() != QpType::raw_packet) return multicast_.has(queue_pair);
  const std::lock_guard guard(lock_);
  return frame_groups_.has(queue_pair.number());
}

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

Result<void> Adapter::link_roce() {
  const auto& sockets = membership_.receive_sockets;
  for (std::size_t i = 0; i < node().gids.size(); ++i) {
    const int socket = i < sockets.size() ? sockets[i] : -1;
    if (auto linked = link_gid(node().gids[i], socket); !linked) return linked;
  }
  return {};
}

Result<void> Adapter::link_gid(const port::GidEntry& entry, int receive_socket) {
  if (link::Stack* const known = port().links_of(entry.address)) {
    port().add_gid(entry, *known);
    return {};
  }
  const int socket = node().is_iwarp() ? -1 : receive_socket;
  const auto& function = membership_.function;
  auto link = function != nullptr
                  ? port::make_function_link(entry.address, function)
                  : port::make_roce_link(entry.address, node().interface_index, buffers_, socket);
  if (!link) return std::unexpected(link.error());
  if (auto heard = listen((*link)->descriptors()); !heard) return heard;
  progress_->between_passes([&] { port().add_gid(entry, std::move(*link)); });
  return {};
}

/// Each port has one GID, without an address.
Result<void> Adapter::link_infiniband() {
  unsigned number = 0;
  for (InfinibandEnd& end : membership_.infiniband) {
    port::Port& own = port(++number);
    own.set_lids(end.lids);
    if (!end.pkeys.empty()) own.pkeys().set(end.pkeys);
    if (auto heard = listen(end.link->descriptors()); !heard) return heard;
    progress_->between_passes([&] { own.add_gid({end.gid, {}}, std::move(end.link)); });
  }
  return {};
}

void Adapter::set_pkeys(port::Port& port, std::span<const PKey> pkeys) {
  {
    const std::lock_guard guard(lock_);
    port.pkeys().set(pkeys);
  }
  follow_ports();
}

void Adapter::follow_ports() {
  const std::lock_guard guard(lock_);
  numbers_->for_each([](QueuePair& queue_pair) { queue_pair.follow_port(); });
}

Result<void> Adapter::listen(std::span<const int> descriptors) {
  for (const int fd : descriptors) {
    if (auto heard = progress_->listen(fd); !heard) return heard;
  }
  return {};
}

Result<void> Adapter::join(const MulticastGroup& group) {
  Result<void> heard;
  port::Port& own = port(group.port);
  progress_->between_passes([&] {
    heard = own.join(group);
    if (!heard) return;
    heard = listen(own.descriptors());
    if (!heard) own.leave(group);
  });
  return heard;
}

Result<void> Adapter::add_gid(const port::GidEntry& entry, int receive_socket) {
  if (port().gids().size() == port::kGidsMax) return refuse(ENOSPC, "the GID table is full");
  return link_gid(entry, receive_socket);  // Last: now it can be named.
}

Result<port::Route> Adapter::resolve(const port::AddressVector& vector, Qpn dest_qpn) {
  if (auto exists = ports_.check(vector.port); !exists) return std::unexpected(exists.error());
  return port(vector.port).resolve(vector, dest_qpn, link::kNeighbourTimeout);
}

Result<Destination> Adapter::resolve(const port::AddressVector& vector) {
  if (auto exists = ports_.check(vector.port); !exists) return std::unexpected(exists.error());
  const auto path = port(vector.port).path_to(vector);
  if (!path) return std::unexpected(path.error());
  if (std::holds_alternative<RoceV1Path>(*path)) {  // Here one may wait for the neighbour.
    const auto found = resolve(vector, Qpn{});
    if (!found) return std::unexpected(found.error());
  }
  return Destination{*path, vector.dest_gid, vector};
}

}  // namespace verbatim::adapter
