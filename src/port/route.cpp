#include "port/route.h"

#include "port/encapsulation_infiniband.h"
#include "wire/net/flow_grh.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::port {
namespace {

/// A flow without UDP: it has a GRH.
wire::IpFlow flow_of(const GlobalRoute& grh) {
  return {.source = grh.source,
          .destination = grh.destination,
          .source_port = 0,
          .destination_port = 0,
          .traffic_class = grh.traffic_class,
          .hop_limit = grh.hop_limit,
          .flow_label = grh.flow_label};
}

wire::IpFlow flow_to(const Path& to, const SocketAddress& local) {
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&to)) {
    return flow_of(infiniband->grh.value_or(GlobalRoute{}));
  }
  return wire::flow_of(local, address_of(to));
}

wire::IcrcSeed seed_of(const Path& to, const wire::IpFlow& flow) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&to);
  return infiniband != nullptr ? icrc_seed(*infiniband) : wire::IcrcSeed(flow);
}

/// Unless the link is paced, and has a higher rate.
std::uint32_t rate_kbps_of(const InfinibandPath& to, const link::Properties& link) {
  const std::uint64_t kbps = wire::effective_rate_bps(wire::RateCode{to.static_rate}) / 1000;
  // The link's own rate is rounded.
  return kbps * 101 / 100 < std::uint64_t{link.rate_mbps} * 1000 ? static_cast<std::uint32_t>(kbps)
                                                                 : 0;
}

}  // namespace

Route::Route(link::Stack& from, link::NextHop& hop, const Path& to)
    : path(to),
      links(&from),
      next_hop(&hop),
      headers(flow_to(to, hop.local())),
      seed(seed_of(to, headers)),
      lane(hop.lane()),
      lossless(from.base().properties().lossless),
      has_icrc(from.base().properties().checks_integrity) {
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&to)) {
    header_bytes = static_cast<std::uint8_t>(encapsulation_bytes(*infiniband));
    rate_kbps = rate_kbps_of(*infiniband, from.base().properties());
  } else if (headers.has_grh()) {
    header_bytes = wire::Grh::kSize;
  }
}

void Route::encapsulate(std::size_t packet_bytes, MutableByteSpan out) const {
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&path)) {
    return port::encapsulate(*infiniband, lane, packet_bytes, out);
  }
  wire::encode_packet_grh(headers, packet_bytes, out.first<wire::Grh::kSize>());
}

wire::IpFlow flow_of(const Path& from, const Path& to) { return flow_to(to, address_of(from)); }

}  // namespace verbatim::port
