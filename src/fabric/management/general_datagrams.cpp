// Datagrams of QP1: their keys, and the agents that answer them.
#include <algorithm>

#include "fabric/management/management_net.h"
#include "wire/ib/partition_enforcement.h"
#include "wire/ib/pkey_table.h"
#include "wire/mad/management_packet.h"
#include "wire/performance/performance_packet.h"

namespace verbatim::fabric {
namespace {

std::optional<Gid> source_gid(const InfinibandPath& path) {
  if (!path.grh) return std::nullopt;
  return path.grh->source;
}

wire::BadKeyDetails bad_key(const ManagementDatagram& datagram, std::uint32_t key) {
  const InfinibandPath& path = datagram.path;
  return {.source_lid = path.slid,
          .destination_lid = path.dlid,
          .key = key,
          .service_level = path.service_level,
          .source_qpn = datagram.source_qp.value(),
          .destination_qpn = datagram.destination_qp.value(),
          .source_gid = source_gid(path).value_or(Gid{}),
          .destination_gid = path.grh ? path.grh->destination : Gid{}};
}

wire::SwitchBadPKeyDetails bad_p_key_at_switch(const ManagementDatagram& datagram) {
  // All fields but the GIDs, which are there if the packet has a GRH.
  constexpr std::uint16_t kAll = 0x03ff;
  constexpr std::uint16_t kGids = 0x0180;
  const wire::BadKeyDetails all = bad_key(datagram, datagram.pkey);
  return {.valid = static_cast<std::uint16_t>(datagram.path.grh ? kAll : kAll & ~kGids),
          .source_lid = all.source_lid,
          .destination_lid = all.destination_lid,
          .p_key = static_cast<PKey>(datagram.pkey),
          .service_level = all.service_level,
          .source_qpn = all.source_qpn,
          .destination_qpn = all.destination_qpn,
          .source_gid = all.source_gid,
          .destination_gid = all.destination_gid};
}

}  // namespace

/// The P_Key table by which QP1 at `at` receives: a switch has one at port 0 (IBA 10.9.2).
std::span<const std::uint16_t> ManagementNet::own_p_keys(PortPlace at) const {
  return tables_[at.node]->p_keys(is_switch(at.node) ? 0 : at.port);
}

bool ManagementNet::has_p_key(PortPlace at, std::uint16_t key, bool (*passes)(PKey, PKey)) const {
  return std::ranges::any_of(tables_[at.node]->p_keys(at.port),
                             [=](std::uint16_t entry) { return passes(PKey{entry}, PKey{key}); });
}

/// A switch's external port may keep partitions apart (IBA 14.2.5.6: PartitionEnforcement).
bool ManagementNet::passes_partition(const Packet& packet, PortPlace at, bool inbound, TimeNs now) {
  const wire::PortInfo& port = port_info(at);
  const bool is_enforced = is_switch(at.node) && (inbound ? port.partition_enforcement_inbound
                                                          : port.partition_enforcement_outbound);
  const auto passes = inbound ? wire::may_enter : wire::may_leave;
  if (!is_enforced || has_p_key(at, packet.datagram.pkey, passes)) return true;
  PortCounts& counts = counts_[at.node].of(at.port);
  ++(inbound ? counts.receive_constraint_errors : counts.transmit_constraint_errors);
  mad::SubnetEffects effects;
  agents_[at.node].on_bad_key_at_switch(at.port, bad_p_key_at_switch(packet.datagram), now,
                                        effects);
  changes_.push_back({at.node, effects});
  return false;
}

bool ManagementNet::has_right_keys(const Packet& packet, PortPlace at, TimeNs now) {
  const ManagementDatagram& datagram = packet.datagram;
  const bool has_partition = wire::matching_entry(own_p_keys(at), PKey{datagram.pkey}).has_value();
  if (has_partition && datagram.qkey == raw(wire::kManagementQKey)) return true;
  const auto trap = has_partition ? wire::TrapNumber::bad_q_key : wire::TrapNumber::bad_p_key;
  mad::SubnetEffects effects;
  agents_[at.node].on_bad_key(at.port, trap,
                              bad_key(datagram, has_partition ? datagram.qkey : datagram.pkey), now,
                              effects);
  changes_.push_back({at.node, effects});
  return false;
}

ManagementNet::Out ManagementNet::deliver_general(Packet& packet, PortPlace at, TimeNs now) {
  if (packet.datagram.destination_qp != wire::kManagementQpn) {  // A program's, which has keys.
    if (!is_switch(at.node)) hand_over(packet, at, now);
    return std::nullopt;
  }
  if (!has_right_keys(packet, at, now)) return std::nullopt;
  auto& bytes = packet.datagram.mad;
  const auto header = *wire::decode_mad_header(bytes);
  if (header.management_class == wire::MadClass::performance_management) {
    auto request = wire::decode_performance_packet(bytes);
    if (request && performance_agents_[at.node].on_packet(*request)) {
      encode(*request, bytes);
      return answer(packet, at, now);
    }
    if (!request && is_get_or_set(header.method)) {
      return refuse(packet, wire::MadStatus::bad_version, at, now);
    }
  }
  if (is_switch(at.node)) return refuse(packet, wire::MadStatus::unsupported_attribute, at, now);
  hand_over(packet, at, now);
  return std::nullopt;
}

}  // namespace verbatim::fabric
