#pragma once

#include <cstdint>

#include "base/types.h"

namespace verbatim::port {

/// An address vector: `struct ibv_ah_attr` in our types.
struct AddressVector {
  Gid dest_gid;
  std::uint8_t source_gid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t port = 1;
  std::uint32_t flow_label = 0;
  bool is_global = true;
};

}  // namespace verbatim::port
