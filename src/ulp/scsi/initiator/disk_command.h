#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::ulp::scsi {

enum class DataDirection : std::uint8_t { none, to_target, from_target };

/// A command with one piece of data.
struct DiskCommand {
  std::array<std::byte, 16> cdb{};
  DataDirection direction = DataDirection::none;
  std::uint32_t data_bytes = 0;
  /// The data of `discard` and `write_zeroes`: one block of zeroes, which is the engine's.
  bool is_zero_block = false;
};

/// Of what a session asks for itself: 256 units.
inline constexpr std::uint32_t kDataBytesMax = 2056;

}  // namespace verbatim::ulp::scsi
