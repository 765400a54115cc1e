#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "adapter/adapter.h"

/// Creates and destroys queue pairs.
namespace verbatim::adapter {
namespace {

Result<void> check_capacity(const QueuePairOptions& options) {
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

/// Returns the reported capacity: a ring has room for at least one. Cards put inline data where a
/// request's segments would be, so programs expect room for the 16 bytes of a segment without
/// asking for it.
QueuePairCapacity granted(const QueuePairCapacity& wanted, bool own_receives, bool sends) {
  constexpr std::uint32_t kSegmentBytes = 16;
  QueuePairCapacity capacity = wanted;
  capacity.send_segments = std::max(1u, wanted.send_segments);
  capacity.receive_requests = own_receives ? wanted.receive_requests : 0;
  capacity.receive_segments = own_receives ? std::max(1u, wanted.receive_segments) : 0;
  if (!sends) return capacity;
  capacity.send_requests = std::max(1u, wanted.send_requests);
  capacity.inline_bytes = std::max(kSegmentBytes, wanted.inline_bytes);
  return capacity;
}

}  // namespace

Result<SharedReceiveQueue*> Adapter::create_shared_receive_queue(
    const SharedReceiveOptions& options) {
  if (auto entered = memory_.enter_pd(options.pd); !entered) {
    return std::unexpected(entered.error());
  }
  auto created = shared_receives_.create(options);
  if (!created) memory_.leave_pd(options.pd);
  return created;
}

Result<void> Adapter::destroy_shared_receive_queue(SharedReceiveQueue* queue) {
  const PdNumber pd = queue->options().pd;
  const bool completes = queue->options().cq != nullptr;
  const auto forget = [this, completes](const SharedReceiveQueue& gone) {
    if (peers_.own() != nullptr) forget_queue(*peers_.own(), gone.number());
    if (!completes) return;
    // XRC: a message that is being received ends with its queue.
    numbers_->for_each([&](QueuePair& queue_pair) { queue_pair.forget(gone); });
  };
  const auto wait_for_peers = [this] { peers_.wait_for_target_unlocks(); };
  if (auto done = shared_receives_.destroy(queue, wait_for_peers, forget); !done) return done;
  memory_.leave_pd(pd);
  return {};
}

Result<void> Adapter::enter_domain(QueuePairOptions& options) {
  if (options.type == QpType::xrc_receive) {
    const auto file = xrc_domains_.enter(options.xrc_domain);
    if (!file) return std::unexpected(file.error());
    options.xrc_file = *file;
    return {};
  }
  const SharedReceiveQueue* const shared = options.shared_receive;
  if (shared != nullptr && shared->matches_tags() && options.type != QpType::rc) {
    return refuse(EOPNOTSUPP, "tag matching queues serve RC queue pairs");
  }
  options.is_imported = memory_.is_imported(options.pd) ||
                        (shared != nullptr && memory_.is_imported(shared->options().pd));
  return memory_.enter_pd(options.pd);
}

void Adapter::leave_domain(const QueuePairOptions& options) {
  if (options.type == QpType::xrc_receive) return xrc_domains_.leave(options.xrc_domain);
  memory_.leave_pd(options.pd);
}

Result<void> Adapter::open_ethernet() {
  const auto gids = port().gids();
  const auto ipv4 = std::ranges::find_if(
      gids, [](const port::GidEntry& entry) { return entry.address.is_ipv4(); });
  return steering_.open({.interface = std::string(node().interface),
                         .interface_index = node().interface_index,
                         .address = ipv4 != gids.end() ? ipv4->address : gids.front().address,
                         .function = std::string(node().function.view())},
                        node().mac);
}

Result<QueuePair*> Adapter::create_queue_pair(const QueuePairOptions& wanted) {
  if (auto ok = check_capacity(wanted); !ok) return std::unexpected(ok.error());
  const bool tags = wanted.shared_receive != nullptr && wanted.shared_receive->matches_tags();
  if (node().is_infiniband() && wanted.type == QpType::raw_packet) {
    return refuse(EOPNOTSUPP, "RAW_PACKET queue pairs are of Ethernet ports");
  }
  if (node().is_iwarp() && (wanted.type != QpType::rc || tags)) {
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
  if (auto entered = enter_domain(options); !entered) return std::unexpected(entered.error());
  auto created = add_queue_pair(options, std::move(sends), own_receives);
  if (!created) leave_domain(options);
  return created;
}

Result<QueuePair*> Adapter::add_queue_pair(const QueuePairOptions& options, SendQueue sends,
                                           bool own_receives) {
  const std::lock_guard guard(lock_);
  const std::uint32_t number = numbers_->take_number();
  if (number == 0) {
    return refuse(ENOMEM, fmt::format("all {} queue pair numbers are in use", Limits::queue_pairs));
  }
  if (options.type == QpType::raw_packet) {
    if (auto opened = open_ethernet(); !opened) return std::unexpected(opened.error());
  }
  std::unique_ptr<ReceiveQueue> receives;
  if (own_receives) {
    auto created = ReceiveQueue::create(*arena_, options.capacity.receive_requests,
                                        options.capacity.receive_segments);
    if (!created) return std::unexpected(created.error());
    receives = std::move(*created);
  }
  auto* queue_pair =
      new QueuePair(surroundings_, options, numbers_->number(number), arena_->queue_pair(number),
                    arena_->target(number), std::move(sends), std::move(receives));
  numbers_->add(*queue_pair);
  return queue_pair;
}

void Adapter::destroy_queue_pair(QueuePair* queue_pair) {
  queue_pair
      ->transmit();  // Acknowledgements that were deferred to the program's next post or poll.
  const QueuePairOptions options = queue_pair->options();
  std::optional<SendQueue> sends;  // Its memory may belong to the program: freed without a lock.
  {
    const std::lock_guard guard(lock_);
    multicast_.forget(*queue_pair);
    steering_.remove_all(queue_pair->number());
    frame_groups_.forget(queue_pair->number());
    numbers_->remove(*queue_pair);
    progress_->forget(*queue_pair);
    memory_.table().unbind_all(queue_pair->number());
    sends.emplace(std::move(queue_pair->core_.sends));
    delete queue_pair;
  }
  leave_domain(options);
}

/// Returns true if the XRC target belongs to another process, in a domain that this process has,
/// too. Waits for the agent.
bool Adapter::is_target_elsewhere(Qpn qpn, const XrcFile& file) {
  if (!file.exists() || numbers_->has(qpn.value())) return false;
  const auto peer = peers_.find_peer(port().gids()[0].address, qpn);
  if (peer == nullptr) return false;
  const std::uint32_t local_number = qpn.value() % kProgramQueuePairsMax;
  const QueuePairRecord& record = peer->at(peer->header().queue_pairs)[local_number];
  return record.qpn.load(std::memory_order_acquire) == qpn.value() &&
         QpType{record.type.load(std::memory_order_relaxed)} == QpType::xrc_receive;
}

Result<QueuePair*> Adapter::open_queue_pair(Qpn qpn, XrcDomain domain, AsyncEvents& events,
                                            void* owner) {
  std::unique_lock guard(lock_);
  QueuePair* const found = numbers_->find(qpn);
  if (found == nullptr) {
    const XrcFile file = xrc_domains_.file_of(domain);
    guard.unlock();
    if (is_target_elsewhere(qpn, file)) {
      return refuse(EOPNOTSUPP,
                    fmt::format("QP {:#x} belongs to another program, and ends with it: "
                                "it serves the domain's queues without being opened",
                                qpn.value()));
    }
  }
  if (found == nullptr || found->type() != QpType::xrc_receive) {
    return refuse(EINVAL, fmt::format("{:#x} is no XRC_RECV queue pair", qpn.value()));
  }
  if (found->options().xrc_domain != domain) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in another XRC domain", qpn.value()));
  }
  found->add_listener(events, owner);
  return found;
}

void Adapter::release_queue_pair(QueuePair* queue_pair, const void* owner) {
  if (queue_pair->remove_listener(owner)) destroy_queue_pair(queue_pair);
}

}  // namespace verbatim::adapter
