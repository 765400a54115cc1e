#pragma once

#include <cstdint>

#include "base/net/path.h"
#include "base/types.h"

namespace verbatim::port {

/// An address vector: `struct ibv_ah_attr` in our types.
struct AddressVector {
  Gid dest_gid;
  Lid dlid{};  // InfiniBand, as the next three.
  std::uint8_t source_gid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;    // Added to the port's base LID.
  std::uint8_t static_rate = 0;  // As `ibv_rate`; 0: the port's.
  std::uint8_t port = 1;
  std::uint32_t flow_label = 0;
  bool is_global = true;
};

}  // namespace verbatim::port
