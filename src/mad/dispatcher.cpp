#include "mad/dispatcher.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::mad {
namespace {

// Classes (IBA 13.4.4) and methods (13.4.5) that are treated apart.
constexpr std::uint8_t kLidRoutedClass = 0x01;
constexpr std::uint8_t kDirectedRouteClass = 0x81;
constexpr std::uint8_t kBaseboardClass = 0x05;
constexpr std::uint8_t kFirstOuiClass = 0x30;
constexpr std::uint8_t kLastOuiClass = 0x4f;
constexpr std::uint16_t kClassPortInfo = 0x0001;
constexpr std::uint8_t kTrapRepress = 0x07;
constexpr std::uint8_t kResponseBit = 0x80;
constexpr std::uint32_t kBaseboardResponse = 1;  // Bit of the attribute modifier.

constexpr std::size_t kMethodAt = 3;
constexpr std::size_t kStatusAt = 4;
constexpr std::size_t kOuiAt = 37;  // Behind the header, RMPP's header and a reserved byte.
constexpr std::uint16_t kUnsupportedMethodAttribute = 0x000c;
constexpr std::uint16_t kDirectionBit = 0x8000;  // Of a directed route, in the status's place.
constexpr std::uint32_t kOuiMax = 0xff'ffff;
constexpr int kClientShift = 32;
constexpr std::uint64_t kOwnBits = 0xffff'ffff;

bool is_subnet_class(wire::MadClass management_class) {
  return raw(management_class) == kLidRoutedClass || raw(management_class) == kDirectedRouteClass;
}

bool has_oui(wire::MadClass management_class) {
  return raw(management_class) >= kFirstOuiClass && raw(management_class) <= kLastOuiClass;
}

std::uint32_t oui_of(const wire::MadHeader& header, wire::MadSpan mad) {
  return has_oui(header.management_class)
             ? load_be<std::uint32_t>(mad.data() + kOuiAt - 1) & kOuiMax
             : 0;
}

ClientId client_of(std::uint64_t transaction) {
  return ClientId{static_cast<std::uint32_t>(transaction >> kClientShift)};
}

/// What a queue pair discards and does not answer, as Linux's ib_mad: datagrams of the other queue
/// pair's classes, and the communication manager's by another method than Send (IBA 12.6), except
/// for ClassPortInfo.
bool is_discarded(SpecialQp qp, const wire::MadHeader& header) {
  if (is_subnet_class(header.management_class) != (qp == SpecialQp::qp0)) return true;
  return header.management_class == wire::MadClass::communication_management &&
         header.method != wire::MadMethod::send && header.attribute != kClassPortInfo;
}

Result<void> check(const Registration& wanted) {
  const std::uint8_t number = raw(wanted.management_class);
  if (is_subnet_class(wanted.management_class) != (wanted.qp == SpecialQp::qp0)) {
    return refuse(EINVAL,
                  fmt::format("management class {:#04x}: classes 0x01 and 0x81 are of queue "
                              "pair 0, all others of queue pair 1",
                              number));
  }
  if (has_oui(wanted.management_class) != (wanted.oui != 0) || wanted.oui > kOuiMax) {
    return refuse(EINVAL,
                  fmt::format("management class {:#04x} with OUI {:#x}: classes 0x30 to 0x4f "
                              "have one of 24 bits, all others none",
                              number, wanted.oui));
  }
  return {};
}

}  // namespace

bool is_response(const wire::MadHeader& header) {
  if ((raw(header.method) & kResponseBit) != 0 || raw(header.method) == kTrapRepress) return true;
  return raw(header.management_class) == kBaseboardClass &&
         header.method == wire::MadMethod::send && (header.modifier & kBaseboardResponse) != 0;
}

bool is_never_answered(const wire::MadHeader& header) {
  return header.method == wire::MadMethod::send && raw(header.management_class) != kBaseboardClass;
}

std::array<std::byte, wire::kMadBytes> unsupported_answer(wire::MadSpan mad) {
  std::array<std::byte, wire::kMadBytes> answer{};
  std::ranges::copy(mad, answer.begin());
  answer[kMethodAt] = static_cast<std::byte>(wire::MadMethod::get_response);
  const bool is_directed = mad[1] == std::byte{kDirectedRouteClass};
  store_be(&answer[kStatusAt], static_cast<std::uint16_t>(kUnsupportedMethodAttribute |
                                                          (is_directed ? kDirectionBit : 0)));
  return answer;
}

Result<ClientId> Dispatcher::add(const Registration& registration) {
  const auto& [qp, management_class, class_version, methods, oui] = registration;
  if (clients_.size() >= kClientsMax) {
    return refuse(EMFILE, fmt::format("{} clients have management datagrams already", kClientsMax));
  }
  const bool takes_requests = methods.any();
  if (takes_requests) {
    if (auto fitting = check(registration); !fitting) return std::unexpected(fitting.error());
  }
  const ClassKey key{qp, management_class, class_version, oui};
  const auto found = classes_.find(key);
  for (std::size_t method = 0; found != classes_.end() && method < methods.size(); ++method) {
    if (methods[method] && found->second[method] != ClientId{}) {
      return refuse(EINVAL, fmt::format("management class {:#04x}: another client takes method "
                                        "{:#04x}",
                                        raw(management_class), method));
    }
  }
  // A number comes again after 2^32 others: a late reply is not for who has come since.
  do {
    ++last_client_;
  } while (last_client_ == 0 || clients_.contains(ClientId{last_client_}));
  const ClientId client{last_client_};
  clients_.emplace(client, qp);
  if (takes_requests) {
    Methods& taken = classes_[key];
    for (std::size_t method = 0; method < methods.size(); ++method) {
      if (methods[method]) taken[method] = client;
    }
  }
  return client;
}

void Dispatcher::remove(ClientId client) {
  clients_.erase(client);
  for (auto& [key, methods] : classes_) std::ranges::replace(methods, client, ClientId{});
  std::erase_if(classes_, [](const auto& entry) {
    return std::ranges::all_of(entry.second, [](ClientId one) { return one == ClientId{}; });
  });
  auto at = requests_.lower_bound(std::uint64_t{raw(client)} << kClientShift);
  while (at != requests_.end() && client_of(at->first) == client) forget(at++);
}

void Dispatcher::forget(Requests::iterator request) {
  deadlines_.erase({request->second.deadline, request->first});
  requests_.erase(request);
}

void Dispatcher::cancel(std::uint64_t transaction) {
  if (const auto found = requests_.find(transaction); found != requests_.end()) forget(found);
}

Result<std::uint64_t> Dispatcher::expect_reply(ClientId client, const Mad& request,
                                               TimeNs deadline) {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return refuse(EINVAL, "there is no such client");
  const auto header = wire::decode_mad_header(request.bytes);
  if (!header || is_response(*header)) {
    return refuse(EINVAL, "a response, or no management datagram, gets no reply");
  }
  const std::uint64_t first = std::uint64_t{raw(client)} << kClientShift;
  const auto others =
      std::distance(requests_.lower_bound(first), requests_.upper_bound(first | kOwnBits));
  if (static_cast<std::size_t>(others) >= kRequestsMax) {
    return refuse(ENOBUFS, fmt::format("{} requests of the client are unanswered", kRequestsMax));
  }
  const std::uint64_t transaction = first | (header->transaction & kOwnBits);
  const bool is_new =
      requests_
          .try_emplace(transaction, Request{.qp = known->second,
                                            .management_class = header->management_class,
                                            .peer = request.peer,
                                            .deadline = deadline})
          .second;
  if (!is_new) {
    return refuse(EINVAL, fmt::format("transaction {:#x} is in flight", transaction & kOwnBits));
  }
  deadlines_.emplace(deadline, transaction);
  return transaction;
}

void Dispatcher::set_deadline(std::uint64_t transaction, TimeNs deadline) {
  const auto found = requests_.find(transaction);
  if (found == requests_.end()) return;
  deadlines_.erase({found->second.deadline, transaction});
  found->second.deadline = deadline;
  deadlines_.emplace(deadline, transaction);
}

std::optional<ClientId> Dispatcher::take_reply(SpecialQp qp, const Mad& mad,
                                               const wire::MadHeader& header) {
  const auto found = requests_.find(header.transaction);
  if (found == requests_.end()) return {};
  const Request& asked = found->second;
  if (asked.qp != qp || asked.management_class != header.management_class) return {};
  const bool is_directed = raw(asked.management_class) == kDirectedRouteClass;
  if (!is_directed && !same_source(asked.peer, mad.peer)) return {};
  forget(found);
  return client_of(header.transaction);
}

std::optional<ClientId> Dispatcher::taker(SpecialQp qp, const Mad& mad,
                                          const wire::MadHeader& header) const {
  const auto found =
      classes_.find({qp, header.management_class, header.class_version, oui_of(header, mad.bytes)});
  if (found == classes_.end()) return {};
  const ClientId client = found->second[raw(header.method)];
  return client == ClientId{} ? std::nullopt : std::optional(client);
}

std::optional<ClientId> Dispatcher::addressee(SpecialQp qp, const Mad& mad) const {
  const auto header = wire::decode_mad_header(mad.bytes);
  if (!header) return {};
  if (!is_response(*header)) return taker(qp, mad, *header);
  const auto client = clients_.find(client_of(header->transaction));
  return client == clients_.end() || client->second != qp ? std::nullopt
                                                          : std::optional(client->first);
}

Dispatcher::Decision Dispatcher::route(SpecialQp qp, const Mad& mad) {
  const auto header = wire::decode_mad_header(mad.bytes);
  if (!header || is_discarded(qp, *header)) return {};
  if (is_response(*header)) {
    const auto client = take_reply(qp, mad, *header);
    return {.client = client, .is_reply = client.has_value()};
  }
  if (const auto client = taker(qp, mad, *header)) return {.client = client};
  return {.answer_unsupported =
              header->method == wire::MadMethod::get || header->method == wire::MadMethod::set};
}

std::optional<std::pair<ClientId, std::uint64_t>> Dispatcher::take_expired(TimeNs now) {
  if (deadline() > now) return {};
  const std::uint64_t transaction = deadlines_.begin()->second;
  forget(requests_.find(transaction));
  return std::pair{client_of(transaction), transaction};
}

TimeNs Dispatcher::deadline() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

}  // namespace verbatim::mad
