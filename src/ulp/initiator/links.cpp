#include "ulp/initiator/links.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace verbatim::ulp::initiator {

using storage::Channel;

namespace {

constexpr std::uint32_t kConnectionsMax = 64;
constexpr std::uint32_t kReceives = 1024, kReceiveBytes = 76 + 8192;
constexpr std::uint32_t kHeaderBytes = 2048;

}  // namespace

Link::Link(Links& links, std::function<void()> on_change)
    : links_(links), on_change_(std::move(on_change)) {
  links_.links_.push_back(this);
}

Link::~Link() {
  disconnect_all(links_.now());
  std::erase(links_.links_, this);
}

Result<void> Link::open() {
  auto pool = rdma::BufferPool::create(
      links_.device(), 2, kBytes,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (!pool) return std::unexpected(pool.error());
  pool_ = std::move(*pool);
  return {};
}

disk::OwnSide Link::own_side() const {
  disk::OwnSide own{.scratch = memory(0)};
  own.scratch.here.bytes = storage::kScratchBytes;
  const auto gids = links_.device().port().gids;
  if (gids.empty()) return own;
  const ByteSpan gid = std::as_bytes(std::span(gids.front().bytes));
  own.guid = load_be<std::uint64_t>(&gid[8]);
  return own;
}

void Link::begin(const rdma::ServicePlace& to, const Begin& begin, TimeNs now) {
  to_ = to;
  words_.clear();
  could_not_connect_ = false;
  engine_ = begin(own_side());
  engine_->begin(now, out_);
  carry_out(now);
}

void Link::run(const std::function<void(Output& out)>& input, TimeNs now) {
  if (engine_ == nullptr) return;
  input(out_);
  carry_out(now);
}

void Link::log_out(TimeNs now) {
  if (engine_ == nullptr) return;
  if (engine_->facts() == nullptr) return disconnect_all(now);
  run([&](Output& out) { engine_->log_out(now, out); }, now);
}

void Link::disconnect_all(TimeNs now) {
  for (const auto& connection : connections_)
    if (connection) links_.driver_->disconnect(*connection, "", now);
}

void Link::carry_out(TimeNs now) {
  for (;;) {
    for (const storage::ConnectRequest& request : out_.connect) connect(request);
    for (std::size_t i = 0; i < out_.work.size(); ++i) {
      const auto& work = out_.work[i];
      if (!work.empty() && connections_[i])
        links_.driver_->carry_out(*connections_[i], {work.begin(), work.size()}, now);
    }
    const bool more = out_.more;
    out_.clear();
    if (!more) break;
    engine_->resume(now, out_);
  }
  on_change_();
}

void Link::connect(const storage::ConnectRequest& request) {
  const auto connection =
      links_.driver_->connect(to_, {.sizes = request.sizes, .private_data = request.private_data});
  if (connection) {
    connections_[static_cast<std::size_t>(request.channel)] = *connection;
  } else {
    words_ = connection.error().text;
    could_not_connect_ = true;
  }
}

/// The session is over with the last of its connections.
void Link::on_end(Channel channel, const rdma::End& end, TimeNs now) {
  connections_[static_cast<std::size_t>(channel)].reset();
  if (engine_ == nullptr) return;
  if (end.rejected) {
    const PrivateData& data = end.rejected->private_data;
    words_ = engine_->on_rejected(channel, end.rejected->reason, {data.begin(), data.size()}).words;
  } else if (const storage::Failure* const why = engine_->failure()) {
    words_ = why->words;
  } else if (!end.words.empty()) {
    words_ = end.words;
  }
  const bool is_over =
      std::ranges::none_of(connections_, [](const auto& one) { return one.has_value(); });
  if (!is_over) return disconnect_all(now);
  const auto over = std::move(engine_);
  on_change_();
}

std::optional<Channel> Link::channel_of(rdma::ConnectionId connection) const {
  const auto found = std::ranges::find(connections_, std::optional(connection));
  if (found == connections_.end()) return {};
  return Channel{static_cast<std::uint8_t>(found - connections_.begin())};
}

Result<std::unique_ptr<Links>> Links::open(service::Loop& loop) {
  std::unique_ptr<Links> links(new Links(loop));
  auto driver = rdma::Driver::create(*links, {.connections_max = kConnectionsMax,
                                              .receives = kReceives,
                                              .receive_bytes = kReceiveBytes,
                                              .header_bytes = kHeaderBytes});
  if (!driver) return std::unexpected(driver.error());
  links->driver_ = std::move(*driver);
  if (auto attached = links->driver_->attach(loop); !attached)
    return std::unexpected(attached.error());
  loop.add(*links);
  return links;
}

Result<Links*> Adapter::open() {
  if (links_ == nullptr) {
    auto links = Links::open(loop_);
    if (!links) return std::unexpected(links.error());
    links_ = std::move(*links);
  }
  return links_.get();
}

Links::~Links() {
  loop_.remove(*this);
  driver_->detach(loop_);
}

Link* Links::find(rdma::ConnectionId connection) const {
  const auto found = std::ranges::find_if(
      links_, [&](const Link* link) { return link->channel_of(connection).has_value(); });
  return found == links_.end() ? nullptr : *found;
}

TimeNs Links::deadline() const {
  TimeNs first = kNever;
  for (const Link* const link : links_) {
    if (link->could_not_connect_) return 0;
    if (link->engine_ != nullptr) first = std::min(first, link->engine_->deadline());
  }
  return first;
}

void Links::on_time(TimeNs now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[i];
    if (std::exchange(link.could_not_connect_, false)) {
      link.on_end(Channel{}, {}, now);
    } else if (link.engine_ != nullptr && link.engine_->deadline() <= now) {
      link.run([&](Link::Output& out) { link.engine_->on_time(now, out); }, now);
    }
  }
}

void Links::on_established(const rdma::Established& established, TimeNs now, WorkList&) {
  Link* const link = find(established.connection);
  if (link == nullptr) return;
  const PrivateData& data = established.private_data;
  const Channel channel = *link->channel_of(established.connection);
  link->run(
      [&](Link::Output& out) {
        link->engine_->on_established(channel, {data.begin(), data.size()}, now, out);
      },
      now);
}

ReceiveUse Links::on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                             WorkList&) {
  Link* const link = find(connection);
  ReceiveUse use = ReceiveUse::done;
  if (link == nullptr) return use;
  const Channel channel = *link->channel_of(connection);
  link->run([&](Link::Output& out) { use = link->engine_->on_message(channel, message, now, out); },
            now);
  return use;
}

void Links::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
                    WorkList&) {
  Link* const link = find(connection);
  if (link == nullptr) return;
  const Channel channel = *link->channel_of(connection);
  link->run([&](Link::Output& out) { link->engine_->on_done(channel, tag, status, now, out); },
            now);
}

void Links::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) {
  Link* const link = find(connection);
  if (link != nullptr) link->on_end(*link->channel_of(connection), end, now);
}

}  // namespace verbatim::ulp::initiator
