#include "ulp/scsi/unit_attention.h"

#include <bit>

#include "base/assert.h"
#include "base/types.h"

namespace verbatim::ulp::scsi {

namespace {

constexpr SenseCode kCodes[] = {
    SenseCode::power_on_or_reset,
    SenseCode::device_reset,
    SenseCode::nexus_loss,
    SenseCode::mode_parameters_changed,
    SenseCode::reservations_preempted,
    SenseCode::reservations_released,
    SenseCode::registrations_preempted,
    SenseCode::access_state_changed,
    SenseCode::capacity_changed,
    SenseCode::commands_cleared_by_another,
    SenseCode::inquiry_data_changed,
    SenseCode::luns_changed,
};

std::uint16_t bit_of(Attention what) { return static_cast<std::uint16_t>(1u << raw(what)); }

}  // namespace

void Attentions::on_login(NexusId nexus) {
  if (!known(nexus)) {
    pending_.resize(index(nexus) + 1);
    is_here_.resize(index(nexus) + 1);
  }
  pending_[index(nexus)] = 0;
  is_here_[index(nexus)] = true;
}

void Attentions::on_gone(NexusId nexus) {
  if (!known(nexus)) return;
  pending_[index(nexus)] = 0;
  is_here_[index(nexus)] = false;
}

void Attentions::tell(NexusId nexus, Attention what) {
  if (known(nexus) && is_here_[index(nexus)]) pending_[index(nexus)] |= bit_of(what);
}

void Attentions::tell_all(Attention what) {
  for (std::uint32_t i = 0; i < pending_.size(); ++i) tell(NexusId{i}, what);
}

void Attentions::tell_others(NexusId nexus, Attention what) {
  for (std::uint32_t i = 0; i < pending_.size(); ++i) {
    if (NexusId{i} != nexus) tell(NexusId{i}, what);
  }
}

Sense Attentions::take(NexusId nexus) {
  VERBATIM_ASSERT(any(nexus));
  std::uint16_t& pending = pending_[index(nexus)];
  const int first = std::countr_zero(pending);
  pending &= static_cast<std::uint16_t>(pending - 1);
  return {SenseKey::unit_attention, kCodes[first], {}, {}};
}

void Attentions::forget(NexusId nexus, Attention what) {
  if (known(nexus)) pending_[index(nexus)] &= static_cast<std::uint16_t>(~bit_of(what));
}

}  // namespace verbatim::ulp::scsi
