#include "ulp/lnet/driver/links.h"

#include <cerrno>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace verbatim::ulp::lnet {
namespace {

constexpr std::uint32_t kConnectionsMax = 1024;
constexpr std::uint32_t kReceives = 2048;
constexpr std::uint32_t kHeaders = 64;  // Messages that are being sent.

LinkId link_of(rdma::ConnectionId connection) { return LinkId{raw(connection)}; }
rdma::ConnectionId connection_of(LinkId link) { return rdma::ConnectionId{raw(link)}; }
ByteSpan bytes_of(const PrivateData& data) { return {data.begin(), data.size()}; }

}  // namespace

Result<std::unique_ptr<Links>> Links::create(std::uint32_t buffers) {
  std::unique_ptr<Links> links(new Links);
  auto driver = rdma::Driver::create(*links, {.device = {},
                                              .connections_max = kConnectionsMax,
                                              .receives = kReceives,
                                              .receive_bytes = kMessageBytes,
                                              .headers = kHeaders,
                                              .header_bytes = kMessageBytes});
  if (!driver) return std::unexpected(driver.error());
  links->driver_ = std::move(*driver);
  auto pool = rdma::BufferPool::create(links->driver_->device(), buffers, Buffers::kBytes,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!pool) return std::unexpected(pool.error());
  links->pool_ = std::make_unique<rdma::BufferPool>(std::move(*pool));
  std::vector<Slice> slices(buffers);
  links->pool_->take(slices);
  std::vector<Buffer> all;
  for (const Slice& slice : slices) all.push_back({slice, links->pool_->region().remote_key()});
  links->buffers_ = Buffers(std::move(all));
  return links;
}

Result<void> Links::serve(Node& node, std::uint16_t port, service::Loop& loop) {
  node_ = &node;
  port_ = port;
  std::set<std::uint32_t> addresses;  // Networks may share one.
  for (const Nid nid : node.settings().own) {
    if (!addresses.insert(nid.address()).second) continue;
    const auto listener = driver_->listen(rdma::IpService{address_of(nid, port)});
    if (!listener && listener.error().code == EACCES)
      return refuse(EACCES, fmt::format("the port {} is for root: say the same --port, above 1023, "
                                        "at all nodes",
                                        port));
    if (!listener) return std::unexpected(listener.error());
  }
  if (auto attached = driver_->attach(loop); !attached) return attached;
  loop.add(*this);
  return {};
}

void Links::note(std::string peer, std::string words) {
  log(LogLevel::warn, "{}: {}", peer, words);
  incidents_.push_back({std::move(peer), std::move(words)});
  if (incidents_.size() > kIncidentsMax) incidents_.pop_front();
}

void Links::on_requested(const rdma::Requested& requested, TimeNs now) {
  const LinkId link = link_of(requested.connection);
  const auto answer = node_->on_meeting(link, requested.meeting, now);
  if (!answer) {
    note(requested.meeting.peer.text(), answer.error().words);
    driver_->reject(requested.connection, bytes_of(answer.error().private_data));
  } else if (const auto accepted = driver_->accept(requested.connection, answer->sizes,
                                                   bytes_of(answer->private_data));
             !accepted) {
    note(requested.meeting.peer.text(), accepted.error().text);
    node_->on_end(link, accepted.error().text, {}, now);
  }
  flush(now);
}

void Links::on_established(const rdma::Established& established, TimeNs now, WorkList&) {
  node_->on_established(link_of(established.connection), bytes_of(established.private_data), now);
  flush(now);
}

ReceiveUse Links::on_message(rdma::ConnectionId connection, const ulp::Message& message, TimeNs now,
                             WorkList&) {
  node_->on_message(link_of(connection), message.bytes(), now);
  flush(now);
  return ReceiveUse::done;
}

void Links::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
                    WorkList&) {
  node_->on_done(link_of(connection), tag, status);
  flush(now);
}

void Links::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) {
  const ByteSpan refusal = end.rejected ? bytes_of(end.rejected->private_data) : ByteSpan();
  node_->on_end(link_of(connection), end.words, refusal, now);
  flush(now);
}

void Links::on_time(TimeNs now) {
  if (node_ == nullptr) return;
  if (now >= node_->deadline()) node_->on_time(now);
  flush(now);
}

Result<rdma::ConnectionId> Links::connect_from(std::uint16_t port, const Node::Wish& wish) {
  return driver_->connect(rdma::IpService{address_of(wish.peer, port_)},
                          {.source = address_of(wish.own, port),
                           .reads = {.initiator = 0, .responder = 0},
                           .retry_count = 5,
                           .rnr_retry_count = 6,
                           .sizes = wish.sizes,
                           .private_data = wish.private_data});
}

/// From a port for root, as o2iblnd does, for a peer may insist on one (require_privileged_port);
/// from any port, if this process may have none.
Result<rdma::ConnectionId> Links::begin(const Node::Wish& wish) {
  for (std::uint16_t tries = kFirstPort; tries <= kLastPort; ++tries) {
    const std::uint16_t port = std::exchange(
        next_port_,
        next_port_ == kFirstPort ? kLastPort : static_cast<std::uint16_t>(next_port_ - 1));
    auto connection = connect_from(port, wish);
    if (connection) return connection;
    if (connection.error().code == EACCES) break;
    if (connection.error().code != EADDRINUSE) return connection;
  }
  return connect_from(0, wish);
}

void Links::connect(const Node::Wish& wish, TimeNs now) {
  const auto connection = begin(wish);
  if (connection) return node_->on_connecting(link_of(*connection), wish.peer);
  note(text_of(wish.peer), connection.error().text);
  node_->on_refused(wish.peer, connection.error().text, now);
}

void Links::flush(TimeNs now) {
  while (true) {
    if (const auto wish = node_->take_wish()) {
      connect(*wish, now);
    } else if (const auto link = node_->take_ready()) {
      do {
        out_.clear();
        node_->pump(*link, now, out_);
        if (!out_.work.empty())
          driver_->carry_out(connection_of(*link), {out_.work.begin(), out_.work.size()}, now);
      } while (out_.more);
    } else {
      return;
    }
  }
}

}  // namespace verbatim::ulp::lnet
