#include "ulp/nvmeof/wire/log_pages.h"

#include <algorithm>

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::byte kRdma{1}, kIpv4{1}, kIpv6{2}, kNvmSubsystem{2};
constexpr std::byte kReliableConnected{1}, kNoProvider{1}, kRdmaCm{1};
constexpr std::uint32_t kSupported = 1, kChangesBlocks = 2;

void put_text(std::string_view text, std::byte* out, std::size_t bytes_max) {
  std::ranges::copy(std::as_bytes(std::span(text)).first(std::min(text.size(), bytes_max)), out);
}

}  // namespace

LogRequest log_request_of(const AdminCommand& command) {
  const std::uint64_t dwords =
      std::uint64_t{command.dword(11) & 0xffff} << 16 | command.dword(10) >> 16;
  return {.page = static_cast<LogPage>(command.dword(10) & 0xff),
          .offset = command.dwords_64(12),
          .bytes = 4 * (dwords + 1),
          .keeps_event = (command.dword(10) & 0x8000) != 0,
          .only_groups = (command.dword(10) & 0x0100) != 0};
}

void put_log_request(const LogRequest& request, AdminCommand& command) {
  const std::uint64_t dwords = request.bytes / 4 - 1;
  command.opcode = AdminOpcode::get_log_page;
  const std::uint32_t flags =
      (request.keeps_event ? 0x8000u : 0u) | (request.only_groups ? 0x0100u : 0u);
  command.dwords = {static_cast<std::uint32_t>(dwords << 16) | flags | raw(request.page),
                    static_cast<std::uint32_t>(dwords >> 16),
                    static_cast<std::uint32_t>(request.offset),
                    static_cast<std::uint32_t>(request.offset >> 32)};
}

void encode_health(std::uint64_t errors, LogBlock out) {
  std::ranges::fill(out, std::byte{});
  store_le(&out[176], errors);
  store_le(&out[1], std::uint16_t{300});  // Kelvin.
  out[3] = std::byte{100};                // Spare in percent, and its threshold.
  out[4] = std::byte{10};
}

void encode_firmware(std::string_view revision, LogBlock out) {
  std::ranges::fill(out, std::byte{});
  out[0] = std::byte{1};  // Slot 1 is active.
  std::ranges::fill(out.subspan(8, 8), std::byte{' '});
  put_text(revision, &out[8], 8);
}

void encode_effects(std::uint64_t block, bool has_reservations, LogBlock out) {
  std::ranges::fill(out, std::byte{});
  const auto supports = [&](std::size_t opcode, std::uint32_t effects = 0) {
    store_le(&out[4 * opcode], kSupported | effects);
  };
  if (block == 0) {
    for (const AdminOpcode opcode :
         {AdminOpcode::get_log_page, AdminOpcode::identify, AdminOpcode::abort,
          AdminOpcode::set_features, AdminOpcode::get_features, AdminOpcode::async_event_request,
          AdminOpcode::keep_alive})
      supports(raw(opcode));
  } else if (block == 1) {
    supports(raw(Opcode::flush));
    supports(raw(Opcode::read));
    supports(raw(Opcode::write), kChangesBlocks);
    supports(raw(Opcode::write_zeroes), kChangesBlocks);
    supports(raw(Opcode::dataset_management), kChangesBlocks);
    if (!has_reservations) return;
    for (const Opcode opcode : {Opcode::reservation_register, Opcode::reservation_report,
                                Opcode::reservation_acquire, Opcode::reservation_release})
      supports(raw(opcode));
  }
}

void put_error(const ErrorEntry& entry, LogBlockWriter& out) {
  constexpr std::uint16_t kNoPlace = 0xffff;  // Of the wrong field in the command.
  constexpr std::uint16_t kDoNotRetry = 0x8000;
  out.put(entry.count);
  out.put(entry.queue);
  out.put(raw(entry.command));
  out.put(static_cast<std::uint16_t>(raw(entry.status) << 1 | kDoNotRetry));
  out.put(kNoPlace);
  out.put(entry.block);
  out.put(entry.space);
  for (int i = 0; i < 36; ++i) out.put(std::uint8_t{0});
}

void put_reservation(const ReservationLogEntry& entry, LogBlockWriter& out) {
  out.put(entry.count);
  out.put(entry.event);
  out.put(entry.more);
  out.put(std::uint16_t{0});
  out.put(entry.space);
  for (int i = 0; i < 48; ++i) out.put(std::uint8_t{0});
}

void put_access_header(std::uint64_t changes, std::uint16_t groups, LogBlockWriter& out) {
  out.put(changes);
  out.put(groups);
  out.put(std::uint16_t{0});
  out.put(std::uint32_t{0});
}

void put_access_group(std::uint32_t group, std::uint32_t spaces, std::uint64_t changes,
                      AccessState state, LogBlockWriter& out) {
  out.put(group);
  out.put(spaces);
  out.put(changes);
  out.put(raw(state));
  for (int i = 0; i < 15; ++i) out.put(std::uint8_t{0});
}

std::optional<AccessState> decode_access_state(ByteSpan bytes, std::uint32_t group) {
  constexpr std::size_t kHead = 16, kGroupBytes = 32;
  if (bytes.size() < kHead) return {};
  std::size_t at = kHead;
  for (auto left = load_le<std::uint16_t>(&bytes[8]); left > 0; --left) {
    if (at + kGroupBytes > bytes.size()) return {};
    if (load_le<std::uint32_t>(&bytes[at]) == group)
      return static_cast<AccessState>(std::to_integer<std::uint8_t>(bytes[at + 16]) & 0xf);
    at += kGroupBytes + std::size_t{4} * load_le<std::uint32_t>(&bytes[at + 4]);
  }
  return {};
}

void encode_discovery_header(std::uint64_t generation, std::uint64_t entries, LogBlock out) {
  std::ranges::fill(out, std::byte{});
  store_le(&out[0], generation);
  store_le(&out[8], entries);
}

void encode(const DiscoveryEntry& entry, LogBlock out) {
  std::ranges::fill(out, std::byte{});
  out[0] = kRdma;
  out[1] = entry.at.is_ipv6() ? kIpv6 : kIpv4;
  out[2] = kNvmSubsystem;
  store_le(&out[4], entry.port_id);
  store_le(&out[6], std::uint16_t{0xffff});  // A controller of its own for each host.
  store_le(&out[8], entry.admin_commands);
  put_text(fmt::format("{}", entry.at.port()), &out[32], 31);
  put_text(entry.subsystem, &out[256], 223);
  put_text(entry.at.ip_text(), &out[512], 255);
  out[768] = kReliableConnected;
  out[769] = kNoProvider;
  out[770] = kRdmaCm;
}

std::expected<DiscoveryHeader, WireError> decode_discovery_header(ByteSpan bytes) {
  if (bytes.size() < 16) return std::unexpected(WireError::too_short);
  return DiscoveryHeader{.generation = load_le<std::uint64_t>(&bytes[0]),
                         .entries = load_le<std::uint64_t>(&bytes[8])};
}

}  // namespace verbatim::ulp::nvmeof
