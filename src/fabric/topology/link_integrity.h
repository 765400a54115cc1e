#pragma once

#include <cstdint>

namespace verbatim::fabric {

/// Finds damaged packets that come close together on one direction of a link: damaged packets less
/// good ones, never below 0, are more than the port's LocalPhyErrors (IBA 7.12.2). The link
/// recovers then, and the count begins again. A value; all zeros are a valid beginning.
class LinkIntegrity {
 public:
  /// Returns true if this packet is one too many.
  bool is_lost_with(bool is_damaged, std::uint8_t local_physical_errors) {
    if (!is_damaged) {
      if (damaged_ != 0) --damaged_;
      return false;
    }
    if (++damaged_ <= local_physical_errors) return false;
    damaged_ = 0;
    return true;
  }

 private:
  std::uint8_t damaged_ = 0;  // PortInfo's threshold has 4 bits.
};

}  // namespace verbatim::fabric
