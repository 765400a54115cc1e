#include "fabric/daemon/port_agents.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "wire/ib/pkey_table.h"

namespace verbatim::fabric {
namespace {

constexpr Qpn kSubnetQp{0};
constexpr std::uint8_t kRmppVersion = 1;
constexpr std::uint8_t kFirstOuiClass = 0x30;
constexpr std::uint8_t kLastOuiClass = 0x4f;
constexpr std::size_t kTransactionAt = 8;
/// What a program gets back of a request that has failed.
constexpr std::size_t kHeaderBytes = wire::MadHeader::kSize;

bool has_oui(std::uint8_t management_class) {
  return management_class >= kFirstOuiClass && management_class <= kLastOuiClass;
}

/// Classes in which segmented messages exist (IBA 13.6).
bool has_rmpp(std::uint8_t management_class) {
  return management_class == 0x03 || management_class == 0x06 || management_class == 0x10 ||
         management_class == 0x12 || has_oui(management_class);
}

/// A program says so by RMPP's Active flag in the first bytes (IBA 13.6.2.1).
bool is_segmented(ByteSpan bytes) {
  constexpr std::size_t kFlagsAt = 26;
  return bytes.size() > kFlagsAt && (bytes[kFlagsAt] & std::byte{1}) != std::byte{0};
}

mad::SpecialQp qp_of(std::uint8_t management_class) {
  return management_class == 0x01 || management_class == 0x81 ? mad::SpecialQp::qp0
                                                              : mad::SpecialQp::qp1;
}

/// The dispatcher compares whom a request went to with whom its reply comes from.
mad::Mad mad_of(Lid peer, const ManagementDatagram& datagram) {
  return {.peer = InfinibandPath{.dlid = peer}, .bytes = datagram.mad};
}

void set_transaction(std::span<std::byte> mad, std::uint64_t transaction) {
  store_be(&mad[kTransactionAt], transaction);
}

/// That of a request to which its reply finds the client (dispatcher.h).
std::uint64_t own_transaction(mad::ClientId client, const wire::MadHeader& header) {
  return std::uint64_t{raw(client)} << 32 | (header.transaction & 0xffff'ffff);
}

std::bitset<128> methods_of(const std::array<std::uint64_t, 2>& words) {
  return std::bitset<128>(words[0]) | std::bitset<128>(words[1]) << 64;
}

}  // namespace

Result<std::uint32_t> PortAgents::add(FileId file, const protocol::RegisterAgent& wanted) {
  if (wanted.rmpp_version > kRmppVersion ||
      (wanted.rmpp_version != 0 && !has_rmpp(wanted.management_class))) {
    return refuse(EINVAL, fmt::format("management class {:#04x} has no RMPP of version {}",
                                      wanted.management_class, wanted.rmpp_version));
  }
  std::uint32_t number = 0;
  while (client_of(file, number)) ++number;
  if (number >= protocol::kAgentsMax) {
    return refuse(EMFILE, fmt::format("an open port has at most {} agents", protocol::kAgentsMax));
  }
  const mad::SpecialQp qp = qp_of(wanted.management_class);
  const auto client =
      dispatcher_.add({.qp = qp,
                       .management_class = std::bit_cast<wire::MadClass>(wanted.management_class),
                       .class_version = wanted.class_version,
                       .methods = methods_of(wanted.methods),
                       .oui = has_oui(wanted.management_class) ? wanted.oui : 0});
  if (!client) return std::unexpected(client.error());
  Agent agent{.file = file, .number = number, .qp = qp};
  if (methods_of(wanted.methods).any()) {
    agent.serves = std::bit_cast<wire::MadClass>(wanted.management_class);
  }
  if (wanted.rmpp_version != 0 && wanted.has_own_rmpp == 0) {
    agent.rmpp = std::make_unique<mad::RmppEngine>();
  }
  agents_.emplace(*client, std::move(agent));
  return number;
}

std::optional<mad::ClientId> PortAgents::client_of(FileId file, std::uint32_t agent) const {
  const auto found = std::ranges::find_if(agents_, [&](const auto& entry) {
    return entry.second.file == file && entry.second.number == agent;
  });
  return found == agents_.end() ? std::nullopt : std::optional(found->first);
}

Result<void> PortAgents::remove(FileId file, std::uint32_t agent) {
  const auto client = client_of(file, agent);
  if (!client) return refuse(EINVAL, fmt::format("the open port has no agent {}", agent));
  dispatcher_.remove(*client);
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.client == *client; });
  agents_.erase(*client);
  return {};
}

void PortAgents::close(FileId file) {
  for (std::uint32_t agent = 0; agent < protocol::kAgentsMax; ++agent) {
    if (client_of(file, agent)) (void)remove(file, agent);
  }
}

bool PortAgents::serves(wire::MadClass management_class) const {
  return std::ranges::any_of(agents_, [management_class](const auto& entry) {
    return entry.second.serves == management_class;
  });
}

void PortAgents::send(FileId file, const protocol::MadRecord& record, ByteSpan bytes,
                      const PortIdentifiers& port, TimeNs now) {
  const auto client = client_of(file, record.agent);
  if (!client) return give_back(file, record, bytes, EINVAL);
  if (auto sent = try_send(*client, record, bytes, port, now); !sent) {
    log(LogLevel::info, "agent {} of a program cannot send: {}", record.agent, sent.error().text);
    give_back(file, record, bytes, sent.error().code);
  }
}

Result<void> PortAgents::try_send(mad::ClientId client, const protocol::MadRecord& record,
                                  ByteSpan bytes, const PortIdentifiers& port, TimeNs now) {
  Agent& agent = agents_.at(client);
  if (agent.rmpp && is_segmented(bytes)) return send_message(client, record, bytes, port, now);
  auto datagram = make_datagram(agent, record, bytes, port);
  if (!datagram) return std::unexpected(datagram.error());
  const auto header = wire::decode_mad_header(datagram->mad);
  if (!header) return refuse(EINVAL, "these bytes are no management datagram");
  const bool awaits_reply = record.timeout_ms != 0;
  if (mad::is_response(*header) || (mad::is_never_answered(*header) && !awaits_reply)) {
    outputs_.push_back(Transmit{*datagram});
    return {};
  }
  Request request{
      .client = client, .record = record, .datagram = *datagram, .retries_left = record.retries};
  if (awaits_reply) {
    auto expected = expect_reply(request, now + request.timeout());
    if (!expected) return expected;
  } else {
    set_transaction(request.datagram.mad, own_transaction(client, *header));
  }
  outputs_.push_back(Transmit{request.datagram});
  return {};
}

Result<void> PortAgents::expect_reply(Request& request, TimeNs deadline) {
  const auto transaction = dispatcher_.expect_reply(
      request.client, mad_of(request.datagram.path.dlid, request.datagram), deadline);
  if (!transaction) return std::unexpected(transaction.error());
  set_transaction(request.datagram.mad, *transaction);
  requests_.insert_or_assign(*transaction, request);
  return {};
}

/// A message of any length: RMPP cuts it into segments. The time in which a request must be
/// answered begins when all of it has arrived.
Result<void> PortAgents::send_message(mad::ClientId client, const protocol::MadRecord& record,
                                      ByteSpan bytes, const PortIdentifiers& port, TimeNs now) {
  Agent& agent = agents_.at(client);
  const ByteSpan start = bytes.first(std::min(bytes.size(), wire::kMadBytes));
  const auto first = make_datagram(agent, record, start, port);
  if (!first) return std::unexpected(first.error());
  const auto header = wire::decode_mad_header(first->mad);
  if (!header) return refuse(EINVAL, "these bytes are no management datagram");
  std::vector<std::byte> message(bytes.begin(), bytes.end());
  std::optional<std::uint64_t> awaited;
  if (!mad::is_response(*header)) {
    const std::uint64_t own = own_transaction(client, *header);
    set_transaction(message, own);
    Request request{.client = client,
                    .record = record,
                    .datagram = *first,
                    .retries_left = record.retries,
                    .is_message = true};
    if (record.timeout_ms != 0) {
      if (auto expected = expect_reply(request, kNever); !expected) return expected;
      awaited = own;
    }
  }
  const mad::RmppPeer peer{
      .path = first->path, .qpn = first->destination_qp, .pkey_index = record.address.pkey_index};
  const mad::RmppPatience patience{.ack_timeout = record.timeout_ms * kMillisecond,
                                   .retries = record.retries};
  if (auto sent = agent.rmpp->send(peer, message, patience); !sent) {
    if (awaited) {
      dispatcher_.cancel(*awaited);
      requests_.erase(*awaited);
    }
    return sent;
  }
  drain(agent, port, now);
  return {};
}

/// The program of a response is told nothing, as by Linux. A request that could not be sent whole
/// fails at once.
void PortAgents::on_finished(const mad::RmppEngine::Finished& message, TimeNs now) {
  const auto found = requests_.find(message.transaction);
  if (found == requests_.end() || !found->second.is_message) return;
  const bool has_arrived = message.status == wire::RmppStatus::normal;
  if (!has_arrived) found->second.retries_left = 0;
  dispatcher_.set_deadline(message.transaction, has_arrived ? now + found->second.timeout() : now);
}

void PortAgents::drain(Agent& agent, const PortIdentifiers& port, TimeNs now) {
  while (const auto packet = agent.rmpp->take_packet(now)) {
    ManagementDatagram datagram{.path = packet->peer.path,
                                .source_qp = wire::kManagementQpn,
                                .destination_qp = packet->peer.qpn,
                                .qkey = raw(wire::kManagementQKey),
                                .mad = packet->mad};
    datagram.path.slid = port.lid;
    if (packet->peer.pkey_index < port.pkeys.size()) {
      datagram.pkey = port.pkeys[packet->peer.pkey_index];
    }
    outputs_.push_back(Transmit{datagram});
  }
  while (const auto message = agent.rmpp->take_message()) {
    ManagementDatagram first{.path = message->from.path,
                             .source_qp = message->from.qpn,
                             .destination_qp = wire::kManagementQpn,
                             .qkey = raw(wire::kManagementQKey)};
    std::swap(first.path.dlid, first.path.slid);
    if (message->from.pkey_index < port.pkeys.size()) {
      constexpr std::uint16_t kFullMember = 0x8000;  // Matches the port's entry, whatever that is.
      first.pkey = port.pkeys[message->from.pkey_index] | kFullMember;
    }
    const ByteSpan bytes = message->bytes;
    std::ranges::copy(bytes.first(std::min(bytes.size(), wire::kMadBytes)), first.mad.begin());
    route(agent.qp, first, bytes, port);
  }
  while (const auto message = agent.rmpp->take_finished()) on_finished(*message, now);
}

Result<ManagementDatagram> PortAgents::make_datagram(const Agent& agent,
                                                     const protocol::MadRecord& record,
                                                     ByteSpan bytes,
                                                     const PortIdentifiers& port) const {
  const protocol::MadAddress& to = record.address;
  if (bytes.size() > wire::kMadBytes) {
    return refuse(EINVAL, fmt::format("{} bytes are more than a datagram has", bytes.size()));
  }
  if (to.pkey_index >= port.pkeys.size()) {
    return refuse(EINVAL, fmt::format("the port has no P_Key {}", to.pkey_index));
  }
  const bool is_subnet = agent.qp == mad::SpecialQp::qp0;
  ManagementDatagram datagram;
  datagram.path.dlid = Lid{to.lid};
  datagram.path.slid =
      Lid{static_cast<std::uint16_t>(raw(port.lid) | (to.path_bits & ((1u << port.lmc) - 1)))};
  datagram.path.service_level = to.service_level;
  if (to.has_grh != 0) {
    GlobalRoute grh{.source = port.gid,
                    .flow_label = to.flow_label,
                    .traffic_class = to.traffic_class,
                    .hop_limit = to.hop_limit};
    std::ranges::copy(to.gid, grh.destination.bytes.begin());
    datagram.path.grh = grh;
  }
  datagram.source_qp = is_subnet ? kSubnetQp : wire::kManagementQpn;
  datagram.destination_qp = Qpn{to.qpn};
  datagram.qkey = is_subnet ? 0 : to.qkey;
  datagram.pkey = port.pkeys[to.pkey_index];
  std::ranges::copy(bytes, datagram.mad.begin());
  return datagram;
}

void PortAgents::give_back(FileId file, const protocol::MadRecord& record, ByteSpan bytes,
                           int error) {
  const ByteSpan header = bytes.first(std::min(bytes.size(), kHeaderBytes));
  Delivery delivery{.file = file, .record = record, .bytes = {header.begin(), header.end()}};
  delivery.record.status = static_cast<std::uint32_t>(error);
  outputs_.push_back(std::move(delivery));
}

void PortAgents::on_datagram(const ManagementDatagram& datagram, const PortIdentifiers& port,
                             TimeNs now) {
  const auto qp = datagram.destination_qp == kSubnetQp ? mad::SpecialQp::qp0 : mad::SpecialQp::qp1;
  if (mad::RmppEngine::is_rmpp(datagram.mad)) {
    const auto client = dispatcher_.addressee(qp, mad_of(datagram.path.slid, datagram));
    if (client && agents_.at(*client).rmpp) {
      Agent& agent = agents_.at(*client);
      mad::RmppPeer peer{.path = datagram.path,
                         .qpn = datagram.source_qp,
                         .pkey_index = address_of(datagram, port).pkey_index};
      std::swap(peer.path.dlid, peer.path.slid);
      agent.rmpp->on_packet(peer, datagram.mad, now);
      return drain(agent, port, now);
    }
  }
  route(qp, datagram, datagram.mad, port);
}

/// `datagram` is the first, or only, one of the message.
void PortAgents::route(mad::SpecialQp qp, const ManagementDatagram& datagram, ByteSpan message,
                       const PortIdentifiers& port) {
  const auto decision = dispatcher_.route(qp, mad_of(datagram.path.slid, datagram));
  if (decision.answer_unsupported) {
    outputs_.push_back(Transmit{unsupported_answer(datagram, port)});
    return;
  }
  if (!decision.client) return;
  if (decision.is_reply) requests_.erase(load_be<std::uint64_t>(&datagram.mad[kTransactionAt]));
  const Agent& agent = agents_.at(*decision.client);
  outputs_.push_back(
      Delivery{.file = agent.file,
               .record = {.agent = agent.number, .address = address_of(datagram, port)},
               .bytes = {message.begin(), message.end()}});
}

void PortAgents::on_time(const PortIdentifiers& port, TimeNs now) {
  for (auto& [client, agent] : agents_) {
    if (!agent.rmpp || agent.rmpp->deadline() > now) continue;
    agent.rmpp->on_time(now);
    drain(agent, port, now);
  }
  while (const auto expired = dispatcher_.take_expired(now)) {
    auto node = requests_.extract(expired->second);
    Request& request = node.mapped();
    if (request.retries_left > 0) {
      --request.retries_left;
      if (expect_reply(request, now + request.timeout())) {
        if (!request.is_message) outputs_.push_back(Transmit{request.datagram});
        continue;
      }
    }
    give_back(agents_.at(request.client).file, request.record, request.datagram.mad, ETIMEDOUT);
  }
}

TimeNs PortAgents::deadline() const {
  TimeNs first = dispatcher_.deadline();
  for (const auto& [client, agent] : agents_) {
    if (agent.rmpp) first = std::min(first, agent.rmpp->deadline());
  }
  return first;
}

std::optional<PortOutput> PortAgents::take_output() {
  if (outputs_.empty()) return std::nullopt;
  PortOutput first = std::move(outputs_.front());
  outputs_.pop_front();
  return first;
}

protocol::MadAddress address_of(const ManagementDatagram& datagram, const PortIdentifiers& port) {
  protocol::MadAddress from;
  from.qpn = datagram.source_qp.value();
  from.qkey = datagram.qkey;
  from.lid = raw(datagram.path.slid);
  from.service_level = datagram.path.service_level;
  from.path_bits = static_cast<std::uint8_t>(raw(datagram.path.dlid) & ((1u << port.lmc) - 1));
  if (const auto& grh = datagram.path.grh) {
    from.has_grh = 1;
    std::ranges::copy(grh->source.bytes, from.gid.begin());
    from.flow_label = grh->flow_label;
    from.hop_limit = grh->hop_limit;
    from.traffic_class = grh->traffic_class;
  }
  const auto entry = wire::matching_entry(port.pkeys, PKey{datagram.pkey});
  from.pkey_index = static_cast<std::uint16_t>(entry.value_or(0));
  return from;
}

ManagementDatagram unsupported_answer(const ManagementDatagram& request,
                                      const PortIdentifiers& port) {
  ManagementDatagram answer = request;
  std::swap(answer.path.dlid, answer.path.slid);
  if (answer.path.grh) std::swap(answer.path.grh->source, answer.path.grh->destination);
  std::swap(answer.source_qp, answer.destination_qp);
  if (const auto entry = wire::matching_entry(port.pkeys, PKey{request.pkey})) {
    answer.pkey = port.pkeys[*entry];
  }
  answer.mad = mad::unsupported_answer(request.mad);
  return answer;
}

}  // namespace verbatim::fabric
