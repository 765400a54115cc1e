#include "ulp/rds/driver/node.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "ulp/rds/wire/connect.h"

namespace verbatim::ulp::rds {
namespace {

constexpr std::uint32_t kReceives = 1024;
/// 16 MiB: sixteen of the longest messages on their way.
constexpr std::uint32_t kFragments = 4096;
constexpr QueueSizes kSizes{.sends = 256,
                            .receives = kReceives,
                            .receive_bytes = FragmentPool::kFragment,
                            .send_slices = 2,
                            .inline_bytes = 64};
constexpr std::size_t kKnownAddressesMax = 4096;
/// For both sides. Few: another queue pair loses nothing, and 7 is for ever in rdma_rxe.
constexpr std::uint8_t kRetries = 3;

LinkId link_of(rdma::ConnectionId connection) { return LinkId{raw(connection)}; }
rdma::ConnectionId connection_of(LinkId link) { return rdma::ConnectionId{raw(link)}; }

/// Grows from broker to broker of a node, faster than messages can be sent.
std::uint64_t first_sequence() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  return (static_cast<std::uint64_t>(ms) << 16) + 1;
}

std::vector<SocketAddress> addresses_of(const rdma::PortFacts& port) {
  std::vector<SocketAddress> addresses;
  for (const Gid& gid : port.gids) {
    const auto address = resolve_gid(gid, 0);
    if (!address || address->is_link_local()) continue;
    addresses.push_back(address->with_port(0));
  }
  return addresses;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(service::Loop& loop, const std::string& path,
                                           bool shares) {
  std::unique_ptr<Node> node(new Node(loop));
  if (auto opened = node->open(path, shares); !opened) return std::unexpected(opened.error());
  return node;
}

Result<void> Node::open(const std::string& path, bool shares) {
  auto driver = rdma::Driver::create(
      *this, {.receives = kReceives, .receive_bytes = FragmentPool::kFragment, .headers = 16});
  if (!driver) return std::unexpected(driver.error());
  driver_ = std::move(*driver);
  if (driver_->device().limits().is_iwarp)
    return refuse(EADDRNOTAVAIL, "RDS has no iWARP: use a node of RoCE or a host of a fabric");
  auto pool = FragmentPool::create(driver_->device(), kFragments);
  if (!pool) return std::unexpected(pool.error());
  pool_ = std::make_unique<FragmentPool>(std::move(*pool));
  grants_ = std::make_unique<Grants>(driver_->device());
  transfers_ = std::make_unique<Transfers>(*pool_);
  auto programs = Programs::create({loop_, *pool_, *grants_, *transfers_}, path);
  if (!programs) return std::unexpected(programs.error());
  programs_ = std::move(*programs);
  const rdma::PortFacts port = driver_->device().port();
  programs_->set_addresses(addresses_of(port));
  // What goes to another host of a fabric crosses its switches.
  if (shares && !port.is_infiniband) programs_->share();
  broker_ = std::make_unique<Broker>(
      *this, *pool_,
      Broker::Options{.seed = std::random_device()(), .first_sequence = first_sequence()});
  programs_->serve(*broker_);
  const rdma::IpService places[] = {{*SocketAddress::parse("0.0.0.0", kPortOfIpv4), true},
                                    {*SocketAddress::parse("::", kPortOfIpv6), true}};
  for (const rdma::IpService& place : places) {
    if (auto listens = driver_->listen(place); !listens) return std::unexpected(listens.error());
  }
  if (auto attached = driver_->attach(loop_); !attached) return attached;
  loop_.add(*this);
  return {};
}

Node::~Node() {
  programs_.reset();
  if (broker_) loop_.remove(*this);
  if (driver_) driver_->detach(loop_);
}

/// One at which this node can listen.
bool Node::is_own(const SocketAddress& address) {
  const SocketAddress any_port = address.with_port(0);
  if (const auto known = own_.find(any_port); known != own_.end()) return known->second;
  if (own_.size() >= kKnownAddressesMax) own_.clear();
  const auto listens = driver_->listen(rdma::IpService{any_port, true});
  if (listens) driver_->unlisten(*listens);
  return own_[any_port] = listens.has_value();
}

Result<LinkId> Node::connect(const Pair& pair, const PrivateData& data) {
  const std::uint16_t port = pair.peer.is_ipv6() ? kPortOfIpv6 : kPortOfIpv4;
  const auto connection = driver_->connect(rdma::IpService{pair.peer.with_port(port)},
                                           {.source = pair.own,
                                            .reads = {.initiator = 16, .responder = 16},
                                            .retry_count = kRetries,
                                            .sizes = kSizes,
                                            .private_data = data});
  if (!connection) return std::unexpected(connection.error());
  return link_of(*connection);
}

void Node::accept(LinkId link, const PrivateData& data) {
  const auto accepted = driver_->accept(connection_of(link), kSizes, {data.begin(), data.size()});
  if (!accepted) log(LogLevel::info, "a peer is not accepted: {}", accepted.error().text);
}

void Node::reject(LinkId link, const PrivateData& data) {
  driver_->reject(connection_of(link), {data.begin(), data.size()});
}

void Node::disconnect(LinkId link, const char* words) {
  log(LogLevel::info, "a queue pair ends: {}", words);
  driver_->disconnect(connection_of(link), words, loop_.now());
}

void Node::carry_out(LinkId link, std::span<const Work> work) {
  driver_->carry_out(connection_of(link), work, loop_.now());
}

void Node::carry_out(LinkId link, const Atomic& atomic) {
  rdma::Connection* const connection = driver_->connection(connection_of(link));
  if (connection == nullptr) return;
  const auto reason = connection->carry_out(rdma::Atomic{.compares = atomic.compares,
                                                         .value = atomic.value,
                                                         .compare = atomic.compare,
                                                         .into = atomic.into,
                                                         .remote = atomic.remote,
                                                         .done = Tag{atomic.done}});
  if (reason) disconnect(link, *reason);
}

void Node::on_requested(const rdma::Requested& requested, TimeNs now) {
  broker_->on_requested(link_of(requested.connection), requested.meeting, now);
}

void Node::on_established(const rdma::Established& established, TimeNs now, WorkList&) {
  const PrivateData& data = established.private_data;
  broker_->on_established(link_of(established.connection), {data.begin(), data.size()}, now);
}

ReceiveUse Node::on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                            WorkList&) {
  broker_->on_message(link_of(connection), message.bytes(), now);
  return ReceiveUse::done;
}

void Node::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs,
                   WorkList&) {
  // What was flushed comes back by `on_end`.
  if (status == CompletionStatus::flushed) return;
  if (status == CompletionStatus::success) return broker_->on_done(link_of(connection), tag);
  const bool is_refused = status == CompletionStatus::remote_access_error;
  broker_->on_failed(link_of(connection), tag,
                     is_refused ? OperationStatus::remote_error : OperationStatus::other_error);
}

void Node::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) {
  broker_->on_end(link_of(connection), end.words, now);
}

void Node::on_time(TimeNs now) {
  broker_->on_time(now);
  broker_->flush();
  programs_->on_fragments();
}

std::uint64_t Node::activity() const {
  std::uint64_t all = programs_->admitted();
  for (const auto& [pair, peer] : broker_->peers()) all += peer->received + peer->connects;
  return all + broker_->counters().pings;
}

bool Node::has_peers() const {
  return std::ranges::any_of(broker_->peers(),
                             [](const auto& one) { return one.second->state == Peer::State::up; });
}

nlohmann::json Node::status() const {
  nlohmann::json peers = nlohmann::json::array(), sockets = nlohmann::json::array();
  for (const auto& [pair, peer] : broker_->peers()) {
    nlohmann::json one{{"own", pair.own.ip_text()},
                       {"peer", pair.peer.ip_text()},
                       {"tos", pair.tos},
                       {"state", name_of(peer->state)},
                       {"sent", peer->sent},
                       {"received", peer->received},
                       {"waiting", peer->connection.waiting()},
                       {"connected", peer->connects}};
    if (peer->state != Peer::State::up && !peer->why.empty()) one["why"] = peer->why;
    peers.push_back(std::move(one));
  }
  for (const auto& [id, socket] : broker_->sockets()) {
    if (socket.own.empty()) continue;  // Also those that only keep the broker.
    nlohmann::json one{{"process", programs_->process_of(id)},
                       {"sent", socket.sent},
                       {"received", socket.received},
                       {"unread", socket.held.size()},
                       {"congested", socket.is_congested}};
    if (!socket.own.empty()) one["own"] = socket.own.text();
    if (!socket.peer.empty()) one["peer"] = socket.peer.text();
    sockets.push_back(std::move(one));
  }
  const Broker::Counters& counters = broker_->counters();
  return {{"socket", programs_->path()},
          {"peers", std::move(peers)},
          {"sockets", std::move(sockets)},
          {"counters",
           {{"pings", counters.pings},
            {"no_socket", counters.no_socket},
            {"refused", counters.refused},
            {"faults", counters.faults},
            {"given_up", counters.given_up}}}};
}

}  // namespace verbatim::ulp::rds
