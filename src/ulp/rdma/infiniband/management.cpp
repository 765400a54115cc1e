#include "ulp/rdma/infiniband/management.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <endian.h>
#include <fmt/format.h>
#include <infiniband/umad.h>

#include "base/overloaded.h"
#include "wire/ib/pkey_table.h"
#include "wire/subnet/administration_packet.h"

namespace verbatim::ulp::rdma {
namespace {

using wire::AdministrationAttribute;
using wire::AdministrationPacket;
using wire::MadMethod;
using wire::MulticastRecord;
using wire::ServiceRecord;

/// Of one turn; then it is the others'.
constexpr int kReceivesMax = 64;
constexpr std::size_t kMethodAt = 3, kStatusAt = 4, kNumberAt = 12;

/// libibumad waits a little shorter than we do: it knows one request of each number.
int umad_wait_ms(TimeNs wait) { return static_cast<int>(wait / kMillisecond * 3 / 4); }

wire::MadSpan mad_in(std::vector<std::byte>& buffer) {
  return wire::MadSpan(static_cast<const std::byte*>(umad_get_mad(buffer.data())), wire::kMadBytes);
}

template <typename Record>
AdministrationPacket packet_of(MadMethod method, AdministrationAttribute attribute,
                               const Record& record, std::uint64_t components) {
  AdministrationPacket packet{.method = method, .attribute = attribute, .components = components};
  wire::set_data(packet, record);
  return packet;
}

template <typename Record>
Result<Record> record_in(const Result<AdministrationPacket>& answer) {
  if (!answer) return std::unexpected(answer.error());
  return wire::data_as<Record>(*answer);
}

}  // namespace

Result<std::unique_ptr<Management>> Management::open(const std::string& device, std::uint8_t port) {
  const auto facts = read_port(device, port);
  if (!facts) return std::unexpected(facts.error());
  const int umad = umad_open_port(device.c_str(), port);
  if (umad < 0) return refuse(-umad, fmt::format("umad_open_port of port {} of {}", port, device));
  const int agent = umad_register(umad, raw(wire::MadClass::subnet_administration),
                                  AdministrationPacket::kClassVersion, 0, nullptr);
  if (agent < 0) {
    umad_close_port(umad);
    return refuse(-agent, "libibumad takes no agent that asks the subnet administrator");
  }
  std::unique_ptr<Management> made(new Management(device, port, umad, agent));
  made->port_ = *facts;
  return made;
}

Management::Management(std::string device, std::uint8_t number, int umad, int administration)
    : device_(std::move(device)),
      number_(number),
      umad_(umad),
      administration_(administration),
      descriptor_(umad_get_fd(umad)),
      incoming_(umad_size() + wire::kMadBytes),
      outgoing_(incoming_.size()) {}

/// Nobody waits for the answers.
Management::~Management() {
  groups_.clear();
  memberships_.leave_all(0);
  drain(now_);
  while (!offered_.empty()) withdraw(offered_.begin()->first, now_);
  umad_close_port(umad_);
}

Result<Management::Port> Management::read_port(const std::string& device, std::uint8_t number) {
  umad_port_t has{};
  if (const int error = umad_get_port(device.c_str(), number, &has); error != 0)
    return refuse(ENODEV, fmt::format("device {} has no port {}", device, number));
  const bool is_infiniband = std::string_view(has.link_layer) == "InfiniBand";
  Port port{.lid = Lid{static_cast<std::uint16_t>(has.base_lid)},
            .manager = Lid{static_cast<std::uint16_t>(has.sm_lid)},
            .service_level = static_cast<std::uint8_t>(has.sm_sl)};
  const auto entry = wire::partition_entry({has.pkeys, has.pkeys_size}, kDefaultPKey);
  port.pkey_index = static_cast<std::uint16_t>(entry.value_or(0));
  std::memcpy(port.gid.bytes.data(), &has.gid_prefix, sizeof has.gid_prefix);
  std::memcpy(port.gid.bytes.data() + 8, &has.port_guid, sizeof has.port_guid);
  umad_release_port(&has);
  if (is_infiniband) return port;
  return refuse(ENODEV,
                fmt::format("port {} of {} is Ethernet: it has no subnet manager", number, device));
}

Result<void> Management::ask(const AdministrationPacket& question,
                             mad::AdministratorQueries::OnAnswer on_answer, TimeNs now) {
  now_ = now;
  const auto query = queries_.add(question, std::move(on_answer));
  if (!query) return std::unexpected(query.error());
  Waiting& waiting = waiting_[query->number];
  waiting.datagram = query->datagram;
  send(waiting, now);
  return {};
}

/// What cannot be sent is sent again when its time is over, as what gets no answer.
void Management::send(Waiting& waiting, TimeNs now) {
  const TimeNs wait = kFirstWait << waiting.tries++;
  waiting.due = now + wait;
  if (port_.manager == Lid{}) return;
  umad_set_addr(outgoing_.data(), raw(port_.manager),
                static_cast<int>(wire::kManagementQpn.value()), port_.service_level,
                static_cast<int>(raw(wire::kManagementQKey)));
  umad_set_grh(outgoing_.data(), nullptr);
  umad_set_pkey(outgoing_.data(), port_.pkey_index);
  std::memcpy(umad_get_mad(outgoing_.data()), waiting.datagram.data(), waiting.datagram.size());
  umad_send(umad_, administration_, outgoing_.data(), static_cast<int>(wire::kMadBytes),
            umad_wait_ms(wait), 0);
}

void Management::receive(TimeNs now) {
  now_ = now;
  for (int i = 0; i < kReceivesMax; ++i) {
    int length = static_cast<int>(wire::kMadBytes);
    const int agent = umad_recv(umad_, incoming_.data(), &length, 0);
    if (agent < 0) break;
    // A request of ours that comes back is sent again when its time is over.
    const bool is_whole = length == static_cast<int>(wire::kMadBytes);
    if (umad_status(incoming_.data()) != 0 || !is_whole) continue;
    if (agent == administration_) {
      on_answer(mad_in(incoming_));
    } else {
      on_request(agent);
    }
  }
  drain(now);
}

/// An administrator that is busy is asked again.
void Management::on_answer(wire::MadSpan mad) {
  const auto status = load_be<std::uint16_t>(&mad[kStatusAt]);
  if (status == raw(wire::MadStatus::busy)) return;
  waiting_.erase(load_be<std::uint32_t>(&mad[kNumberAt]));
  if (const auto answer = queries_.take(mad, {})) answer->on_answer(answer->packet);
}

void Management::fail(std::uint32_t number) {
  const auto waiting = waiting_.extract(number);
  const auto failed =
      refuse(ETIMEDOUT, port_.manager == Lid{} ? "the port has no subnet manager"
                                               : "the subnet administrator does not answer");
  const auto answer = queries_.take(waiting.mapped().datagram, failed);
  if (answer) answer->on_answer(answer->packet);
}

TimeNs Management::deadline() const {
  TimeNs first = memberships_.deadline();
  for (const auto& [number, waiting] : waiting_) first = std::min(first, waiting.due);
  return first;
}

void Management::on_time(TimeNs now) {
  now_ = now;
  memberships_.on_time(now);
  std::vector<std::uint32_t> due;
  for (const auto& [number, waiting] : waiting_) {
    if (waiting.due <= now) due.push_back(number);
  }
  // A manager that has gone does not answer; another one may be there.
  if (const auto port = due.empty() ? port_ : read_port(device_, number_); port) port_ = *port;
  for (const std::uint32_t number : due) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) continue;
    found->second.tries < kTries ? send(found->second, now) : fail(number);
  }
  drain(now);
}

void Management::on_event(DeviceEvent event, TimeNs now) {
  now_ = now;
  const auto port = read_port(device_, number_);
  if (!port) return;
  const bool is_other = port->manager != port_.manager || port->lid != port_.lid;
  port_ = *port;
  if (event == DeviceEvent::client_reregister || event == DeviceEvent::sm_change || is_other) {
    tell_all_again(now);
  }
}

void Management::tell_all_again(TimeNs now) {
  memberships_.join_again();
  for (auto& [number, waiting] : waiting_) {
    waiting.tries = 0;
    waiting.due = now;
  }
  for (const auto& [id, offered] : offered_) (void)register_service(offered.service, now);
  drain(now);
}

Result<void> Management::find_path(const wire::PathQuery& query, OnPath on_path, TimeNs now) {
  return ask(
      question_for(query),
      [on_path = std::move(on_path)](const auto& answer) { on_path(mad::path_in(answer)); }, now);
}

Result<std::uint32_t> Management::join(const MulticastRecord& wanted, std::uint64_t components,
                                       OnGroup on_group, TimeNs now) {
  now_ = now;
  const std::uint32_t membership = ++last_membership_;
  if (auto joins = memberships_.join({.number = membership}, wanted, components); !joins)
    return std::unexpected(joins.error());
  groups_.emplace(membership, std::move(on_group));
  drain(now);
  return membership;
}

void Management::leave(std::uint32_t membership, TimeNs now) {
  now_ = now;
  groups_.erase(membership);
  memberships_.leave({.number = membership});
  drain(now);
}

void Management::drain(TimeNs now) {
  while (const auto output = memberships_.take_output()) {
    std::visit(Overloaded{[&](const mad::AskAdministrator& question) { ask(question, now); },
                          [&](const mad::TellMember& told) { tell(told); }},
               *output);
  }
}

void Management::ask(const mad::AskAdministrator& question, TimeNs now) {
  MulticastRecord record = question.record;
  record.port = port_.gid;
  const auto take = [this, ticket = question.ticket](const auto& answer) {
    memberships_.on_answer(ticket, record_in<MulticastRecord>(answer), now_);
  };
  auto asked = ask(packet_of(question.method, AdministrationAttribute::multicast_record, record,
                             question.components),
                   take, now);
  if (asked) return;
  memberships_.on_answer(question.ticket, refuse(EAGAIN, asked.error().text), now);
}

void Management::tell(const mad::TellMember& told) {
  const auto found = groups_.find(told.member.number);
  if (found == groups_.end()) return;  // It has left meanwhile.
  const OnGroup on_group = found->second;
  if (!told.group) groups_.erase(found);
  on_group(told.group);
}

Result<void> Management::offer(ServiceRecord service, OnService on_service, TimeNs now) {
  offered_[service.id] = {service, std::move(on_service)};
  return register_service(service, now);
}

Result<void> Management::register_service(const ServiceRecord& service, TimeNs now) {
  ServiceRecord record = service;
  record.gid = port_.gid;
  const auto take = [this, id = service.id](const auto& answer) {
    const auto offered = offered_.find(id);
    if (offered == offered_.end()) return;
    const OnService on_service = offered->second.on_service;
    on_service(record_in<ServiceRecord>(answer));
  };
  return ask(packet_of(MadMethod::set, AdministrationAttribute::service_record, record,
                       ServiceRecord::kWhole),
             take, now);
}

void Management::withdraw(std::uint64_t service_id, TimeNs now) {
  auto offered = offered_.extract(service_id);
  if (offered.empty()) return;
  ServiceRecord& record = offered.mapped().service;
  record.gid = port_.gid;
  (void)ask(
      packet_of(MadMethod::remove, AdministrationAttribute::service_record, record,
                ServiceRecord::kIdentity),
      [](const auto&) {}, now);
}

Result<void> Management::find_service(const ServiceRecord& wanted, std::uint64_t components,
                                      OnService on_service, TimeNs now) {
  return ask(
      packet_of(MadMethod::get, AdministrationAttribute::service_record, wanted, components),
      [on_service = std::move(on_service)](const auto& answer) {
        on_service(record_in<ServiceRecord>(answer));
      },
      now);
}

Result<void> Management::serve(wire::MadClass management_class, Answer answer) {
  constexpr int kVersion = 1;
  std::array<long, 16 / sizeof(long)> methods{1L << raw(MadMethod::get) |
                                              1L << raw(MadMethod::set)};
  const int agent = umad_register(umad_, raw(management_class), kVersion, 0, methods.data());
  if (agent < 0) {
    return refuse(-agent, fmt::format("management class {:#04x} of port {} of {} has an agent",
                                      raw(management_class), number_, device_));
  }
  served_[agent] = std::move(answer);
  return {};
}

/// The address of a datagram that has come is that of its sender.
void Management::on_request(int agent) {
  const auto served = served_.find(agent);
  if (served == served_.end()) return;
  std::array<std::byte, wire::kMadBytes> request, answer{};
  std::ranges::copy(mad_in(incoming_), request.begin());
  std::copy_n(request.begin(), wire::MadHeader::kSize, answer.begin());
  answer[kMethodAt] = std::byte{raw(MadMethod::get_response)};  // Of a Set, too.
  store_be(&answer[kStatusAt], std::uint16_t{0});
  if (!served->second(request, answer)) return;
  umad_get_mad_addr(incoming_.data())->qkey = htobe32(raw(wire::kManagementQKey));
  std::memcpy(umad_get_mad(incoming_.data()), answer.data(), answer.size());
  umad_send(umad_, agent, incoming_.data(), static_cast<int>(wire::kMadBytes), 0, 0);
}

}  // namespace verbatim::ulp::rdma
