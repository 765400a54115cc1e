#include "cm/ib/compose.h"

#include <fmt/format.h>

namespace verbatim::cm {
namespace {

/// RoCE has no LIDs, and those of another subnet are not known: the fields have this one, as with
/// Linux.
constexpr Lid kPermissiveLid{0xffff};

SocketAddress address_of(const Gid& gid, bool ipv4, std::uint16_t port, std::uint32_t scope_id) {
  if (ipv4) {
    return SocketAddress::ipv4({gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]}, port);
  }
  return SocketAddress::ipv6(gid.bytes, port, gid.is_link_local() ? scope_id : 0);
}

wire::CmPath to_wire(const Path& path) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path.remote);
  const bool has_lids = infiniband != nullptr && !may_leave_subnet(path.hop_limit);
  return {.local_lid = raw(has_lids ? infiniband->slid : kPermissiveLid),
          .remote_lid = raw(has_lids ? infiniband->dlid : kPermissiveLid),
          .local_gid = path.local_gid,
          .remote_gid = path.remote_gid,
          .flow_label = path.flow_label & 0xfffff,
          .packet_rate = path.packet_rate,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .service_level = path.service_level,
          .subnet_local = !may_leave_subnet(path.hop_limit),
          .local_ack_timeout = path.ack_timeout};
}

InfinibandPath path_in_subnet(const wire::CmPath& theirs, const InfinibandPath& from) {
  return {.dlid = Lid{theirs.local_lid},
          .slid = Lid{theirs.remote_lid},
          .service_level = theirs.service_level,
          .static_rate = theirs.packet_rate,
          .port = from.port,
          .grh = from.grh};
}

/// Back to the router of this subnet, by which the REQ came.
InfinibandPath path_through_router(const wire::CmPath& theirs, const InfinibandPath& from) {
  return {.dlid = from.dlid,
          .slid = from.slid,
          .service_level = from.service_level,
          .static_rate = theirs.packet_rate,
          .port = from.port,
          .grh = GlobalRoute{.source = theirs.remote_gid,
                             .destination = theirs.local_gid,
                             .flow_label = theirs.flow_label,
                             .traffic_class = theirs.traffic_class,
                             .hop_limit = theirs.hop_limit}};
}

}  // namespace

Result<void> check_private_data(ByteSpan data, std::size_t most, const char* call) {
  if (data.size() <= most) return {};
  return refuse(
      EINVAL, fmt::format("{}: {} bytes of private data, at most {} fit", call, data.size(), most));
}

Result<void> check_endpoints(const IpEndpoints& ends, const char* call) {
  if (ends.source.family() == ends.destination.family()) return {};
  return refuse(EINVAL,
                fmt::format("{}: source and destination are of two address families", call));
}

wire::RdmaIpHeader header_of(const IpEndpoints& ends) {
  return {.ipv4 = ends.source.is_ipv4(),
          .source_port = ends.source.port(),
          .source = Gid{ends.source.ipv6_bytes()},
          .destination = Gid{ends.destination.ipv6_bytes()}};
}

IpEndpoints endpoints_of(ServiceId service, ByteSpan private_data,
                         const SocketAddress& arrived_at) {
  if (!wire::is_rdma_ip(service) && !wire::is_sdp(service)) return {};
  const auto header = wire::is_sdp(service)
                          ? wire::decode_sdp_addresses(private_data)
                          : wire::decode_rdma_ip(private_data.first<wire::RdmaIpHeader::kSize>());
  if (!header) return {};  // AF_IB has no header.
  const std::uint32_t scope_id = arrived_at.scope_id();
  return {address_of(header->source, header->ipv4, header->source_port, scope_id),
          address_of(header->destination, header->ipv4, wire::port_of(service), scope_id)};
}

std::size_t header_bytes(ServiceId service, const IpEndpoints& ends) {
  return ends.empty() || wire::is_sdp(service) ? 0 : wire::RdmaIpHeader::kSize;
}

wire::CmReq request_of(const ConnectParameters& parameters) {
  const QueuePairOffer& offer = parameters.offer;
  wire::CmReq req{
      .service_id = parameters.service,
      .local_qpn = offer.qpn,
      .responder_resources = offer.responder_resources,
      .initiator_depth = offer.initiator_depth,
      .remote_response_timeout = parameters.retry.response_timeout,
      .transport = parameters.transport,
      .end_to_end_flow_control = offer.flow_control,
      .starting_psn = offer.starting_psn,
      .local_response_timeout = parameters.retry.response_timeout,
      .retry_count = parameters.retry_count,
      .pkey = parameters.path.pkey,
      .path_mtu = raw(parameters.path.mtu),
      .rnr_retry_count = offer.rnr_retry_count,
      .max_cm_retries = parameters.retry.retries,
      .srq = offer.srq,
      .primary = to_wire(parameters.path),
  };
  if (parameters.transport == CmTransport::xrc) {
    // An XRC initiator answers no READs and receives nothing (annex A14).
    req.responder_resources = 0;
    req.srq = false;
  }
  put_request(req.private_data, parameters.ends, parameters.private_data);
  return req;
}

wire::CmRep reply_of(const AcceptParameters& parameters, CmTransport transport) {
  const QueuePairOffer& offer = parameters.offer;
  wire::CmRep rep{.starting_psn = offer.starting_psn,
                  .responder_resources = offer.responder_resources,
                  .initiator_depth = offer.initiator_depth,
                  .target_ack_delay = parameters.target_ack_delay,
                  .end_to_end_flow_control = offer.flow_control,
                  .rnr_retry_count = offer.rnr_retry_count,
                  .srq = offer.srq};
  if (transport == CmTransport::xrc) {  // The target's number is in the EE context's field.
    rep.local_eecn = offer.qpn;
    rep.srq = true;
  } else {
    rep.local_qpn = offer.qpn;
  }
  put(rep.private_data, parameters.private_data);
  return rep;
}

Path path_of(const wire::CmReq& req, const verbatim::Path& from, const SocketAddress& to) {
  const wire::CmPath& theirs = req.primary;
  verbatim::Path remote = from;
  std::uint8_t service_level = theirs.service_level;
  if (auto* const lids = std::get_if<InfinibandPath>(&remote)) {
    *lids =
        theirs.subnet_local ? path_in_subnet(theirs, *lids) : path_through_router(theirs, *lids);
    service_level = lids->service_level;
  }
  return {.local = to,
          .remote = remote,
          .local_gid = theirs.remote_gid,
          .remote_gid = theirs.local_gid,
          .pkey = req.pkey,
          .mtu = static_cast<Mtu>(req.path_mtu),
          .packet_rate = theirs.packet_rate,
          .service_level = service_level,
          .traffic_class = theirs.traffic_class,
          .flow_label = theirs.flow_label,
          .hop_limit = theirs.hop_limit,
          .ack_timeout = theirs.local_ack_timeout};
}

QueuePairOffer offer_of(const wire::CmReq& req) {
  return {.qpn = req.local_qpn,
          .starting_psn = req.starting_psn,
          .responder_resources = req.initiator_depth,
          .initiator_depth = req.responder_resources,
          .flow_control = req.end_to_end_flow_control,
          .rnr_retry_count = req.rnr_retry_count,
          .srq = req.srq};
}

QueuePairOffer offer_of(const wire::CmRep& rep, CmTransport transport) {
  return {.qpn = transport == CmTransport::xrc ? rep.local_eecn : rep.local_qpn,
          .starting_psn = rep.starting_psn,
          .responder_resources = rep.initiator_depth,
          .initiator_depth = rep.responder_resources,
          .flow_control = rep.end_to_end_flow_control,
          .rnr_retry_count = rep.rnr_retry_count,
          .srq = rep.srq};
}

}  // namespace verbatim::cm
