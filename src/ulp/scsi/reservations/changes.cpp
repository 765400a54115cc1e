#include <algorithm>
#include <utility>
#include <vector>

#include "base/types.h"
#include "ulp/scsi/reservations/reservations.h"

/// PERSISTENT RESERVE OUT (SPC-4, 5.13 and 6.16).
namespace verbatim::ulp::scsi {
namespace {

using enum ReservationType;

constexpr Answer kConflict{Status::reservation_conflict, {}, {}};

enum class Action : std::uint8_t {
  enroll,
  reserve,
  release,
  clear,
  preempt,
  preempt_and_abort,
  enroll_whatever_key,
  enroll_and_move,
};

constexpr std::size_t kParameterBytes = 24;
constexpr unsigned kSpecifiesPorts = 0x08, kAllPorts = 0x04, kLasts = 0x01;  // Byte 20.
constexpr unsigned kUnregister = 0x02;                                       // MOVE: byte 17.

bool is_type(unsigned type) {
  return type == raw(write_exclusive) || type == raw(exclusive_access) ||
         (type >= raw(write_exclusive_registrants_only) &&
          type <= raw(exclusive_access_all_registrants));
}

bool specifies_ports(Action action, ByteSpan parameters) {
  return action == Action::enroll && parameters.size() > kParameterBytes &&
         (std::to_integer<unsigned>(parameters[20]) & kSpecifiesPorts) != 0;
}

}  // namespace

struct Reservations::Change {
  Nexus nexus;
  const InitiatorPort& port;
  std::size_t registrant;  // Who asks; `registrants.size()`: it is not registered.
  Action action;
  ReservationType type;
  std::uint64_t key, action_key;
  ByteSpan parameters;

  unsigned flags(std::size_t at) const { return std::to_integer<unsigned>(parameters[at]); }
};

Answer Reservations::change(const Nexus& nexus, const Cdb& cdb, ByteSpan parameters) {
  const Here* const here = find(nexus);
  const auto action = static_cast<Action>(cdb.bytes[1] & 0x1f);
  const bool moves = action == Action::enroll_and_move;
  if (here == nullptr) return kConflict;
  if (moves || specifies_ports(action, parameters) ? parameters.size() < kParameterBytes
                                                   : parameters.size() != kParameterBytes)
    return refusal(illegal_request(SenseCode::parameter_list_length_error));
  const bool has_type = action == Action::reserve || action == Action::release ||
                        action == Action::preempt || action == Action::preempt_and_abort;
  const unsigned type = cdb.bytes[2] & 0x0f;
  if (has_type && (cdb.bytes[2] >> 4) != 0) return refusal(invalid_field(2, 7));
  if (has_type && !is_type(type)) return refusal(invalid_field(2, 3));
  const Change change{.nexus = nexus,
                      .port = here->port,
                      .registrant = registrant_of(here->port),
                      .action = action,
                      .type = static_cast<ReservationType>(type),
                      .key = load_be<std::uint64_t>(&parameters[0]),
                      .action_key = load_be<std::uint64_t>(&parameters[8]),
                      .parameters = parameters};
  const auto& all = state_.registrants;
  const bool registers = action == Action::enroll || action == Action::enroll_whatever_key;
  if (!registers && (change.registrant == all.size() || all[change.registrant].key != change.key))
    return kConflict;
  Answer answer;
  switch (action) {
    case Action::enroll:
    case Action::enroll_whatever_key:
      answer = enroll(change);
      break;
    case Action::reserve:
      answer = take(change);
      break;
    case Action::release:
      answer = give_up(change);
      break;
    case Action::clear:
      answer = clear(change);
      break;
    case Action::preempt:
    case Action::preempt_and_abort:
      answer = preempt(change);
      break;
    case Action::enroll_and_move:
      answer = move(change);
      break;
  }
  if (answer.status == Status::good && is_kept_ && keeper_ != nullptr && !keeper_->keep(&state_))
    return refusal(illegal_request(SenseCode::insufficient_registration_resources));
  return answer;
}

Answer Reservations::enroll(const Change& change) {
  const unsigned flags = change.flags(20);
  auto& all = state_.registrants;
  const bool is_new = change.registrant == all.size();
  if (change.action == Action::enroll && change.key != (is_new ? 0 : all[change.registrant].key))
    return kConflict;
  const bool specifies = specifies_ports(change.action, change.parameters);
  // Only of who registers anew (table 56).
  if ((flags & kSpecifiesPorts) != 0 && (!specifies || !is_new || change.action_key == 0))
    return refusal(invalid_parameter(20, 3));
  if ((flags & kAllPorts) != 0) return refusal(invalid_parameter(20, 2));
  const bool lasts = (flags & kLasts) != 0;
  if (lasts && keeper_ == nullptr) return refusal(invalid_parameter(20, 0));
  if (is_new && change.action_key == 0) return {};
  std::vector<InitiatorPort> ports;
  if (specifies && !read_ports(change, ports)) return refusal(invalid_parameter(24));
  if (is_new && all.size() + ports.size() >= kRegistrantsMax)
    return refusal(illegal_request(SenseCode::insufficient_registration_resources));
  if (is_new) {
    all.push_back({change.port, change.action_key});
    for (const InitiatorPort& port : ports)
      if (registrant_of(port) == all.size()) all.push_back({port, change.action_key});
  } else if (change.action_key == 0) {
    remove(change.registrant, &change.nexus);
  } else {
    all[change.registrant].key = change.action_key;
  }
  ++state_.generation;
  if (is_kept_ && !lasts && keeper_ != nullptr) keeper_->keep(nullptr);
  is_kept_ = lasts;
  return {};
}

/// SPEC_I_PT: the length of TransportIDs, and these, of initiators that need not be there. False:
/// one of them is none.
bool Reservations::read_ports(const Change& change, std::vector<InitiatorPort>& ports) {
  constexpr std::size_t kLengthAt = kParameterBytes, kFirstAt = kLengthAt + 4;
  const ByteSpan all = change.parameters;
  if (all.size() < kFirstAt || load_be<std::uint32_t>(&all[kLengthAt]) != all.size() - kFirstAt)
    return false;
  for (ByteSpan left = all.subspan(kFirstAt); !left.empty();) {
    const std::size_t bytes = transport_id_bytes(left);
    InitiatorPort port = read_transport_id(left.first(std::min(bytes, left.size())));
    if (port.name.empty() || bytes > left.size()) return false;
    port.target = change.port.target;
    port.target_id = change.port.target_id;
    ports.push_back(std::move(port));
    left = left.subspan(bytes);
  }
  return true;
}

Answer Reservations::take(const Change& change) {
  if (state_.type != none)
    return holds(change.registrant) && state_.type == change.type ? Answer{} : kConflict;
  state_.type = change.type;
  state_.holder = change.registrant;
  return {};
}

Answer Reservations::give_up(const Change& change) {
  if (!holds(change.registrant)) return {};
  if (state_.type != change.type) return refusal(illegal_request(SenseCode::invalid_release));
  end_reservation(&change.nexus);
  return {};
}

Answer Reservations::clear(const Change& change) {
  tell_registrants_but(&change.nexus, Attention::reservations_preempted);
  state_.registrants.clear();
  state_.type = none;
  ++state_.generation;
  return {};
}

/// Removes who has the key, and takes the reservation over from them. A key of 0 names all but the
/// one that asks, if all of them hold the reservation.
Answer Reservations::preempt(const Change& change) {
  const bool names_all = is_for_all() && change.action_key == 0;
  if (change.action_key == 0 && !is_for_all()) return refusal(invalid_parameter(8));
  auto& all = state_.registrants;
  const InitiatorPort own = change.port;
  const bool takes_over =
      names_all || (state_.type != none && !is_for_all() && state_.type != none &&
                    all[state_.holder].key == change.action_key);
  const ReservationType before = state_.type;
  const bool were_registrants = is_for_registrants();
  if (takes_over) state_.type = none;  // What is removed releases nothing.
  bool is_any = false;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!names_all && all[i].key != change.action_key) continue;
    is_any = true;
    if (all[i].port == own) continue;
    const InitiatorPort port = all[i].port;
    remove(i, &change.nexus);
    tell(port, Attention::registrations_preempted);
    if (change.action == Action::preempt_and_abort) abort_tasks(port);
  }
  if (!is_any && !takes_over) return kConflict;
  ++state_.generation;
  if (!takes_over) return {};
  if (were_registrants && before != change.type)
    tell_registrants_but(&change.nexus, Attention::reservations_released);
  state_.type = change.type;
  state_.holder = registrant_of(own);
  return {};
}

/// SPC-4, 5.13.8: the holder gives the reservation to another initiator's port.
Answer Reservations::move(const Change& change) {
  const unsigned flags = change.flags(17);
  if (!holds(change.registrant)) return kConflict;
  if (is_for_all() || change.action_key == 0) return refusal(invalid_parameter(8));
  if ((flags & kLasts) != 0 && keeper_ == nullptr) return refusal(invalid_parameter(17, 0));
  const std::size_t bytes = load_be<std::uint32_t>(&change.parameters[20]);
  if (bytes > change.parameters.size() - kParameterBytes)
    return refusal(illegal_request(SenseCode::parameter_list_length_error));
  InitiatorPort to = read_transport_id(change.parameters.subspan(kParameterBytes, bytes));
  to.target = change.port.target;
  to.target_id = load_be<std::uint16_t>(&change.parameters[18]);
  if (to.name.empty() || to == change.port) return refusal(invalid_parameter(24));
  auto& all = state_.registrants;
  if (to.target_id != change.port.target_id) return refusal(invalid_parameter(18));
  if (registrant_of(to) == all.size()) {
    if (all.size() == kRegistrantsMax)
      return refusal(illegal_request(SenseCode::insufficient_registration_resources));
    all.push_back({to, 0});
  }
  all[registrant_of(to)].key = change.action_key;
  state_.holder = registrant_of(to);
  if ((flags & kUnregister) != 0) remove(registrant_of(change.port), &change.nexus);
  is_kept_ = (flags & kLasts) != 0;
  ++state_.generation;
  return {};
}

}  // namespace verbatim::ulp::scsi
