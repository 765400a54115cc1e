#include "ulp/rdma/driver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/overloaded.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr TimeNs kPostAgain = 10 * kMillisecond;
/// Of a driver that sleeps at once: many polls that find nothing are spinning, too.
constexpr std::uint32_t kPollsBeforeSleep = 2;

const char* text_of(CompletionStatus status) {
  return ibv_wc_status_str(static_cast<ibv_wc_status>(status));
}

}  // namespace

void Handler::on_established(const Established&, TimeNs, WorkList&) {}
void Handler::on_done(ConnectionId, Tag, CompletionStatus, TimeNs, WorkList&) {}
void Handler::on_datagram(const Ended&, TimeNs) {}
void Handler::on_device(const DeviceNotice&, TimeNs) {}

Driver::Driver(Handler& handler, const Options& options)
    : handler_(handler), options_(options), turn_(options.spin) {}

Result<std::unique_ptr<Driver>> Driver::create(Handler& handler, const Options& options) {
  std::unique_ptr<Driver> driver(new Driver(handler, options));
  if (auto opened = driver->open(); !opened) return std::unexpected(opened.error());
  return driver;
}

Result<void> Driver::open() {
  auto device = Device::open(options_.device);
  if (!device) return std::unexpected(device.error());
  device_ = std::move(*device);
  auto completions = Completions::create(*device_, options_.receives);
  if (!completions) return std::unexpected(completions.error());
  completions_ = std::move(*completions);
  auto receives =
      SharedReceives::create(*device_, *completions_, options_.receives, options_.receive_bytes);
  if (!receives) return std::unexpected(receives.error());
  receives_ = std::move(*receives);
  auto headers = BufferPool::create(*device_, options_.headers, options_.header_bytes, 0);
  if (!headers) return std::unexpected(headers.error());
  headers_ = std::make_unique<BufferPool>(std::move(*headers));
  auto manager = ConnectionManager::create(*device_, *completions_, receives_->queue(),
                                           {.connections_max = options_.connections_max});
  if (!manager) return std::unexpected(manager.error());
  manager_ = std::move(*manager);
  return {};
}

Driver::~Driver() = default;

Result<void> Driver::attach(service::Loop& loop) {
  auto watched = loop.watch(completions_->descriptor(), EPOLLIN, [this](std::uint32_t, TimeNs now) {
    completions_->take_event();
    turn_.wake(now);
  });
  if (watched) {
    watched = loop.watch(manager_->descriptor(), EPOLLIN, [this](std::uint32_t, TimeNs now) {
      turn_.wake(now);
      serve_events(now);
    });
  }
  if (watched) {
    watched = loop.watch(device_->event_descriptor(), EPOLLIN,
                         [this](std::uint32_t, TimeNs now) { serve_device(now); });
  }
  if (watched) loop.add(*this);
  return watched;
}

void Driver::detach(service::Loop& loop) {
  loop.remove(*this);
  loop.unwatch(completions_->descriptor());
  loop.unwatch(manager_->descriptor());
  loop.unwatch(device_->event_descriptor());
}

Result<ListenerId> Driver::listen(const ServicePlace& where, int backlog) {
  return manager_->listen(where, backlog);
}

Driver::Peer* Driver::find(ConnectionId id) {
  if (number_of(id) >= peers_.size()) return nullptr;
  Peer& peer = peers_[number_of(id)];
  return peer.is_known && peer.id == id ? &peer : nullptr;
}

void Driver::know(ConnectionId id) {
  if (number_of(id) >= peers_.size()) peers_.resize(number_of(id) + 1);
  Peer& peer = peers_[number_of(id)];
  peer.id = id;
  peer.is_known = true;
}

Result<ConnectionId> Driver::connect(const ServicePlace& to, const ConnectOptions& options) {
  auto connection = manager_->connect(to, options);
  if (connection) know(*connection);
  return connection;
}

void Driver::make_connection(ConnectionId id) {
  const QueueSizes& sizes = manager_->sizes(id);
  ibv_qp* const queue_pair = manager_->queue_pair(id);
  find(id)->connection = std::make_unique<Connection>(
      Connection::Setup{.queue_pair = queue_pair,
                        .number = number_of(id),
                        .count = count_of(id),
                        .depth = sizes.sends,
                        .slices = sizes.send_slices,
                        .inline_bytes = sizes.inline_bytes,
                        .reads_of_one_slice = device_->limits().is_iwarp,
                        .headers = headers_.get()});
  by_queue_pair_[queue_pair->qp_num] = id;
}

Result<void> Driver::accept(ConnectionId connection, const QueueSizes& sizes,
                            ByteSpan private_data) {
  if (auto accepted = manager_->accept(connection, sizes, private_data); !accepted) {
    if (Peer* const peer = find(connection))
      peer->end = std::make_unique<End>(End{.words = accepted.error().text});
    return accepted;
  }
  make_connection(connection);
  return {};
}

void Driver::reject(ConnectionId connection, ByteSpan private_data) {
  manager_->reject(connection, private_data);
}

void Driver::disconnect(ConnectionId connection, const std::string& words, TimeNs now) {
  Peer* const peer = find(connection);
  if (peer == nullptr) return;
  if (peer->end == nullptr) peer->end = std::make_unique<End>(End{.words = words});
  manager_->disconnect(connection, now);
  if (peer->connection != nullptr) peer->connection->close();
}

void Driver::disconnect_all(TimeNs now) {
  for (Peer& peer : peers_) {
    if (peer.is_known && !peer.is_over) disconnect(peer.id, "", now);
  }
}

Connection* Driver::connection(ConnectionId id) {
  Peer* const peer = find(id);
  return peer == nullptr ? nullptr : peer->connection.get();
}

void Driver::carry_out(ConnectionId connection, std::span<const Work> work, TimeNs now) {
  for (const Work& one : work) {
    if (const auto* const again = std::get_if<PostAgain>(&one)) post_again(again->receive);
  }
  Peer* const peer = find(connection);
  if (peer == nullptr || peer->connection == nullptr) return;
  if (const auto reason = peer->connection->carry_out(work))
    return disconnect(connection, *reason, now);
  if (peer->connection->waits_for_header()) waiting_.push_back(connection);
}

TimeNs Driver::deadline() const {
  if (!turn_.is_asleep()) return 0;
  TimeNs first = std::min(manager_->deadline(), posts_again_);
  for (const ConnectionId id : ending_) first = std::min(first, peers_[number_of(id)].gives_up);
  return first;
}

void Driver::on_time(TimeNs now) {
  manager_->on_time(now);
  // Its own events. Those of rdma_cm make its descriptor readable: to ask is a system call.
  if (manager_->deadline() <= now) serve_events(now);
  bool found = false;
  const std::uint32_t polls = options_.spin > 0 ? Turn::kPollsPerLook : kPollsBeforeSleep;
  for (std::uint32_t i = 0; i < polls; ++i) found |= serve_completions(now);
  finish_ended(now);
  // What the adapter has refused: no completion comes to remind of it.
  posts_again_ = receives_->all_posted() ? kNever : now + kPostAgain;
  if (found) turn_.wake(now);
  if (turn_.after(found, now) == Turn::Next::arm_and_sleep) sleep_unless_found(now);
}

void Driver::sleep_unless_found(TimeNs now) {
  if (turn_.is_asleep()) return;
  if (auto armed = completions_->arm(); !armed)
    return log(LogLevel::warn, "{}", armed.error().text);
  if (!serve_completions(now)) turn_.sleep();
}

bool Driver::serve_completions(TimeNs now) {
  const auto found = completions_->poll();
  for (const Ended& ended : found) on_completion(ended, now);
  receives_->post();
  if (!waiting_.empty()) resume_waiting(now);
  return !found.empty();
}

void Driver::on_completion(const Ended& ended, TimeNs now) {
  switch (ended.id.kind) {
    case WorkId::Kind::work:
      return on_work(ended, now);
    case WorkId::Kind::receive:
      return on_receive(ended, now);
    case WorkId::Kind::datagram:
    case WorkId::Kind::datagram_receive:
      return handler_.on_datagram(ended, now);
  }
}

void Driver::on_receive(const Ended& ended, TimeNs now) {
  const Message message = receives_->take(ended);
  const auto found = by_queue_pair_.find(ended.own.value());
  Peer* const peer = found == by_queue_pair_.end() ? nullptr : find(found->second);
  if (ended.status != CompletionStatus::success || peer == nullptr) {
    receives_->give_back(message.receive);
    if (peer != nullptr && ended.status != CompletionStatus::flushed) {
      disconnect(peer->id, fmt::format("a message of the peer failed: {}", text_of(ended.status)),
                 now);
    }
    return;
  }
  work_.clear();
  const ReceiveUse use = handler_.on_message(peer->id, message, now, work_);
  if (use == ReceiveUse::done) receives_->give_back(message.receive);
  carry_out(peer->id, work_, now);
}

void Driver::on_work(const Ended& ended, TimeNs now) {
  const ConnectionId id = connection_id(ended.id.connection, ended.id.count);
  Peer* const peer = find(id);
  if (peer == nullptr || peer->connection == nullptr) return;
  peer->connection->on_ended(ended, [&](Tag tag) {
    work_.clear();
    handler_.on_done(id, tag, ended.status, now, work_);
    carry_out(id, work_, now);
  });
  if (ended.status != CompletionStatus::success) {
    return disconnect(id, fmt::format("work failed: {}", text_of(ended.status)), now);
  }
  if (const auto reason = peer->connection->resume()) disconnect(id, *reason, now);
}

void Driver::resume_waiting(TimeNs now) {
  if (headers_->free_count() == 0) return;
  for (const ConnectionId id : std::exchange(waiting_, {})) {
    Connection* const one = connection(id);
    if (one == nullptr || one->is_closed()) continue;
    if (const auto reason = one->resume()) disconnect(id, *reason, now);
    if (one->waits_for_header()) waiting_.push_back(id);
  }
}

void Driver::serve_events(TimeNs now) {
  while (const auto event = manager_->take(now)) on_event(*event, now);
}

void Driver::on_event(const ConnectionEvent& event, TimeNs now) {
  const ConnectionId id = connection_of(event);
  if (const auto* const requested = std::get_if<Requested>(&event)) {
    know(id);
    return handler_.on_requested(*requested, now);
  }
  const auto* const established = std::get_if<Established>(&event);
  if (established == nullptr) return on_over(event, now);
  if (find(id)->connection == nullptr) make_connection(id);
  work_.clear();
  handler_.on_established(*established, now, work_);
  carry_out(id, work_, now);
}

void Driver::on_over(const ConnectionEvent& event, TimeNs now) {
  Peer& peer = *find(connection_of(event));
  peer.is_over = true;
  peer.gives_up = now + options_.end_patience;
  if (peer.end == nullptr) peer.end = std::make_unique<End>();
  std::visit(
      Overloaded{[&](const Rejected& rejected) {
                   peer.end->rejected = rejected;
                   peer.end->words = fmt::format("rejected, reason {}", rejected.reason);
                 },
                 [&](const Unreachable& unreachable) { peer.end->words = unreachable.words; },
                 [](const auto&) {}},
      event);
  if (peer.connection != nullptr) peer.connection->close();
  ending_.push_back(peer.id);
  finish_ended(now);
}

/// IBA 11.6.3.1: the event of the last receive, and then an empty completion queue.
bool Driver::is_back(const Peer& peer) const {
  if (peer.connection == nullptr) return true;
  if (peer.connection->has_work_in_flight() || !peer.last_receive) return false;
  return completions_->times_empty() > *peer.last_receive;
}

/// Connections whose work is back, or whose adapter has had its time.
void Driver::finish_ended(TimeNs now) {
  std::size_t left = 0;
  for (std::size_t i = 0; i < ending_.size(); ++i) {
    Peer& peer = peers_[number_of(ending_[i])];
    if (is_back(peer) || now >= peer.gives_up) {
      finish(peer, now);
    } else {
      ending_[left++] = ending_[i];
    }
  }
  ending_.resize(left);
}

void Driver::finish(Peer& peer, TimeNs now) {
  const ConnectionId id = peer.id;
  // The adapter touches no memory of a queue pair that is destroyed.
  if (peer.connection != nullptr) by_queue_pair_.erase(peer.connection->queue_pair()->qp_num);
  manager_->release(id);
  if (peer.connection != nullptr) {
    peer.connection->finish([&](Tag tag) {
      work_.clear();
      handler_.on_done(id, tag, CompletionStatus::flushed, now, work_);
      carry_out(id, work_, now);
    });
  }
  const auto end = std::move(peer.end);
  peer = {};
  handler_.on_end(id, *end, now);
}

void Driver::serve_device(TimeNs now) {
  while (const auto notice = device_->take_event()) {
    const auto found = by_queue_pair_.find(notice->queue_pair.value());
    if (notice->event == DeviceEvent::last_receive && found != by_queue_pair_.end()) {
      if (Peer* const peer = find(found->second)) peer->last_receive = completions_->times_empty();
    }
    if (notice->event == DeviceEvent::device_gone) manager_->end_all();
    handler_.on_device(*notice, now);
  }
  turn_.wake(now);
}

}  // namespace verbatim::ulp::rdma
