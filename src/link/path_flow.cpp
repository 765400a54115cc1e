#include "link/path_flow.h"

namespace verbatim::link {
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

/// The GRH of a RoCE path: what the packets' IP header or GRH says.
const GlobalRoute& roce_grh(const Path& to) {
  static constexpr GlobalRoute kNone;
  if (const auto* const v2 = std::get_if<RoceV2Path>(&to)) return v2->grh;
  if (const auto* const v1 = std::get_if<RoceV1Path>(&to)) return v1->grh;
  return kNone;
}

}  // namespace

wire::IpFlow flow_of(const SocketAddress& local, const Path& to) {
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&to)) {
    return flow_of(infiniband->grh.value_or(GlobalRoute{}));
  }
  const GlobalRoute& grh = roce_grh(to);
  wire::IpFlow flow = wire::flow_of(local, address_of(to));
  flow.traffic_class = grh.traffic_class;
  flow.hop_limit = grh.hop_limit;
  flow.flow_label = flow.is_ipv4() ? 0 : grh.flow_label;
  return flow;
}

}  // namespace verbatim::link
