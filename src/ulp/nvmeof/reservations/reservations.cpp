#include "ulp/nvmeof/reservations/reservations.h"

#include <algorithm>

#include "base/types.h"

namespace verbatim::ulp::nvmeof {

using enum ReservationType;

namespace {

bool is_type(ReservationType type) {
  return type >= write_exclusive && type <= exclusive_access_all_registrants;
}

bool keeps_readers_out(ReservationType type) {
  return type == exclusive_access || type == exclusive_access_registrants_only ||
         type == exclusive_access_all_registrants;
}

}  // namespace

std::optional<std::size_t> Reservations::find(const HostId& host) const {
  const auto found = std::ranges::find(state_.registrants, host, &Registrant::host);
  if (found == state_.registrants.end()) return {};
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
  return state_.type != none && (is_for_all() || registrant == state_.holder);
}

/// Figure 396. Flush is a write, as with Linux.
bool Reservations::is_kept_out(const HostId& host, Opcode opcode) const {
  if (is_reservation(opcode)) return false;
  if (opcode == Opcode::read && !keeps_readers_out(state_.type)) return false;
  const auto registrant = find(host);
  return !registrant || !(is_for_registrants() || holds(*registrant));
}

Status Reservations::change(const HostId& host, const ReservationChange& change,
                            std::vector<ReservationNotice>& notices) {
  if (change.opcode == Opcode::reservation_register) {
    const Status status = enroll(host, change, notices);
    return status != Status::success || keep() ? status : Status::internal_error;
  }
  const bool acquires = change.opcode == Opcode::reservation_acquire;
  if (change.ignores_key || (acquires && !is_type(change.type))) return Status::invalid_field;
  const auto registrant = find(host);
  if (!registrant || state_.registrants[*registrant].key != change.key)
    return Status::reservation_conflict;
  const Status status =
      acquires ? acquire(*registrant, change, notices) : release(*registrant, change, notices);
  return status != Status::success || keep() ? status : Status::internal_error;
}

Status Reservations::enroll(const HostId& host, const ReservationChange& change, Notices& notices) {
  auto& all = state_.registrants;
  const auto registrant = find(host);
  const bool lasts = change.persistence == Persistence::lasts;
  const bool has_key = registrant && (change.ignores_key || all[*registrant].key == change.key);
  if (lasts && keeper_ == nullptr) return Status::invalid_field;
  switch (static_cast<RegisterAction>(change.action)) {
    case RegisterAction::enroll:
      if (registrant && all[*registrant].key != change.second_key)
        return Status::reservation_conflict;
      if (!registrant && all.size() == kRegistrantsMax) return Status::internal_error;
      if (!registrant) all.push_back({host, change.second_key});
      break;
    case RegisterAction::withdraw:
      if (!has_key) return Status::reservation_conflict;
      remove(*registrant, notices);
      break;
    case RegisterAction::replace:
      if (!has_key) return Status::reservation_conflict;
      all[*registrant].key = change.second_key;
      break;
    default:  // As Linux.
      return Status::invalid_opcode;
  }
  ++state_.generation;
  const bool ends = change.persistence == Persistence::ends;
  return lasts || ends ? set_lasts(lasts) : Status::success;
}

Status Reservations::acquire(std::size_t registrant, const ReservationChange& change,
                             Notices& notices) {
  switch (static_cast<AcquireAction>(change.action)) {
    case AcquireAction::acquire:
      if (state_.type != none)
        return holds(registrant) && state_.type == change.type ? Status::success
                                                               : Status::reservation_conflict;
      state_.type = change.type;
      state_.holder = registrant;
      return Status::success;
    case AcquireAction::preempt:
    case AcquireAction::preempt_and_abort:
      return preempt(registrant, change, notices);
  }
  return Status::invalid_opcode;
}

/// Section 8.8.7: who has the key is removed; whoever removes the holder takes the reservation
/// over. A key of 0 names all others, if all of them hold it.
Status Reservations::preempt(std::size_t registrant, const ReservationChange& change,
                             Notices& notices) {
  auto& all = state_.registrants;
  const HostId own = all[registrant].host;
  const ReservationType before = state_.type;
  const std::uint64_t key = change.second_key;
  const bool names_all = is_for_all() && key == 0;
  const bool takes_over =
      names_all || (before != none && !is_for_all() && all[state_.holder].key == key);
  if (!takes_over) {
    if (before != none && key == 0) return Status::invalid_field;
    if (!remove_by_key(key, own, true, notices)) return Status::reservation_conflict;
    return ++state_.generation, Status::success;
  }
  // The new one holds it first: what is removed then releases nothing.
  state_.type = change.type;
  state_.holder = registrant;
  if (names_all) {
    for (std::size_t i = all.size(); i-- > 0;)
      if (all[i].host != own) {
        notices.push_back({all[i].host, ReservationEvent::registration_preempted});
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      }
    state_.holder = 0;
  } else {
    remove_by_key(key, own, false, notices);
    if (before != change.type) tell_others(own, ReservationEvent::reservation_released, notices);
  }
  ++state_.generation;
  return Status::success;
}

bool Reservations::remove_by_key(std::uint64_t key, const HostId& by, bool also_own,
                                 Notices& notices) {
  bool is_any = false;
  for (std::size_t i = state_.registrants.size(); i-- > 0;) {
    const Registrant one = state_.registrants[i];
    if (one.key != key || (one.host == by && !also_own)) continue;
    is_any = true;
    remove(i, notices);
    if (one.host != by) notices.push_back({one.host, ReservationEvent::registration_preempted});
  }
  return is_any;
}

Status Reservations::release(std::size_t registrant, const ReservationChange& change,
                             Notices& notices) {
  switch (static_cast<ReleaseAction>(change.action)) {
    case ReleaseAction::release: {
      if (!holds(registrant)) return Status::success;
      if (state_.type != change.type) return Status::reservation_conflict;
      const bool is_told = is_for_registrants();
      state_.type = none;
      if (is_told)
        tell_others(state_.registrants[registrant].host, ReservationEvent::reservation_released,
                    notices);
      return Status::success;
    }
    case ReleaseAction::clear:
      return clear(registrant, notices), Status::success;
  }
  return Status::invalid_opcode;
}

void Reservations::clear(std::size_t registrant, Notices& notices) {
  tell_others(state_.registrants[registrant].host, ReservationEvent::reservation_preempted,
              notices);
  state_.registrants.clear();
  state_.type = none;
  ++state_.generation;
}

void Reservations::remove(std::size_t index, Notices& notices) {
  auto& all = state_.registrants;
  const bool ends = holds(index) && (!is_for_all() || all.size() == 1);
  const bool is_told = ends && is_for_registrants();
  const HostId host = all[index].host;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
  if (state_.holder > index || state_.holder == all.size())
    state_.holder -= state_.holder == 0 ? 0 : 1;
  if (!ends) return;
  state_.type = none;
  if (is_told) tell_others(host, ReservationEvent::reservation_released, notices);
}

void Reservations::tell_others(const HostId& host, ReservationEvent event, Notices& notices) const {
  for (const Registrant& one : state_.registrants)
    if (one.host != host) notices.push_back({one.host, event});
}

ReservationReport Reservations::report() const {
  ReservationReport report{
      .generation = state_.generation, .type = state_.type, .lasts = lasts_, .entries = {}};
  for (std::size_t i = 0; i < state_.registrants.size(); ++i)
    report.entries.push_back({state_.registrants[i].host, state_.registrants[i].key, holds(i)});
  return report;
}

Status Reservations::set_lasts(bool lasts) {
  if (keeper_ == nullptr) return lasts ? Status::invalid_field : Status::success;
  if (lasts_ == lasts) return Status::success;
  lasts_ = lasts;
  return keeper_->keep(lasts ? &state_ : nullptr) ? Status::success : Status::internal_error;
}

bool Reservations::keep() { return !lasts_ || keeper_ == nullptr || keeper_->keep(&state_); }

Reservations::Epoch Reservations::begin_write() {
  ++writes_.back();
  return Epoch{first_epoch_ + writes_.size() - 1};
}

bool Reservations::end_write(Epoch epoch) {
  --writes_[raw(epoch) - first_epoch_];
  const std::uint64_t before = first_epoch_;
  while (writes_.size() > 1 && writes_.front() == 0) writes_.pop_front(), ++first_epoch_;
  return first_epoch_ != before;
}

Reservations::Epoch Reservations::barrier() {
  if (writes_.size() == 1 && writes_.back() == 0) return Epoch{first_epoch_};
  if (writes_.back() != 0) writes_.push_back(0);
  return Epoch{first_epoch_ + writes_.size() - 1};
}

}  // namespace verbatim::ulp::nvmeof
