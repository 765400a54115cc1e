#include "port/route.h"

#include "link/path_flow.h"
#include "port/encapsulation_infiniband.h"
#include "wire/net/flow_grh.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::port {
namespace {

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
      headers(link::flow_of(hop.local(), to)),
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

wire::IpFlow flow_of(const Path& from, const Path& to) {
  return link::flow_of(address_of(from), to);
}

}  // namespace verbatim::port
