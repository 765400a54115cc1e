#include "ulp/scsi/reservations/reservations.h"

#include <algorithm>

#include "base/types.h"

namespace verbatim::ulp::scsi {
namespace {

using enum ReservationType;

constexpr Answer kConflict{Status::reservation_conflict, {}, {}};

// Service actions of PERSISTENT RESERVE IN.
constexpr unsigned kReadKeys = 0, kReadReservation = 1, kReportCapabilities = 2;

bool keeps_readers_out(ReservationType type) {
  return type == exclusive_access || type == exclusive_access_registrants_only ||
         type == exclusive_access_all_registrants;
}

}  // namespace

void Reservations::on_login(const Nexus& nexus, const InitiatorPort& port) {
  here_.push_back({nexus, port});
  const std::size_t registrant = registrant_of(port);
  if (registrant < state_.registrants.size()) state_.registrants[registrant].port = port;
}

void Reservations::on_gone(const Nexus& nexus) {
  std::erase_if(here_, [&](const Here& one) { return one.nexus == nexus; });
  if (scsi_2_ == nexus) scsi_2_.reset();
}

void Reservations::on_gone(const ReservedUnit& unit) {
  std::erase_if(here_, [&](const Here& one) { return one.nexus.unit == &unit; });
  if (scsi_2_ && scsi_2_->unit == &unit) scsi_2_.reset();
}

const Reservations::Here* Reservations::find(const Nexus& nexus) const {
  const auto found = std::ranges::find(here_, nexus, &Here::nexus);
  return found == here_.end() ? nullptr : &*found;
}

std::size_t Reservations::registrant_of(const InitiatorPort& port) const {
  const auto found = std::ranges::find(state_.registrants, port, &Registrant::port);
  return static_cast<std::size_t>(found - state_.registrants.begin());
}

bool Reservations::is_for_all() const {
  return state_.type == write_exclusive_all_registrants ||
         state_.type == exclusive_access_all_registrants;
}

bool Reservations::is_for_registrants() const {
  return is_for_all() || state_.type == write_exclusive_registrants_only ||
         state_.type == exclusive_access_registrants_only;
}

bool Reservations::holds(std::size_t registrant) const {
  return state_.type != none && registrant < state_.registrants.size() &&
         (is_for_all() || registrant == state_.holder);
}

bool Reservations::is_kept_out(const Nexus& nexus, Operation operation) const {
  const WhileReserved allowed = allowed_while_reserved(operation);
  if (scsi_2_ && scsi_2_ != nexus && !allowed.scsi_2) return true;
  if (state_.type == none) return false;
  if (keeps_readers_out(state_.type) ? allowed.exclusive_access : allowed.write_exclusive)
    return false;
  const Here* const here = find(nexus);
  if (here == nullptr) return true;
  const std::size_t registrant = registrant_of(here->port);
  return registrant == state_.registrants.size() || !(is_for_registrants() || holds(registrant));
}

/// SPC-2, 5.5.1: not beside persistent reservations (SPC-4, 5.13.3: CRH is 0).
Answer Reservations::reserve(const Nexus& nexus) {
  if (!state_.registrants.empty()) return kConflict;
  scsi_2_ = nexus;
  return {};
}

Answer Reservations::release(const Nexus& nexus) {
  if (!state_.registrants.empty()) return kConflict;
  if (scsi_2_ == nexus) scsi_2_.reset();
  return {};
}

void Reservations::tell(const InitiatorPort& port, Attention what) {
  for (const Here& one : here_)
    if (one.port == port) one.nexus.unit->tell(one.nexus.id, what);
}

void Reservations::tell_registrants_but(const Nexus* by, Attention what) {
  for (const Here& one : here_) {
    const bool is_told = by == nullptr || one.nexus != *by;
    if (is_told && registrant_of(one.port) < state_.registrants.size())
      one.nexus.unit->tell(one.nexus.id, what);
  }
}

void Reservations::abort_tasks(const InitiatorPort& port) {
  for (const Here& one : here_)
    if (one.port == port) one.nexus.unit->abort_tasks(one.nexus.id);
}

/// SPC-4, 5.13.11.2.2 and 5.13.11.2.3: other registrants are told if they could use the unit.
void Reservations::end_reservation(const Nexus* by) {
  if (is_for_registrants()) tell_registrants_but(by, Attention::reservations_released);
  state_.type = none;
}

void Reservations::remove(std::size_t index, const Nexus* by) {
  auto& all = state_.registrants;
  const bool is_last = all.size() == 1;
  if (holds(index) && (!is_for_all() || is_last)) end_reservation(by);
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
  if (state_.holder > index) --state_.holder;
}

/// SPC-4, 6.15.2 to 6.15.5.
void Reservations::report(const Cdb& cdb, DataWriter& out) const {
  const unsigned action = cdb.bytes[1] & 0x1f;
  if (action == kReportCapabilities) {
    out.put<std::uint16_t>(8);
    out.byte(0x08 | (keeper_ != nullptr ? 0x01 : 0));           // SIP_C, PTPL_C.
    out.byte(0x80 | (keeper_ != nullptr && is_kept_ ? 1 : 0));  // TMV, PTPL_A.
    out.put<std::uint16_t>(0xea01);                             // All types.
    return out.zeros(2);
  }
  out.put(state_.generation);
  out.put<std::uint32_t>(0);
  const auto& all = state_.registrants;
  const auto holder_key = is_for_all() || all.empty() ? 0 : all[state_.holder].key;
  const auto scope_and_type = static_cast<unsigned>(raw(state_.type));  // The scope is the unit, 0.
  if (action == kReadKeys) {
    for (const Registrant& one : all) out.put(one.key);
  } else if (action == kReadReservation) {
    if (state_.type != none) {
      out.put(holder_key);
      out.zeros(5);
      out.byte(scope_and_type);
      out.zeros(2);
    }
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      out.put(all[i].key);
      out.zeros(4);
      out.byte(holds(i) ? 1 : 0);
      out.byte(holds(i) ? scope_and_type : 0);
      out.zeros(4);
      out.put(all[i].port.target_id);
      const std::size_t length_at = out.size();
      out.put<std::uint32_t>(0);
      write_transport_id(all[i].port, out);
      out.set(length_at, static_cast<std::uint32_t>(out.size() - length_at - 4));
    }
  }
  out.set(4, static_cast<std::uint32_t>(out.size() - 8));
}

}  // namespace verbatim::ulp::scsi
