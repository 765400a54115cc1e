// Ports whose cable ends in another fabric: what leaves by them is carried away, what comes arrives
// as if it had crossed a cable.
#include "fabric/management/initial_node.h"
#include "fabric/management/management_net.h"

namespace verbatim::fabric {

void ManagementNet::add_trunk(PortPlace port, Rate rate, TimeNs now) {
  trunks_.emplace(port, false);
  wire::PortInfo info = port_info(port);
  set_rate(info, rate);
  mad::SubnetEffects effects;
  agents_[port.node].on_new_cable(port.port, info, effects);
  changes_.push_back({port.node, effects});
  settle(now);
}

bool ManagementNet::is_trunk_up(PortPlace port) const {
  const auto found = trunks_.find(port);
  return found != trunks_.end() && found->second;
}

void ManagementNet::set_trunk_link(PortPlace port, std::optional<Rate> rate, TimeNs now) {
  if (!rate) {
    take_trunk_down(port, now);
  } else if (!is_trunk_up(port)) {
    trunks_.at(port) = true;
    mad::SubnetEffects effects;
    agents_[port.node].on_link_up(port.port, rate->width, rate->speed, now, effects);
    changes_.push_back({port.node, effects});
  }
  settle(now);
}

void ManagementNet::take_trunk_down(PortPlace port, TimeNs now) {
  if (!is_trunk_up(port)) return;
  trunks_.at(port) = false;
  ++counts_[port.node].of(port.port).link_downed;
  mad::SubnetEffects effects;
  agents_[port.node].on_link_down(port.port, now, effects);
  effects.changed_port = port.port;  // A manager may have taken it down already.
  changes_.push_back({port.node, effects});
}

void ManagementNet::depart_by_trunk(const Packet& packet, PortPlace out, TimeNs now) {
  if (!is_trunk_up(out)) return;
  PortCounts& counts = counts_[out.node].of(out.port);
  if (!packet.smp && port_info(out).state != wire::PortState::active) {
    ++counts.inactive_discards;
    return;
  }
  if (!packet.smp && !passes_partition(packet, out, false, now)) return;
  counts.count_transmitted(words_of_datagram(packet.datagram.path.grh.has_value()));
  ManagementDatagram datagram = packet.datagram;
  if (packet.smp) encode(*packet.smp, datagram.mad);
  carrier_->on_departure(out, datagram);
}

void ManagementNet::receive(PortPlace in, const ManagementDatagram& datagram, TimeNs now) {
  if (!is_trunk_up(in)) return;
  Packet packet{.datagram = datagram};
  const bool is_smp = datagram.destination_qp == Qpn(0);
  if (is_smp ? !decode(packet) : !wire::decode_mad_header(datagram.mad).has_value()) return;
  counts_[in.node].of(in.port).count_received(words_of_datagram(datagram.path.grh.has_value()));
  const bool passes = is_smp || (port_info(in).state >= wire::PortState::armed &&
                                 passes_partition(packet, in, true, now));
  if (passes) walk(packet, arrive(packet, in, now), now);
  settle(now);
}

}  // namespace verbatim::fabric
