#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "base/types.h"
#include "wire/mad/fields.h"

/// Tables of ports and switches. An SMP carries one block, which the attribute modifier selects.
namespace verbatim::wire {

/// Additional GUIDs of a port; entry 0 of block 0 is read-only (IBA 14.2.5.5).
struct GuidInfo {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kEntries = 8;
  std::array<std::uint64_t, kEntries> guids{};
  friend bool operator==(const GuidInfo&, const GuidInfo&) = default;
  static constexpr auto kFields = std::tuple(field(&GuidInfo::guids, 0));
};

/// P_Keys of a port (IBA 14.2.5.7).
struct PKeyTable {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kEntries = 32;
  std::array<PKey, kEntries> keys{};
  friend bool operator==(const PKeyTable&, const PKeyTable&) = default;
  static constexpr auto kFields = std::tuple(field(&PKeyTable::keys, 0));
};

/// The virtual lane of each service level, for one input and one output port (IBA 14.2.5.8). Lane
/// 15 drops the packet.
struct SlToVlMappingTable {
  static constexpr std::size_t kSize = 8;
  std::array<std::uint8_t, 16> lanes{};
  friend bool operator==(const SlToVlMappingTable&, const SlToVlMappingTable&) = default;
  static constexpr auto kFields = std::tuple(field(&SlToVlMappingTable::lanes, 0, 4));
};

struct VlArbitrationEntry {
  std::uint8_t lane = 0;
  std::uint8_t weight = 0;  // In units of 64 bytes; 0 skips the entry.
  friend bool operator==(const VlArbitrationEntry&, const VlArbitrationEntry&) = default;
};

/// Half of the low or of the high table of an output port's arbiter (IBA 14.2.5.9).
struct VlArbitrationTable {
  static constexpr std::size_t kSize = 64;
  std::array<VlArbitrationEntry, 32> entries{};
  friend bool operator==(const VlArbitrationTable&, const VlArbitrationTable&) = default;
};

inline VlArbitrationTable decode_vl_arbitration_table(
    std::span<const std::byte, VlArbitrationTable::kSize> bytes) {
  VlArbitrationTable table;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    table.entries[i] = {.lane = std::to_integer<std::uint8_t>(bytes[2 * i] & std::byte{0xf}),
                        .weight = std::to_integer<std::uint8_t>(bytes[2 * i + 1])};
  }
  return table;
}
inline void encode(const VlArbitrationTable& table,
                   std::span<std::byte, VlArbitrationTable::kSize> out) {
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    out[2 * i] = std::byte{table.entries[i].lane} & std::byte{0xf};
    out[2 * i + 1] = std::byte{table.entries[i].weight};
  }
}

/// The output port of each of 64 LIDs (IBA 14.2.5.10).
struct LinearForwardingTable {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kEntries = 64;
  static constexpr std::uint8_t kNoPort = 255;
  std::array<std::uint8_t, kEntries> ports{};
  friend bool operator==(const LinearForwardingTable&, const LinearForwardingTable&) = default;
  static constexpr auto kFields = std::tuple(field(&LinearForwardingTable::ports, 0));
};

/// Output ports of 32 multicast LIDs, 16 ports each (IBA 14.2.5.12).
struct MulticastForwardingTable {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kEntries = 32;
  static constexpr std::size_t kPorts = 16;
  std::array<std::uint16_t, kEntries> port_masks{};
  friend bool operator==(const MulticastForwardingTable&,
                         const MulticastForwardingTable&) = default;
  static constexpr auto kFields = std::tuple(field(&MulticastForwardingTable::port_masks, 0));
};

/// Attribute modifiers of attributes with several blocks. For GUIDInfo and LinearForwardingTable it
/// is the block number itself.
struct PortInfoModifier {
  static constexpr std::size_t kSize = 4;
  bool knows_extended_speeds = false;  // The manager knows them.
  std::uint8_t port = 0;
  friend bool operator==(const PortInfoModifier&, const PortInfoModifier&) = default;
  static constexpr auto kFields = std::tuple(field(&PortInfoModifier::knows_extended_speeds, 0, 1),
                                             field(&PortInfoModifier::port, 24));
};
struct PKeyTableModifier {
  static constexpr std::size_t kSize = 4;
  std::uint16_t port = 0;  // Of a switch.
  std::uint16_t block = 0;
  friend bool operator==(const PKeyTableModifier&, const PKeyTableModifier&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PKeyTableModifier::port, 0), field(&PKeyTableModifier::block, 16));
};
struct SlToVlModifier {
  static constexpr std::size_t kSize = 4;
  std::uint8_t input_port = 0;
  std::uint8_t output_port = 0;
  friend bool operator==(const SlToVlModifier&, const SlToVlModifier&) = default;
  static constexpr auto kFields =
      std::tuple(field(&SlToVlModifier::input_port, 16), field(&SlToVlModifier::output_port, 24));
};
/// Blocks 1 and 2: low priority table; 3 and 4: high priority table.
struct VlArbitrationModifier {
  static constexpr std::size_t kSize = 4;
  std::uint16_t block = 0;
  std::uint16_t port = 0;
  friend bool operator==(const VlArbitrationModifier&, const VlArbitrationModifier&) = default;
  static constexpr auto kFields =
      std::tuple(field(&VlArbitrationModifier::block, 0), field(&VlArbitrationModifier::port, 16));
};
struct MulticastForwardingModifier {
  static constexpr std::size_t kSize = 4;
  std::uint8_t position = 0;  // Selects ports 16 * position to 16 * position + 15.
  std::uint16_t block = 0;    // 9 bits.
  friend bool operator==(const MulticastForwardingModifier&,
                         const MulticastForwardingModifier&) = default;
  static constexpr auto kFields = std::tuple(field(&MulticastForwardingModifier::position, 0, 4),
                                             field(&MulticastForwardingModifier::block, 23, 9));
};

template <Fields T>
T modifier_as(std::uint32_t modifier) {
  std::array<std::byte, T::kSize> bytes;
  store_be(bytes.data(), modifier);
  return decode<T>(std::span(bytes));
}
template <Fields T>
std::uint32_t modifier_of(const T& modifier) {
  std::array<std::byte, T::kSize> bytes;
  encode(modifier, std::span(bytes));
  return load_be<std::uint32_t>(bytes.data());
}

}  // namespace verbatim::wire
