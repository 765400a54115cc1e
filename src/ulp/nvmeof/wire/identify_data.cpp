#include "ulp/nvmeof/wire/identify_data.h"

#include <algorithm>

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint8_t kLogEffects = 0x02, kLogParts = 0x04;                      // LPA
constexpr std::uint32_t kHostIdOf128Bits = 0x01;                                  // CTRATT
constexpr std::uint16_t kDiscards = 0x04, kWriteZeroes = 0x08, kReserves = 0x20;  // ONCS
constexpr std::uint32_t kSgl = 0x01, kKeyed = 0x04, kOffset = 0x100000;           // SGLS
constexpr std::byte kUuidDescriptor{3}, kCommandSetDescriptor{4};

/// Text without a final zero, and spaces behind it (section 1.5).
void put_text(std::string_view text, std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{' '});
  const auto bytes = std::as_bytes(std::span(text));
  std::ranges::copy(bytes.first(std::min(bytes.size(), out.size())), out.begin());
}

std::string text_of(ByteSpan bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (text.ends_with(' ') || text.ends_with('\0')) text.pop_back();
  return text;
}

}  // namespace

void encode(const ControllerData& data, IdentifyPage out) {
  std::ranges::fill(out, std::byte{});
  put_text(data.serial, out.subspan(4, 20));
  put_text(data.model, out.subspan(24, 40));
  put_text(data.firmware, out.subspan(64, 8));
  out[77] = std::byte{data.transfer_shift};
  store_le(&out[78], data.id);
  store_le(&out[80], kVersion);
  store_le(&out[92], data.notices);
  store_le(&out[96], kHostIdOf128Bits);
  out[111] = static_cast<std::byte>(data.type);
  out[258] = std::byte{3};  // ACL: four Aborts at a time.
  out[259] = static_cast<std::byte>(data.async_events - 1);
  out[260] = std::byte{0x03};  // FRMW: one slot, which is read-only.
  out[261] = std::byte{kLogEffects | kLogParts};
  out[262] = static_cast<std::byte>(data.error_entries - 1);
  store_le(&out[320], std::uint16_t{10});  // KAS: keep alive in steps of a second.
  store_le(&out[514], data.commands);
  store_le(&out[536], kSgl | kKeyed | kOffset);
  std::ranges::copy(std::as_bytes(std::span(data.subsystem))
                        .first(std::min<std::size_t>(data.subsystem.size(), 255)),
                    &out[768]);
  store_le(&out[1792], data.capsule_bytes / 16);
  store_le(&out[1796], std::uint32_t{Completion::kSize / 16});
  out[1803] = std::byte{1};  // MSDBD: one descriptor a command.
  if (data.type == ControllerType::discovery) return;
  out[512] = std::byte{0x66};  // SQES, CQES: 64 and 16 bytes.
  out[513] = std::byte{0x44};
  store_le(&out[516], data.namespaces);
  store_le(&out[520], static_cast<std::uint16_t>(kDiscards | kWriteZeroes |
                                                 (data.has_reservations ? kReserves : 0)));
  out[525] = std::byte{0x01};  // VWC: files and their disks have caches; Flush makes writes stable.
  store_le(&out[540], data.namespaces);  // MNAN
  if (data.access_groups == 0) return;
  out[76] = std::byte{0x0b};   // CMIC: several ports and controllers, access states.
  out[342] = std::byte{10};    // ANATT: a transition's seconds.
  out[343] = std::byte{0x1f};  // ANACAP: all states.
  store_le(&out[344], data.access_groups);
  store_le(&out[348], data.access_groups);
}

void encode(const SpaceData& data, IdentifyPage out) {
  std::ranges::fill(out, std::byte{});
  for (const std::size_t at : {0, 8, 16}) store_le(&out[at], data.blocks);  // NSZE, NCAP, NUSE
  out[30] = std::byte{0x01};  // NMIC: several controllers may have it.
  // RESCAP: all types, the key is ignored as version 1.3 says; they outlive a loss of power.
  if (data.can_reserve) out[31] = std::byte{0xfe} | std::byte{data.reservations_last};
  store_le(&out[92], data.access_group);
  out[99] = std::byte{data.is_read_only};
  std::ranges::copy(data.uuid, &out[104]);
  out[130] = std::byte{data.block_shift};  // LBAF 0
}

FoundController decode_controller(std::span<const std::byte, kIdentifyBytes> page) {
  const auto sgls = load_le<std::uint32_t>(&page[536]);
  const auto commands = load_le<std::uint16_t>(&page[520]);
  // A host that wants data in the capsule at another place than behind the command is refused.
  const bool has_offset = load_le<std::uint16_t>(&page[1800]) != 0;  // ICDOFF
  return {.name = text_of(page.subspan(24, 40)) + " " + text_of(page.subspan(4, 20)),
          .transfer_shift = std::to_integer<std::uint8_t>(page[77]),
          .capsule_bytes = has_offset ? 64 : load_le<std::uint32_t>(&page[1792]) * 16,
          .has_keyed_descriptors = (sgls & kKeyed) != 0,
          .can_discard = (commands & kDiscards) != 0,
          .can_write_zeroes = (commands & kWriteZeroes) != 0,
          .tells_access = (page[76] & std::byte{0x08}) != std::byte{},
          .notices = load_le<std::uint32_t>(&page[92])};
}

FoundSpace decode_space(std::span<const std::byte, kIdentifyBytes> page) {
  constexpr std::byte kFormat{0x0f};
  const std::size_t format = 128 + 4 * std::to_integer<std::size_t>(page[26] & kFormat);
  Uuid id{};
  std::ranges::copy(page.subspan(104, 16), id.begin());                                  // NGUID
  if (id == Uuid{}) std::ranges::copy(page.subspan(120, 8), std::span(id).begin() + 8);  // EUI-64
  return {.blocks = load_le<std::uint64_t>(page.data()),
          .block_shift = std::to_integer<std::uint8_t>(page[format + 2]),
          .metadata_bytes = load_le<std::uint16_t>(&page[format]),
          .is_read_only = (page[99] & std::byte{1}) != std::byte{},
          .access_group = load_le<std::uint32_t>(&page[92]),
          .global_id = id};
}

FoundNames decode_names(std::span<const std::byte, kIdentifyBytes> page) {
  const auto text = [&](std::size_t at, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&page[at]), bytes);
  };
  return {.serial = text(4, 20),
          .model = text(24, 40),
          .firmware = text(64, 8),
          .type = std::to_integer<std::uint8_t>(page[111]),
          .discovery_type = std::to_integer<std::uint8_t>(page[112])};
}

std::vector<std::uint32_t> decode_space_list(std::span<const std::byte, kIdentifyBytes> page) {
  std::vector<std::uint32_t> list;
  for (std::size_t at = 0; at < page.size(); at += 4) {
    const auto id = load_le<std::uint32_t>(&page[at]);
    if (id == 0) break;
    list.push_back(id);
  }
  return list;
}

Uuid decode_uuid(std::span<const std::byte, kIdentifyBytes> page) {
  constexpr std::size_t kHead = 4;
  Uuid uuid{};
  for (std::size_t at = 0; at + kHead <= page.size() && page[at] != std::byte{};) {
    const auto bytes = std::to_integer<std::size_t>(page[at + 1]);
    if (page[at] == kUuidDescriptor && bytes == uuid.size() && at + kHead + bytes <= page.size()) {
      std::ranges::copy(page.subspan(at + kHead, bytes), uuid.begin());
      break;
    }
    at += kHead + bytes;
  }
  return uuid;
}

void encode_descriptors(const Uuid& uuid, IdentifyPage out) {
  std::ranges::fill(out, std::byte{});
  out[0] = kUuidDescriptor;
  out[1] = std::byte{16};
  std::ranges::copy(uuid, &out[4]);
  out[20] = kCommandSetDescriptor;
  out[21] = std::byte{1};
}

}  // namespace verbatim::ulp::nvmeof
