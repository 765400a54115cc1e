#pragma once

#include <cstdint>

namespace verbatim::ulp::scsi {

/// Asymmetric access states of target ports, and their numbers (SPC-4, 6.37).
enum class AccessState : std::uint8_t {
  optimized = 0,
  non_optimized = 1,
  standby = 2,
  unavailable = 3,
  lba_dependent = 4,
  offline = 14,
  transitioning = 15,
};

}  // namespace verbatim::ulp::scsi
