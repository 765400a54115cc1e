#include "ulp/rpcrdma/gateway/relay.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "ulp/rpcrdma/client_connection.h"
#include "ulp/rpcrdma/server_connection.h"

namespace verbatim::ulp::rpcrdma {

using rdma::ConnectionId;

namespace {

constexpr std::uint32_t kSends = 512;
constexpr std::uint8_t kReads = 16;

bool is_stream(ConnectionId connection) { return number_of(connection) >= Relay::kFirstStream; }

QueueSizes sizes_of(std::uint32_t receives) {
  return {.sends = kSends,
          .receives = receives,
          .receive_bytes = kInlineBytes,
          .send_slices = 16,
          .inline_bytes = 64,
          .reads_in_flight = kReads};
}

/// Regions may not be invalidated by a peer (IBA 10.6.5); a server is asked for nothing of the
/// kind.
PrivateData private_data() {
  return to_private_data(encode(ConnectionFacts{
      .takes_invalidation = false, .send_bytes = kInlineBytes, .receive_bytes = kInlineBytes}));
}

std::optional<ConnectionFacts> facts_of(const PrivateData& data) {
  return decode_facts({data.begin(), data.size()});
}

}  // namespace

/// Two connections and the engine between them.
struct Relay::Pair {
  explicit Pair(PiecePool& pool) : records(pool) {}
  struct Side {
    ConnectionId id{};
    bool exists = false;  // It has not ended.
  };
  Side rdma, stream;
  std::string peer;
  std::optional<ConnectionFacts> facts;
  std::uint32_t receives = 0;  // That are kept for it.
  std::uint32_t credits = 0;
  std::unique_ptr<Connection> engine;
  RecordStream records;
  ByteSpan rest;  // Of what the stream has brought: its memory is `kept`.
  std::optional<ReceiveId> kept;
  bool is_ending = false;
};

Relay::Relay(const Options& options) : options_(options) {}
Relay::~Relay() = default;

Relay::Pair* Relay::find(ConnectionId connection) {
  for (const auto& pair : pairs_) {
    const Pair::Side& side = is_stream(connection) ? pair->stream : pair->rdma;
    if (side.exists && side.id == connection) return pair.get();
  }
  return nullptr;
}

std::uint32_t Relay::free_receives() const {
  std::uint32_t taken = 0;
  for (const auto& pair : pairs_) taken += pair->receives;
  return options_.receives - std::min(taken, options_.receives);
}

void Relay::on_requested(const rdma::Requested& requested, TimeNs now) {
  if (is_stream(requested.connection)) return request_of_stream(requested, now);
  request_of_rdma(requested);
}

/// Why a peer is refused; empty: it is not.
std::string Relay::refusal_of(const Meeting& meeting) const {
  if (meeting.reads.initiator == 0)
    return "it allows no RDMA READ (responder resources 0), by which calls are fetched";
  if (const std::uint32_t left = free_receives(); left < kLeastCredits + kBackReceives)
    return fmt::format("{} receives are left, and a client needs {}", left,
                       kLeastCredits + kBackReceives);
  return {};
}

void Relay::request_of_rdma(const rdma::Requested& requested) {
  const std::string peer = requested.meeting.peer.text();
  std::string why = refusal_of(requested.meeting);
  const auto stream = why.empty() ? ground_->tcp.connect(options_.to) : refuse(EINVAL, why);
  if (!stream) {
    note(peer, stream.error().text);
    return ground_->rdma.reject(requested.connection);
  }
  Pair& pair = *pairs_.emplace_back(std::make_unique<Pair>(ground_->pools.records));
  pair.rdma = {requested.connection, true};
  pair.stream = {*stream, true};
  pair.peer = peer;
  pair.facts = facts_of(requested.meeting.private_data);
  const std::uint32_t left = free_receives();
  pair.credits = left >= kCredits + kBackReceives ? kCredits : kLeastCredits;
  pair.receives = pair.credits + kBackReceives;
}

void Relay::request_of_stream(const rdma::Requested& requested, TimeNs now) {
  const std::string peer = requested.meeting.peer.text();
  const bool has_room = free_receives() >= kCredits + kBackReceives;
  const auto connection =
      has_room ? ground_->rdma.connect(rdma::IpService{options_.to},
                                       {.source = {},
                                        .reads = {.initiator = 0, .responder = kReads},
                                        .sizes = sizes_of(kCredits + kBackReceives),
                                        .private_data = private_data()})
               : refuse(ENOBUFS, fmt::format("{} receives are left, and a connection needs {}",
                                             free_receives(), kCredits + kBackReceives));
  if (!connection) {
    note(peer, connection.error().text);
    return ground_->tcp.disconnect(requested.connection, connection.error().text, now);
  }
  static_cast<void>(ground_->tcp.accept(requested.connection, {}, {}));
  Pair& pair = *pairs_.emplace_back(std::make_unique<Pair>(ground_->pools.records));
  pair.rdma = {*connection, true};
  pair.stream = {requested.connection, true};
  pair.peer = peer;
  pair.credits = kCredits;
  pair.receives = kCredits + kBackReceives;
}

void Relay::on_established(const rdma::Established& established, TimeNs now, WorkList&) {
  Pair* const pair = find(established.connection);
  if (pair == nullptr || pair->is_ending) return;
  if (is_stream(established.connection)) {
    begin_server(*pair);
  } else if (options_.role == Role::client) {
    begin_client(*pair, established);
    read_records(*pair, now);
  }
}

/// The NFS server is there: its client may come in.
void Relay::begin_server(Pair& pair) {
  pair.engine = std::make_unique<ServerConnection>(
      ServerConnection::Options{
          .limits = limits_with(pair.facts),
          .peer_takes_invalidation = pair.facts && pair.facts->takes_invalidation,
          .credits = pair.credits},
      ground_->pools);
  const PrivateData data = private_data();
  // If that fails, `on_end` follows and says why.
  static_cast<void>(
      ground_->rdma.accept(pair.rdma.id, sizes_of(pair.receives), {data.begin(), data.size()}));
}

void Relay::begin_client(Pair& pair, const rdma::Established& established) {
  pair.facts = facts_of(established.private_data);
  pair.engine = std::make_unique<ClientConnection>(
      ClientConnection::Options{.limits = limits_with(pair.facts), .calls_max = pair.credits},
      ground_->pools);
}

ReceiveUse Relay::on_message(ConnectionId connection, const Message& message, TimeNs now,
                             WorkList&) {
  Pair* const pair = find(connection);
  if (pair == nullptr) return ReceiveUse::done;
  if (is_stream(connection)) return on_stream(*pair, message, now);
  if (pair->engine == nullptr) return ReceiveUse::done;
  const ReceiveUse use = pair->engine->on_message(message, out_);
  carry_out(*pair, now);
  serve_waiting(now);
  return use;
}

ReceiveUse Relay::on_stream(Pair& pair, const Message& message, TimeNs now) {
  pair.rest = message.bytes();
  read_records(pair, now);
  if (!pair.rest.empty()) pair.kept = message.receive;
  serve_waiting(now);
  return pair.kept ? ReceiveUse::kept : ReceiveUse::done;
}

/// As far as the engine takes them, and memory lasts.
void Relay::read_records(Pair& pair, TimeNs now) {
  while (!pair.rest.empty() && pair.engine != nullptr && pair.engine->takes_records()) {
    switch (pair.records.on_bytes(pair.rest)) {
      case RecordStream::Step::more:
        break;
      case RecordStream::Step::waits:
        return;
      case RecordStream::Step::too_long:
        pair.rest = {};
        return end(pair,
                   fmt::format("a record of {} bytes, and {} is the most", pair.records.announced(),
                               kMessageMax),
                   now);
      case RecordStream::Step::record:
        pair.engine->on_record(pair.records.take(), out_);
        carry_out(pair, now);
    }
  }
}

/// In the record that comes, so that it lies there at once from where RDMA takes it.
std::span<const Slice> Relay::place_of(ConnectionId stream) {
  Pair* const pair = find(stream);
  if (pair == nullptr || pair->engine == nullptr || !pair->engine->takes_records()) return {};
  return pair->records.place();
}

void Relay::on_placed(ConnectionId stream, std::uint32_t bytes, TimeNs now) {
  Pair& pair = *find(stream);
  if (pair.records.on_placed(bytes) == RecordStream::Step::record) {
    pair.engine->on_record(pair.records.take(), out_);
  } else if (const auto record = pair.records.coming(); !record.empty()) {
    pair.engine->on_part(record, pair.records.filled(), out_);
  }
  carry_out(pair, now);
  serve_waiting(now);
}

void Relay::on_done(ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
                    WorkList&) {
  Pair* const pair = find(connection);
  if (pair == nullptr || pair->engine == nullptr) return;
  if (is_stream(connection)) {
    pair->engine->on_written(tag, out_);
  } else {
    pair->engine->on_done(tag, status, out_);
  }
  carry_out(*pair, now);
  serve_waiting(now);
}

void Relay::carry_out(Pair& pair, TimeNs now) {
  carry_out_once(pair, now);
  bool more = true;
  while (more) {
    more = pair.engine->resume(out_);
    carry_out_once(pair, now);
  }
}

/// The stream first: what it sends may lie in a receive that is posted again then.
void Relay::carry_out_once(Pair& pair, TimeNs now) {
  if (!out_.refusal.empty()) note(pair.peer, out_.refusal);
  if (!out_.records.empty())
    ground_->tcp.carry_out(pair.stream.id, {out_.records.begin(), out_.records.size()}, now);
  if (!out_.rdma.empty())
    ground_->rdma.carry_out(pair.rdma.id, {out_.rdma.begin(), out_.rdma.size()}, now);
  out_.clear();
}

/// Those that wait for memory, which an input may have given back.
void Relay::serve_waiting(TimeNs now) {
  for (const auto& pair : pairs_) {
    if (pair->engine == nullptr) continue;
    if (pair->engine->waits_for_memory()) carry_out(*pair, now);
    if (!pair->kept) continue;
    read_records(*pair, now);
    if (pair->rest.empty()) ground_->tcp.post_again(*std::exchange(pair->kept, std::nullopt));
  }
}

void Relay::end(Pair& pair, const std::string& words, TimeNs now) {
  if (std::exchange(pair.is_ending, true)) return;
  if (!words.empty()) note(pair.peer, words);
  if (pair.rdma.exists && options_.role == Role::server && pair.engine == nullptr) {
    ground_->rdma.reject(pair.rdma.id);
  } else if (pair.rdma.exists) {
    ground_->rdma.disconnect(pair.rdma.id, "", now);
  }
  if (pair.stream.exists) ground_->tcp.disconnect(pair.stream.id, "", now);
}

/// Both are over before the engine gives its memory back.
void Relay::on_end(ConnectionId connection, const rdma::End& ended, TimeNs now) {
  Pair* const pair = find(connection);
  if (pair == nullptr) return;  // It was rejected.
  (is_stream(connection) ? pair->stream : pair->rdma).exists = false;
  end(*pair, ended.words, now);
  if (pair->rdma.exists || pair->stream.exists) return;
  std::vector<ReceiveId> kept;
  if (pair->engine != nullptr) pair->engine->on_end(kept);
  for (const ReceiveId receive : kept) ground_->rdma.post_again(receive);
  std::erase_if(pairs_, [pair](const auto& one) { return one.get() == pair; });
  serve_waiting(now);
}

void Relay::disconnect_all(TimeNs now) {
  for (const auto& pair : pairs_) end(*pair, "", now);
}

void Relay::note(const std::string& peer, std::string words) {
  log(LogLevel::warn, "{}: {}", peer, words);
  if (incidents_.size() == kIncidentsMax) incidents_.pop_front();
  incidents_.emplace_back(peer, std::move(words));
}

nlohmann::json Relay::status() const {
  nlohmann::json connections = nlohmann::json::array(), incidents = nlohmann::json::array();
  for (const auto& pair : pairs_) {
    nlohmann::json one = {{"peer", pair->peer}, {"credits", pair->credits}};
    if (pair->engine != nullptr) {
      const Connection::Counts& counts = pair->engine->counts();
      one.update({{"calls", counts.calls},
                  {"replies", counts.replies},
                  {"refused", counts.refused},
                  {"read_bytes", counts.read_bytes},
                  {"written_bytes", counts.written_bytes}});
    }
    connections.push_back(std::move(one));
  }
  for (const auto& [peer, words] : incidents_)
    incidents.push_back({{"peer", peer}, {"words", words}});
  return {{"connections", std::move(connections)}, {"incidents", std::move(incidents)}};
}

}  // namespace verbatim::ulp::rpcrdma
