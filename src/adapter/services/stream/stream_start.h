#pragma once

#include "base/os/unique_fd.h"
#include "cm/iwarp/mpa_setup.h"

namespace verbatim::adapter {

/// A TCP connection whose ends have agreed on an RDMAP stream.
struct StreamStart {
  UniqueFd socket;
  cm::MpaParameters agreement;
  bool is_initiator = false;  // Has sent the MPA Request.
};

}  // namespace verbatim::adapter
