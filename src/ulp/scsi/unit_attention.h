#pragma once

#include <cstdint>
#include <vector>

#include "ulp/scsi/sense.h"

/// What a unit has to tell each initiator before it serves it again (SAM-5, 5.14).
namespace verbatim::ulp::scsi {

/// An initiator at a port: whom unit attentions and task management know. The target numbers them
/// from 0, and uses a number again when its initiator has gone.
enum class NexusId : std::uint32_t {};

/// In the order in which they are told.
enum class Attention : std::uint8_t {
  power_on_or_reset,
  device_reset,
  nexus_loss,
  mode_parameters_changed,
  reservations_preempted,
  reservations_released,
  registrations_preempted,
  access_state_changed,
  capacity_changed,
  commands_cleared,
  inquiry_data_changed,
  luns_changed,
};

/// One bit an initiator and kind, so that what initiators can make a unit keep is bounded.
class Attentions {
 public:
  /// A new initiator, which has nothing to be told.
  void on_login(NexusId nexus);
  void on_gone(NexusId nexus);

  void tell(NexusId nexus, Attention what);
  void tell_all(Attention what);
  void tell_others(NexusId nexus, Attention what);

  bool any(NexusId nexus) const { return known(nexus) && pending_[index(nexus)] != 0; }
  /// Takes the first one. Requires that there is one.
  Sense take(NexusId nexus);
  void forget(NexusId nexus, Attention what);

 private:
  static std::size_t index(NexusId nexus) { return static_cast<std::size_t>(nexus); }
  bool known(NexusId nexus) const { return index(nexus) < pending_.size(); }

  std::vector<std::uint16_t> pending_;  // By initiator: a bit for each Attention.
  std::vector<bool> is_here_;
};

}  // namespace verbatim::ulp::scsi
