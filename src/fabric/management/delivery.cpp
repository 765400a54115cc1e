// How a management datagram gets from port to port, and what happens where it arrives.
#include <utility>

#include "fabric/management/management_net.h"
#include "wire/ib/pkey_table.h"

namespace verbatim::fabric {
namespace {

/// A path that visits more nodes is a loop in the forwarding tables. Real packets die of old age.
constexpr unsigned kHopsMax = 1024;
constexpr std::uint16_t kFirstMulticastLid = 0xc000;

using wire::kPermissiveLid;
using Verdict = mad::SubnetAgent::Verdict;

}  // namespace

void ManagementNet::send(PortPlace from, const ManagementDatagram& datagram, TimeNs now) {
  Packet packet{.datagram = datagram};
  if (datagram.destination_qp != Qpn(0)) {
    if (!wire::decode_mad_header(datagram.mad)) return;
  } else if (!decode(packet)) {
    return;
  }
  walk(packet, depart(packet, from, now), now);
  settle(now);
}

void ManagementNet::arrive_by_data(PortPlace in, const ManagementDatagram& datagram, TimeNs now) {
  Packet packet{.datagram = datagram};
  if (!wire::decode_mad_header(datagram.mad)) return;
  walk(packet, deliver_general(packet, in, now), now);
  settle(now);
}

/// An SMP of another class version finds its way, too: its destination says what is wrong.
bool ManagementNet::decode(Packet& packet) {
  auto header = wire::decode_mad_header(packet.datagram.mad);
  if (!header) return false;
  packet.has_other_version = header->class_version != wire::Smp::kClassVersion;
  header->class_version = wire::Smp::kClassVersion;
  auto mad = packet.datagram.mad;
  encode(*header, std::span(mad).first<wire::MadHeader::kSize>());
  const auto smp = wire::decode_smp(mad);
  if (smp) packet.smp = *smp;
  return smp.has_value();
}

void ManagementNet::walk(Packet& packet, Out out, TimeNs now) {
  for (unsigned hops = 0; out && hops < kHopsMax; ++hops) {
    const auto in = cross(packet, *out, now);
    if (!in) return;
    out = arrive(packet, *in, now);
  }
}

std::optional<PortPlace> ManagementNet::cross(const Packet& packet, PortPlace out, TimeNs now) {
  const std::uint32_t index = link_of(out);
  if (index >= links_.size()) depart_by_trunk(packet, out, now);
  if (index >= links_.size() || !links_[index].is_up) return std::nullopt;
  const Link& link = topology_.links[index];
  const PortPlace in = link.a == out ? link.b : link.a;
  // Until both ends are active only lane 15 passes, which is that of SMPs.
  const bool is_active = port_info(out).state == wire::PortState::active &&
                         port_info(in).state >= wire::PortState::armed;
  if (!packet.smp && !is_active) {
    ++counts_[out.node].of(out.port).inactive_discards;
    return std::nullopt;
  }
  if (!packet.smp && !passes_partition(packet, out, false, now)) return std::nullopt;
  const std::uint64_t words = words_of_datagram(packet.datagram.path.grh.has_value());
  PortCounts& received = counts_[in.node].of(in.port);
  counts_[out.node].of(out.port).count_transmitted(words);
  received.count_received(words);
  constexpr std::uint64_t kVcrcBits = 16;
  const std::uint32_t errors = links_[index].bit_errors.errors_in(words * 32 + kVcrcBits);
  if (LinkWatcher* const watcher = links_[index].watcher; watcher != nullptr) {
    show(packet, *watcher, index, link.b == out, errors != 0);
  }
  if (received.integrity.is_lost_with(errors != 0, port_info(in).local_physical_errors)) {
    ++received.link_integrity_errors;
    // Both ends train again. It takes no time, and no packet is lost by it.
    for (const PortPlace end : {out, in}) ++counts_[end.node].of(end.port).link_error_recoveries;
    tell_link_integrity_error(in, now);
  }
  if (errors != 0) {
    received.symbol_errors += errors;
    ++received.damaged_packets;
    return std::nullopt;
  }
  if (!packet.smp && !passes_partition(packet, in, true, now)) return std::nullopt;
  return in;
}

void ManagementNet::show(const Packet& packet, LinkWatcher& watcher, std::uint32_t link,
                         bool from_b, bool is_damaged) {
  ManagementDatagram datagram = packet.datagram;
  if (packet.smp) encode(*packet.smp, datagram.mad);
  watcher.on_crossing(link, from_b, datagram, is_damaged);
}

bool ManagementNet::is_local(PortPlace at, Lid lid) const {
  const wire::PortInfo& port = agents_[at.node].node().management_port(at.port).info;
  return (raw(port.lid) ^ raw(lid)) >> port.lmc == 0;
}

mad::SmiPlace ManagementNet::smi_place(PortPlace at) const {
  return {.is_switch = is_switch(at.node),
          .ports = agents_[at.node].node().info.ports,
          .port = at.port};
}

ManagementNet::Out ManagementNet::depart(Packet& packet, PortPlace from, TimeNs now) {
  if (!packet.smp || !packet.smp->route) return route_by_lid(packet, from, now);
  mad::SmiPlace place = smi_place(from);
  place.peer = packet.datagram.path.dlid;
  return take_step(packet, mad::smi_send(*packet.smp->route, place), from, now);
}

ManagementNet::Out ManagementNet::take_step(Packet& packet, const mad::SmiStep& step, PortPlace at,
                                            TimeNs now) {
  InfinibandPath& path = packet.datagram.path;
  switch (step.kind) {
    case mad::SmiStep::Kind::discard:
      return std::nullopt;
    case mad::SmiStep::Kind::deliver:
      return deliver(packet, at, now);
    case mad::SmiStep::Kind::transmit:
      path.dlid = path.slid = kPermissiveLid;
      return PortPlace{at.node, step.port};
    case mad::SmiStep::Kind::by_lid:
      path.dlid = step.lid;
      if (path.slid == kPermissiveLid) {
        path.slid = agents_[at.node].node().management_port(at.port).info.lid;
      }
      return route_by_lid(packet, at, now);
  }
  return std::nullopt;
}

/// The packet begins its way, or its LID-routed part, at this node.
ManagementNet::Out ManagementNet::route_by_lid(Packet& packet, PortPlace from, TimeNs now) {
  if (is_switch(from.node)) return arrive_by_lid(packet, {from.node, 0}, now);
  if (is_local(from, packet.datagram.path.dlid)) return arrive_by_lid(packet, from, now);
  return from;
}

ManagementNet::Out ManagementNet::arrive(Packet& packet, PortPlace in, TimeNs now) {
  if (packet.datagram.path.dlid != kPermissiveLid) return arrive_by_lid(packet, in, now);
  if (!packet.smp) return std::nullopt;  // Only SMPs may have the permissive LID.
  if (!packet.smp->route) return deliver(packet, in, now);
  return take_step(packet, mad::smi_receive(*packet.smp->route, smi_place(in)), in, now);
}

ManagementNet::Out ManagementNet::arrive_by_lid(Packet& packet, PortPlace in, TimeNs now) {
  const Lid lid = packet.datagram.path.dlid;
  const mad::SubnetNode& node = agents_[in.node].node();
  if (node.is_switch()) {
    const bool has_route =
        raw(lid) < kFirstMulticastLid && raw(lid) <= node.switch_info->linear_forwarding_top;
    const std::uint8_t out =
        has_route ? tables_[in.node]->output_port(lid) : wire::LinearForwardingTable::kNoPort;
    if (out > node.info.ports) ++counts_[in.node].of(in.port).dlid_mapping_errors;
    if (out == in.port && out != 0) ++counts_[in.node].of(in.port).looping_errors;
    if (out > node.info.ports || (out == in.port && out != 0)) return std::nullopt;
    if (out != 0) return PortPlace{in.node, out};
  }
  if (!is_local(in, lid)) return std::nullopt;
  if (is_for_another_subnet(packet, in)) return forward(packet, in);
  if (!packet.smp || !packet.smp->route) return deliver(packet, in, now);
  mad::SmiPlace place = smi_place(in);
  place.came_by_lid = true;
  return take_step(packet, mad::smi_receive(*packet.smp->route, place), in, now);
}

ManagementNet::Out ManagementNet::deliver(Packet& packet, PortPlace at, TimeNs now) {
  return packet.smp ? deliver_smp(packet, at, now) : deliver_general(packet, at, now);
}

ManagementNet::Out ManagementNet::deliver_smp(Packet& packet, PortPlace at, TimeNs now) {
  if (packet.has_other_version) return refuse(packet, wire::MadStatus::bad_version, at, now);
  mad::SubnetEffects effects;
  const Verdict verdict =
      agents_[at.node].on_smp({at.port, packet.datagram.path.slid}, *packet.smp, now, effects);
  changes_.push_back({at.node, effects});
  switch (verdict) {
    case Verdict::answer:
      return answer(packet, at, now);
    case Verdict::drop:
      return std::nullopt;
    case Verdict::software:
      break;
  }
  if (is_switch(at.node)) return refuse(packet, wire::MadStatus::unsupported_attribute, at, now);
  hand_over(packet, at, now);
  return std::nullopt;
}

ManagementNet::Out ManagementNet::refuse(Packet& packet, wire::MadStatus status, PortPlace at,
                                         TimeNs now) {
  auto header = *wire::decode_mad_header(packet.datagram.mad);
  const auto method = packet.smp ? packet.smp->method : header.method;
  if (!is_get_or_set(method)) return std::nullopt;
  if (packet.smp) {
    packet.has_other_version = false;
    packet.smp->method = wire::MadMethod::get_response;
    packet.smp->status = status;
  } else {
    header.method = wire::MadMethod::get_response;
    header.status = raw(status);
    encode(header, std::span(packet.datagram.mad).first<wire::MadHeader::kSize>());
  }
  return answer(packet, at, now);
}

ManagementNet::Out ManagementNet::answer(Packet& packet, PortPlace at, TimeNs now) {
  InfinibandPath& path = packet.datagram.path;
  std::swap(path.dlid, path.slid);
  if (path.grh) {
    std::swap(path.grh->source, path.grh->destination);
    path.grh->hop_limit = GlobalRoute{}.hop_limit;
  }
  std::swap(packet.datagram.source_qp, packet.datagram.destination_qp);
  if (!packet.smp) {
    const auto keys = own_p_keys(at);
    packet.datagram.pkey = keys[*wire::matching_entry(keys, PKey{packet.datagram.pkey})];
  }
  if (packet.smp && packet.smp->route) packet.smp->route->is_returning = true;
  return depart(packet, at, now);
}

void ManagementNet::hand_over(Packet& packet, PortPlace at, TimeNs now) {
  if (packet.smp) encode(*packet.smp, packet.datagram.mad);
  software_.on_datagram(at, packet.datagram, now);
}

}  // namespace verbatim::fabric
