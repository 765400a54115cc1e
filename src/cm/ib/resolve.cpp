// Service id resolution, both sides: SIDR_REQ, SIDR_REP (IBA 12.11).
#include "cm/ib/compose.h"
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {
namespace {

/// How long an answer is kept for repeated questions: twice the time that a requester waits.
constexpr std::uint8_t kAnswerTimeout = 20;

/// A SIDR_REQ names no GIDs: over RoCE they are those of the addresses, over InfiniBand unknown.
Path path_of(const wire::CmSidrReq& request, const ReplyPath& reply) {
  const bool has_addresses = !std::holds_alternative<InfinibandPath>(reply.from);
  return {.local = reply.to,
          .remote = reply.from,
          .local_gid = has_addresses ? gid_of(reply.to) : Gid{},
          .remote_gid = has_addresses ? gid_of(verbatim::address_of(reply.from)) : Gid{},
          .pkey = request.pkey};
}

}  // namespace

Result<ConnectionId> ConnectionManager::resolve(const ResolveParameters& parameters, TimeNs now,
                                                Effects& out) {
  const std::size_t room = parameters.ends.empty() ? kResolvePrivateBytes : kIpResolvePrivateBytes;
  if (auto ok = check_private_data(parameters.private_data, room, "resolve"); !ok) {
    return std::unexpected(std::move(ok).error());
  }
  if (auto ok = check_endpoints(parameters.ends, "resolve"); !ok) {
    return std::unexpected(std::move(ok).error());
  }
  Connection* resolution = create(State::resolve_sent, parameters.path, out);
  if (resolution == nullptr) return refuse(ENOMEM, "resolve: too many connections");
  resolution->active = true;
  resolution->transaction = next_transaction();
  resolution->service = parameters.service;
  resolution->set_retry(parameters.retry);
  wire::CmSidrReq request{.request_id = static_cast<wire::CommunicationId>(resolution->id),
                          .pkey = parameters.path.pkey,
                          .service_id = parameters.service};
  put_request(request.private_data, parameters.ends, parameters.private_data);
  send(*resolution, request, out);
  await_answer(*resolution, now);
  return resolution->id;
}

void ConnectionManager::on_message(const wire::CmSidrRep& reply, const Arrival& arrival,
                                   Effects& out) {
  Connection* resolution = find(static_cast<ConnectionId>(reply.request_id));
  if (resolution == nullptr || resolution->state != State::resolve_sent) {
    ++counters_.unknown;
    return;
  }
  if (!is_from_peer(*resolution, arrival)) return;
  out.push_back(SidrResponse{.resolution = resolution->id,
                             .status = reply.status,
                             .qpn = reply.qpn,
                             .qkey = reply.qkey,
                             .private_data = private_data_of(reply.private_data)});
  erase(*resolution);
}

void ConnectionManager::on_message(const wire::CmSidrReq& request, const Arrival& arrival,
                                   Effects& out) {
  const PeerKey peer{
      .source = source_of(arrival.reply_path.from), .id = request.request_id, .resolves = true};
  if (const auto known = peers_.find(peer); known != peers_.end()) {
    ++counters_.duplicates;
    const Connection& resolution = *find(known->second);
    if (resolution.state == State::resolve_answered) out.push_back(resolution.last);
    return;
  }
  const IpEndpoints ends =
      endpoints_of(request.service_id, request.private_data, arrival.reply_path.to);
  const Path path = path_of(request, arrival.reply_path);
  const auto listener = listeners_.find({.service = request.service_id,
                                         .datagram = true,
                                         .address = ends.destination,
                                         .gid = path.local_gid});
  if (!listener) {
    out.push_back(
        refuse_resolution(arrival.reply_path, request, SidrStatus::service_not_supported));
    return;
  }
  Connection* const resolution =
      admit(peer.source, *listener, out) ? create(State::resolve_received, path, out) : nullptr;
  if (resolution == nullptr) {
    out.push_back(refuse_resolution(arrival.reply_path, request, SidrStatus::no_qp));
    return;
  }
  resolution->transaction = arrival.reply_path.transaction;
  set_peer(*resolution, peer);
  deliver_resolution(request, *resolution, *listener, ends, out);
}

void ConnectionManager::deliver_resolution(const wire::CmSidrReq& request, Connection& resolution,
                                           ListenerId listener, const IpEndpoints& ends,
                                           Effects& out) {
  resolution.service = request.service_id;
  wait_at(resolution, listener);
  out.push_back(SidrRequest{.resolution = resolution.id,
                            .listener = listener,
                            .service = request.service_id,
                            .ends = ends,
                            .path = resolution.path,
                            .private_data = private_data_of(
                                request.private_data, header_bytes(request.service_id, ends))});
}

Result<void> ConnectionManager::answer(ConnectionId id, const SidrAnswer& answer, TimeNs now,
                                       Effects& out) {
  auto resolution = find_in(id, State::resolve_received, "answer");
  if (!resolution) return std::unexpected(std::move(resolution).error());
  if (auto ok = check_private_data(answer.private_data, kAnswerPrivateBytes, "answer"); !ok) {
    return ok;
  }
  send_answer(**resolution, answer, now, out);
  return {};
}

void ConnectionManager::send_answer(Connection& resolution, const SidrAnswer& answer, TimeNs now,
                                    Effects& out) {
  wire::CmSidrRep reply{.request_id = resolution.remote_id,
                        .status = answer.status,
                        .qpn = answer.qpn,
                        .service_id = resolution.service,
                        .qkey = answer.qkey};
  put(reply.private_data, answer.private_data);
  send(resolution, reply, out);
  resolution.released = true;
  enter(resolution, State::resolve_answered, out);
  set_timer(resolution, now + wire::cm_time_ns(kAnswerTimeout));
}

}  // namespace verbatim::cm
