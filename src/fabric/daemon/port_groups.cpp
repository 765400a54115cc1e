#include "fabric/daemon/port_groups.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "fabric/protocol/mad_address.h"
#include "wire/subnet/administration_packet.h"

namespace verbatim::fabric {
namespace {

using wire::AdministrationPacket;
using wire::MulticastRecord;

constexpr std::uint32_t kTimeoutMs = 1'000;
constexpr std::uint32_t kRetries = 3;

mad::MembershipId id_of(FileId file, std::uint32_t membership) {
  return {.program = raw(file), .number = membership};
}

/// The answer to a question, or why there is none.
Result<MulticastRecord> answer_in(const Delivery& delivery) {
  if (auto sent = protocol::answered(delivery.record); !sent) return std::unexpected(sent.error());
  const auto packet = wire::decode_administration_packet(delivery.bytes);
  if (!packet) return refuse(EPROTO, "the subnet administrator's answer makes no sense");
  if (packet->status == 0) return wire::data_as<MulticastRecord>(*packet);
  constexpr std::uint16_t kBusy = raw(wire::MadStatus::busy);
  return refuse(
      packet->status == kBusy ? EAGAIN : EINVAL,
      fmt::format("the subnet administrator refuses with status {:#06x}", packet->status));
}

}  // namespace

void PortGroups::join(FileId file, const protocol::JoinMulticast& request,
                      const PortIdentifiers& port, TimeNs now) {
  const auto record = wire::decode<MulticastRecord>(std::as_bytes(std::span(request.record)));
  if (!management_) management_ = port.management;
  const auto joins = memberships_.join(id_of(file, request.membership), record, request.components);
  if (!joins) return tell(file, request.membership, std::unexpected(joins.error()));
  drain(port, now);
}

void PortGroups::leave(FileId file, std::uint32_t membership, const PortIdentifiers& port,
                       TimeNs now) {
  memberships_.leave(id_of(file, membership));
  drain(port, now);
}

void PortGroups::close(FileId file, const PortIdentifiers& port, TimeNs now) {
  memberships_.leave_all(raw(file));
  drain(port, now);
}

void PortGroups::on_delivery(const Delivery& delivery, const PortIdentifiers& port, TimeNs now) {
  // A request that comes back and an answer have the transaction id at the same place.
  constexpr std::size_t kTransactionAt = 8;
  if (delivery.bytes.size() < wire::MadHeader::kSize) return;
  const auto transaction = load_be<std::uint64_t>(&delivery.bytes[kTransactionAt]);
  memberships_.on_answer(static_cast<std::uint32_t>(transaction), answer_in(delivery), now);
  drain(port, now);
}

void PortGroups::on_port_changed(const PortIdentifiers& port, TimeNs now) {
  if (!management_ || *management_ == port.management) return;
  management_ = port.management;
  memberships_.join_again();
  drain(port, now);
}

void PortGroups::on_time(const PortIdentifiers& port, TimeNs now) {
  memberships_.on_time(now);
  drain(port, now);
}

void PortGroups::drain(const PortIdentifiers& port, TimeNs now) {
  while (const auto output = memberships_.take_output()) {
    std::visit(Overloaded{[&](const mad::AskAdministrator& question) { ask(question, port, now); },
                          [&](const mad::TellMember& one) {
                            tell(FileId{one.member.program}, one.member.number, one.group);
                          }},
               *output);
  }
}

/// The agent registers for no method: it gets the answers to its questions alone.
Result<std::uint32_t> PortGroups::agent() {
  if (agent_) return *agent_;
  const auto added =
      agents_.add(kOwnFile, {.management_class = raw(wire::MadClass::subnet_administration),
                             .class_version = AdministrationPacket::kClassVersion});
  if (added) agent_ = *added;
  return added;
}

void PortGroups::ask(const mad::AskAdministrator& question, const PortIdentifiers& port,
                     TimeNs now) {
  const auto cannot = [&](std::string why) {
    memberships_.on_answer(question.ticket, refuse(EAGAIN, std::move(why)), now);
  };
  if (port.management.manager == Lid{}) return cannot("the port has no subnet manager");
  const auto by = agent();
  if (!by) return cannot(by.error().text);
  MulticastRecord record = question.record;
  record.port = port.gid;
  AdministrationPacket packet{.method = question.method,
                              .transaction = question.ticket,
                              .attribute = wire::AdministrationAttribute::multicast_record,
                              .components = question.components};
  wire::set_data(packet, record);
  std::array<std::byte, wire::kMadBytes> bytes;
  encode(packet, bytes);
  const protocol::MadRecord to{
      .agent = *by,
      .timeout_ms = kTimeoutMs,
      .retries = kRetries,
      .length = wire::kMadBytes,
      .address = protocol::management_address(
          {.dlid = port.management.manager, .service_level = port.management.service_level})};
  agents_.send(kOwnFile, to, bytes, port, now);
}

void PortGroups::tell(FileId file, std::uint32_t membership, const Result<MulticastRecord>& group) {
  protocol::MulticastMember message{.membership = membership};
  if (group) {
    wire::encode(*group, std::as_writable_bytes(std::span(message.record)));
  } else {
    message.error = group.error().code;
    log(LogLevel::info, "a program is in no multicast group: {}", group.error().text);
  }
  told_.push_back({file, message});
}

std::optional<PortGroups::Told> PortGroups::take_told() {
  if (told_.empty()) return std::nullopt;
  Told first = told_.front();
  told_.pop_front();
  return first;
}

}  // namespace verbatim::fabric
