#include "dropin/ibverbs/fabric/fabric_services.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

#include "base/assert.h"
#include "base/log.h"
#include "base/net/address.h"
#include "dropin/ibverbs/fabric/fabric_management.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/with_program.h"
#include "mad/administrator_queries.h"
#include "wire/ib/pkey_table.h"
#include "wire/subnet/multicast_record.h"

namespace verbatim::dropin {
namespace {

ibv_sa_path_rec record_of(const wire::PathRecord& record) {
  constexpr std::uint8_t kExactly = 2;
  return {.dgid = to_verbs(record.destination_gid),
          .sgid = to_verbs(record.source_gid),
          .dlid = htobe16(record.destination_lid),
          .slid = htobe16(record.source_lid),
          .raw_traffic = 0,
          .flow_label = htobe32(record.flow_label),
          .hop_limit = record.hop_limit,
          .traffic_class = record.traffic_class,
          .reversible = record.reversible,
          .numb_path = record.path_count,
          .pkey = htobe16(record.pkey),
          .sl = record.service_level,
          .mtu_selector = kExactly,
          .mtu = record.mtu,
          .rate_selector = kExactly,
          .rate = record.rate,
          .packet_life_time_selector = kExactly,
          .packet_life_time = record.packet_life_time,
          .preference = record.preference};
}

/// The port's own entry of the partition that is asked for: it says what member the port is.
PKey pkey_of(const VerbatimPathQuery& query, const arena::InfinibandPort& port) {
  if (query.pkey == 0) return arena::first_pkey(port);
  const PKey wanted{query.pkey};
  const auto entry = wire::partition_entry({port.pkeys.begin(), port.pkeys.end()}, wanted);
  return entry ? PKey{port.pkeys[*entry]} : wanted;
}

wire::PathQuery query_of(const VerbatimPathQuery& query, PKey pkey) {
  wire::PathQuery own{.destination = to_gid(query.destination),
                      .source = to_gid(query.source),
                      .pkey = raw(pkey),
                      .service = query.service_id};
  if (query.is_ipv4) {
    own.qos_class = query.traffic_class;
  } else {
    own.traffic_class = query.traffic_class;
  }
  return own;
}

/// The number of the port that has the GID; else 1.
std::uint8_t port_with(const arena::Node& node, const Gid& gid) {
  const auto& ports = node.network.infiniband;
  const auto found = std::ranges::find_if(
      ports, [&](const arena::InfinibandPort& port) { return arena::gid_of(port) == gid; });
  return found == ports.end() ? 1 : static_cast<std::uint8_t>(found - ports.begin() + 1);
}

ibv_sa_mcmember_rec record_of(const wire::MulticastRecord& record) {
  return {.mgid = to_verbs(record.group),
          .port_gid = to_verbs(record.port),
          .qkey = htobe32(record.qkey),
          .mlid = htobe16(record.lid),
          .mtu_selector = record.mtu_selector,
          .mtu = record.mtu,
          .traffic_class = record.traffic_class,
          .pkey = htobe16(record.pkey),
          .rate_selector = record.rate_selector,
          .rate = record.rate,
          .packet_life_time_selector = record.life_time_selector,
          .packet_life_time = record.life_time,
          .sl = record.service_level,
          .flow_label = htobe32(record.flow_label),
          .hop_limit = record.hop_limit,
          .scope = record.scope,
          .join_state = record.join_state,
          .proxy_join = record.proxy_join};
}

wire::MulticastRecord from_verbs(const ibv_sa_mcmember_rec& record) {
  return {.group = to_gid(record.mgid),
          .qkey = be32toh(record.qkey),
          .mtu_selector = record.mtu_selector,
          .mtu = record.mtu,
          .traffic_class = record.traffic_class,
          .pkey = be16toh(record.pkey),
          .rate_selector = record.rate_selector,
          .rate = record.rate,
          .service_level = record.sl,
          .flow_label = be32toh(record.flow_label),
          .hop_limit = record.hop_limit,
          .join_state = record.join_state};
}

Result<wire::MulticastRecord> ask_for_group(Program& program, std::uint8_t port, const Gid& gid) {
  using Answer = Result<wire::AdministrationPacket>;
  constexpr TimeNs kTimeout = 4 * kSecond;
  wire::AdministrationPacket question{.method = wire::MadMethod::get,
                                      .attribute = wire::AdministrationAttribute::multicast_record,
                                      .components = wire::MulticastRecord::kGroup};
  set_data(question, wire::MulticastRecord{.group = gid});
  std::promise<Answer> promise;
  auto asked = program.management->ask(program.client->node(), port, question, kTimeout,
                                       [&](const Answer& answer) { promise.set_value(answer); });
  if (!asked) return std::unexpected(asked.error());
  const Answer answer = promise.get_future().get();
  if (!answer) return std::unexpected(answer.error());
  return wire::data_as<wire::MulticastRecord>(*answer);
}

/// As Linux's rdma_cm: the first member creates the group, with these components.
std::uint64_t components_of_a_group(bool has_limits) {
  using wire::MulticastRecord;
  constexpr std::uint64_t kAlways = MulticastRecord::kGroup | MulticastRecord::kPort |
                                    MulticastRecord::kPKey | MulticastRecord::kJoinState |
                                    MulticastRecord::kQKey | MulticastRecord::kServiceLevel |
                                    MulticastRecord::kFlowLabel | MulticastRecord::kTrafficClass;
  constexpr std::uint64_t kLimits = MulticastRecord::kMtuSelector | MulticastRecord::kMtu |
                                    MulticastRecord::kRateSelector | MulticastRecord::kRate |
                                    MulticastRecord::kHopLimit;
  return has_limits ? kAlways | kLimits : kAlways;
}

}  // namespace

int find_gid(const sockaddr* address, ibv_gid* gid) {
  return with_program("rdma_resolve_addr", [&](Program& program) -> Result<void> {
    const auto peer = SocketAddress::from(address, sizeof(sockaddr_storage));
    if (!peer) return std::unexpected(peer.error());
    const auto found = dropin::find_gid(program.client->node(), *peer);
    if (!found) return std::unexpected(found.error());
    *gid = to_verbs(*found);
    return {};
  });
}

int find_interface(const sockaddr* source, const sockaddr* destination, VerbatimInterface* found) {
  const auto address_of = [](const sockaddr* from) -> Result<SocketAddress> {
    if (from == nullptr) return SocketAddress();
    return SocketAddress::from(from, sizeof(sockaddr_storage));
  };
  return with_program("rdma_cm", [&](Program& program) -> Result<void> {
    const auto own = address_of(source), peer = address_of(destination);
    if (!own || !peer) return std::unexpected((own ? peer : own).error());
    const auto answer = ask_interfaces(program.client->node(), *own, *peer);
    if (!answer) return std::unexpected(answer.error());
    *found = {
        .own = to_verbs(answer->own), .pkey = raw(answer->pkey), .peer = to_verbs(answer->peer)};
    std::memcpy(&found->source, answer->source.data(), answer->source.size());
    return {};
  });
}

int find_path(const VerbatimPathQuery* query, VerbatimOnPath* on_path, std::uint64_t tag) {
  return with_program("rdma_resolve_route", [&](Program& program) -> Result<void> {
    VERBATIM_ASSERT(program.management);  // The caller has checked `is_infiniband`.
    const arena::Node node = program.client->node();
    const std::uint8_t number = port_with(node, to_gid(query->source));
    const arena::InfinibandPort& port = node.network.infiniband[number - 1u];
    return program.management->ask(
        node, number, question_for(query_of(*query, pkey_of(*query, port))),
        query->timeout_ms * kMillisecond, [=](const Result<wire::AdministrationPacket>& answer) {
          const auto found = mad::path_in(answer);
          if (!found) return on_path(tag, refused("rdma_resolve_route", found.error()), nullptr);
          const ibv_sa_path_rec shown = record_of(*found);
          on_path(tag, 0, &shown);
        });
  });
}

void find_group(std::uint8_t port, const ibv_gid* gid, ibv_sa_mcmember_rec* group) {
  *group = {};
  const auto own = program();
  if (!own || !(*own)->management) return;
  const auto found = ask_for_group(**own, port, to_gid(*gid));
  if (found) {
    *group = record_of(*found);
  } else {
    log(LogLevel::debug, "no record of group {}: {}", gid_text(to_gid(*gid)), found.error().text);
  }
}

int join_group(std::uint32_t membership, std::uint8_t port, const ibv_sa_mcmember_rec* wanted,
               bool has_limits, VerbatimOnGroup* on_group) {
  return with_program("rdma_join_multicast", [&](Program& program) -> Result<void> {
    if (!program.management) return refuse(ENODEV, "only the groups of a fabric have LIDs");
    return program.management->join_group(
        membership, port, from_verbs(*wanted), components_of_a_group(has_limits),
        [membership, on_group](const Result<wire::MulticastRecord>& group) {
          if (!group) {
            return on_group(membership, refused("rdma_join_multicast", group.error()), nullptr);
          }
          const ibv_sa_mcmember_rec shown = record_of(*group);
          on_group(membership, 0, &shown);
        });
  });
}

void leave_group(std::uint32_t membership) {
  if (const auto own = program(); own && (*own)->management) {
    (*own)->management->leave_group(membership);
  }
}

}  // namespace verbatim::dropin
