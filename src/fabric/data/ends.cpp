#include "fabric/data/ends.h"

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>

#include "fabric/data/walk/routes.h"

namespace verbatim::fabric {
namespace {

/// So long the first packet waits for a program that takes nothing, if the host has others.
constexpr std::uint32_t kPatienceUs = 500'000;

}  // namespace

Result<std::uint32_t> Ends::take(PortPlace place) const {
  const NodeIndex host = image_.station_of(place);
  NodeRecord& node = image_.node(host);
  if (node.kind != RecordKind::host) {
    return refuse(EINVAL,
                  fmt::format("node {} port {} is no port of a host", place.node, place.port));
  }
  free_drained();
  const std::uint64_t free_programs = ~node.ends.load();
  if (free_programs == 0) {
    return refuse(EAGAIN, fmt::format("{} programs use this port of the host: there is room for no "
                                      "other",
                                      kHostProgramsMax));
  }
  const unsigned port = kFirstEndPort + static_cast<unsigned>(std::countr_zero(free_programs));
  auto end = take_free(host, port, Passes::all);
  if (!end) return end;
  node.ends.fetch_or(mask_of_program(port));
  limit_waiting(host);
  return end;
}

Result<std::uint32_t> Ends::take_trunk(PortPlace place) const {
  const NodeIndex index = image_.station_of(place);
  const NodeRecord& node = image_.node(index);
  const unsigned port = node.kind == RecordKind::switch_node ? place.port : kCablePort;
  if (index == 0 || place.port == 0 || port > node.ports) {
    return refuse(EINVAL, fmt::format("node {} has no port {}", place.node, place.port));
  }
  PortRecord& record = image_.port(node, port);
  if (record.out != 0) return refuse(EBUSY, "the port has a cable already");
  free_drained();
  record.has_cable_up = true;
  return take_free(index, port, Passes::nothing);
}

Result<std::uint32_t> Ends::take_free(NodeIndex node, unsigned port, Passes passes) const {
  for (std::uint32_t end = 1; end < image_.extent().ends; ++end) {
    std::uint32_t free = EndRecord::kFree;
    if (!image_.end(end).state.compare_exchange_strong(free, EndRecord::kTaken)) continue;
    connect(end, node, static_cast<std::uint8_t>(port), passes);
    return end;
  }
  return refuse(EAGAIN, fmt::format("{} programs use this fabric: there is room for no other",
                                    image_.extent().ends - 1));
}

void Ends::connect(std::uint32_t end, NodeIndex node, std::uint8_t port, Passes passes) const {
  EndRecord& record = image_.end(end);
  record.host = node;
  record.host_port = port;
  record.groups_end = 0;
  record.sleeps = record.has_credit_news = record.waits_for_slots = 0;
  record.generation.fetch_add(1);
  LinkRecord& out = image_.link(image_.from_end(end));
  LinkRecord& in = image_.link(image_.to_end(end));
  out.start = in.end = image_.node_of_end(end);
  out.end = in.start = node;
  out.end_port = in.start_port = port;
  out.counters = in.counters = {};
  in.hoq_life_us = 0;
  image_.ring(image_.to_end(end)).is_passed_over = 0;
  out.passes = in.passes = static_cast<std::uint8_t>(passes);
  PortRecord& port_record = image_.port(image_.node(node), port);
  port_record.out = image_.to_end(end);
  port_record.in = image_.from_end(end);
}

bool Ends::is_steered(PortPlace host, std::uint32_t qpn_range) const {
  const NodeRecord& node = image_.node(image_.station_of(host));
  return node.kind == RecordKind::host &&
         image_.host_tables(node).ports_by_qpn[qpn_range % kQpnRanges] != 0;
}

void Ends::steer(std::uint32_t end, std::uint32_t qpn_range) const {
  const EndRecord& record = image_.end(end);
  image_.host_tables(image_.node(record.host)).ports_by_qpn[qpn_range % kQpnRanges] =
      record.host_port;
}

void Ends::set_member(std::uint32_t end, Lid group, bool is_member) const {
  EndRecord& record = image_.end(end);
  if (!Routes::is_multicast(raw(group))) return;
  const std::uint32_t number = raw(group) - kFirstMulticastLid;
  std::atomic<std::uint64_t>& programs =
      image_.host_tables(image_.node(record.host)).multicast[number];
  const std::uint64_t bit = mask_of_program(record.host_port);
  if (is_member) {
    record.groups_end = std::max(record.groups_end, number + 1);
    programs.fetch_or(bit);
  } else {
    programs.fetch_and(~bit);
  }
}

/// Nothing is steered to the end any more.
void Ends::disconnect(std::uint32_t end) const {
  const EndRecord& record = image_.end(end);
  HostTables& tables = image_.host_tables(image_.node(record.host));
  for (auto& port : tables.ports_by_qpn) {
    if (port.load(std::memory_order_relaxed) == record.host_port) port = 0;
  }
  // A trunk has no programs, and is in no group.
  for (std::uint32_t number = 0; number < record.groups_end; ++number) {
    tables.multicast[number].fetch_and(~mask_of_program(record.host_port));
  }
}

/// Takes back what the program had not handed over, and what it had not taken out. Requires the
/// gate of the link to the end.
void Ends::take_back(std::uint32_t end) const {
  const std::uint32_t posted = image_.ring(image_.from_end(end)).tail();
  for (Handle handle = image_.first_slot_of(end); handle < image_.first_slot_of(end + 1);
       ++handle) {
    Slot& slot = image_.slot(handle);
    const Where where(slot.where.load());
    if (where.kind() == Where::kBuilt && ahead(where.number(), posted) >= 0) slot.where = 0;
  }
  const LinkIndex index = image_.to_end(end);
  LinkRecord& link = image_.link(index);
  link.passes = static_cast<std::uint8_t>(Passes::nothing);
  Ring& ring = image_.ring(index);
  for (std::uint32_t head = ring.head.load();
       head != ring.tail() && Ring::are_ends(head, ring.tail()); ring.head = ++head) {
    Slot& slot = image_.slot(ring.handles[head % kRingEntries].load());
    const Where where(slot.where.load());
    // The program may have died between the packet and the ring's head.
    if (where == Where::in_ring(index, where.lane(), head)) {
      slot.where = 0;
      ++link.counters.inactive_discards;
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) link.freed[lane] = link.lanes[lane].sent;
}

bool Ends::is_drained(std::uint32_t end) const {
  for (std::uint32_t i = 0; i < kSlotsOfAnEnd; ++i) {
    if (image_.slot(image_.first_slot_of(end) + i).where.load() != 0) return false;
  }
  // No mover has the link, and none has left packets over.
  const LinkRecord& link = image_.link(image_.to_end(end));
  return link.gate.load() == 0 && link.waiting == 0;
}

void Ends::begin_draining(std::uint32_t end) const {
  image_.end(end).state = EndRecord::kDraining;
  limit_waiting(image_.end(end).host);
}

/// A program that is stopped holds up no other of its host, which share one buffer. For a program
/// that is alone nothing is discarded, however slow it is.
void Ends::limit_waiting(NodeIndex host) const {
  std::vector<std::uint32_t> programs;
  for (std::uint32_t end = 1; end < image_.extent().ends; ++end) {
    const EndRecord& record = image_.end(end);
    const bool is_program = record.state.load() == EndRecord::kTaken && record.host == host &&
                            record.host_port >= kFirstEndPort;
    if (is_program) programs.push_back(end);
  }
  for (const std::uint32_t end : programs) {
    image_.link(image_.to_end(end)).hoq_life_us = programs.size() > 1 ? kPatienceUs : 0;
  }
}

void Ends::free_drained() const {
  for (std::uint32_t end = 1; end < image_.extent().ends; ++end) {
    EndRecord& record = image_.end(end);
    if (record.state.load() != EndRecord::kDraining || !is_drained(end)) continue;
    NodeRecord& host = image_.node(record.host);
    image_.port(host, record.host_port).out = image_.port(host, record.host_port).in = 0;
    if (Routes::is_of_program(host, record.host_port)) {
      host.ends.fetch_and(~mask_of_program(record.host_port));
    }
    record.state = EndRecord::kFree;
  }
}

}  // namespace verbatim::fabric
