#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

/// The transport opcodes as one table, which RC, UC, UD and XRC share (IBA volume 1, table 38, and
/// annex A19 for FLUSH and ATOMIC WRITE).
namespace verbatim::wire {

/// The service: the upper three bits of an opcode.
enum class Service : std::uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5 };

/// The operation that a packet belongs to.
enum class Verb : std::uint8_t {
  send,
  write,
  read_request,
  read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  flush,         // Annex A19.
  atomic_write,  // Annex A19.
};

/// The packet's position in its message.
enum class Position : std::uint8_t { first, middle, last, only };

/// The extended headers that follow the BTH; `decode_packet` has their order.
enum Header : std::uint16_t {
  kDeth = 1,
  kReth = 2,
  kAtomicEth = 4,
  kAeth = 8,
  kAtomicAckEth = 16,
  kImmediate = 32,
  kIeth = 64,
  kXrcEth = 128,  // The first one, directly after the BTH.
  kFeth = 256,
};

/// The size of all these headers together, by their bits.
inline constexpr std::array<std::uint8_t, 512> kHeaderBytes = [] {
  constexpr std::uint8_t kSizes[] = {8, 16, 28, 4, 8, 4, 4, 4, 4};  // In the order of `Header`.
  std::array<std::uint8_t, 512> table{};
  for (std::size_t headers = 0; headers < table.size(); ++headers) {
    for (std::size_t bit = 0; bit < std::size(kSizes); ++bit) {
      if ((headers >> bit & 1) != 0) table[headers] += kSizes[bit];
    }
  }
  return table;
}();

/// Of an unknown (reserved) opcode only `service` and `is_request` are set.
struct OpcodeInfo {
  bool known = false;
  Service service{};
  Verb verb{};
  Position position{};
  std::uint16_t headers = 0;  // Bits of `Header`.
  bool has_payload = false;
  bool is_request = false;

  constexpr bool has(Header header) const { return (headers & header) != 0; }
  constexpr bool starts_message() const {
    return position == Position::first || position == Position::only;
  }
  constexpr bool ends_message() const {
    return position == Position::last || position == Position::only;
  }
  /// Returns the size of the extended headers.
  constexpr std::uint32_t header_bytes() const { return kHeaderBytes[headers]; }
};

enum class Opcode : std::uint8_t {};

namespace detail {

struct Row {
  std::uint8_t low;  // The lower five bits of the opcode.
  Verb verb;
  Position position;
  std::uint16_t headers;
  bool has_payload;
};

/// The rows of the connected services. UC has those of SEND and WRITE, UD the two "only" SENDs. XRC
/// has all, with an XRCETH in every request (IBA annex A14).
inline constexpr Row kRows[] = {
    {0x00, Verb::send, Position::first, 0, true},
    {0x01, Verb::send, Position::middle, 0, true},
    {0x02, Verb::send, Position::last, 0, true},
    {0x03, Verb::send, Position::last, kImmediate, true},
    {0x04, Verb::send, Position::only, 0, true},
    {0x05, Verb::send, Position::only, kImmediate, true},
    {0x06, Verb::write, Position::first, kReth, true},
    {0x07, Verb::write, Position::middle, 0, true},
    {0x08, Verb::write, Position::last, 0, true},
    {0x09, Verb::write, Position::last, kImmediate, true},
    {0x0a, Verb::write, Position::only, kReth, true},
    {0x0b, Verb::write, Position::only, kReth | kImmediate, true},
    {0x0c, Verb::read_request, Position::only, kReth, false},
    {0x0d, Verb::read_response, Position::first, kAeth, true},
    {0x0e, Verb::read_response, Position::middle, 0, true},
    {0x0f, Verb::read_response, Position::last, kAeth, true},
    {0x10, Verb::read_response, Position::only, kAeth, true},
    {0x11, Verb::acknowledge, Position::only, kAeth, false},
    {0x12, Verb::atomic_acknowledge, Position::only, kAeth | kAtomicAckEth, false},
    {0x13, Verb::compare_swap, Position::only, kAtomicEth, false},
    {0x14, Verb::fetch_add, Position::only, kAtomicEth, false},
    {0x16, Verb::send, Position::last, kIeth, true},
    {0x17, Verb::send, Position::only, kIeth, true},
    {0x1c, Verb::flush, Position::only, kFeth | kReth, false},
    {0x1d, Verb::atomic_write, Position::only, kReth, true},
};

constexpr bool is_response(Verb verb) {
  return verb == Verb::read_response || verb == Verb::acknowledge ||
         verb == Verb::atomic_acknowledge;
}

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> table{};
  const auto add = [&table](Service service, const Row& row, unsigned extra) {
    table[static_cast<std::size_t>(service) << 5 | row.low] = {
        true,
        service,
        row.verb,
        row.position,
        static_cast<std::uint16_t>(row.headers | extra),
        row.has_payload,
        !is_response(row.verb)};
  };
  // Reserved opcodes are requests that no queue pair serves (IBA 9.9.3).
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i].service = static_cast<Service>(i >> 5);
    table[i].is_request = true;
  }
  for (const Row& row : kRows) {
    add(Service::rc, row, 0);
    add(Service::xrc, row, is_response(row.verb) ? 0 : kXrcEth);
    if (row.low <= 0x0b) add(Service::uc, row, 0);
    if (row.low == 0x04 || row.low == 0x05) add(Service::ud, row, kDeth);
  }
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeInfo, 256> kOpcodes = detail::make_opcode_table();

constexpr const OpcodeInfo& info(Opcode opcode) {
  return kOpcodes[static_cast<std::uint8_t>(opcode)];
}

/// Returns the opcode with these properties, which must be in the table.
constexpr Opcode opcode_of(Service service, Verb verb, Position position, bool immediate = false,
                           bool invalidate = false) {
  for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
    const OpcodeInfo& row = kOpcodes[i];
    if (row.known && row.service == service && row.verb == verb && row.position == position &&
        row.has(kImmediate) == immediate && row.has(kIeth) == invalidate) {
      return static_cast<Opcode>(i);
    }
  }
  return static_cast<Opcode>(0xff);
}

/// Returns the same opcode for another service.
constexpr Opcode in_service(Opcode opcode, Service service) {
  return static_cast<Opcode>((static_cast<std::uint8_t>(opcode) & 0x1f) |
                             static_cast<std::uint8_t>(service) << 5);
}

/// Returns true for the services that acknowledge. XRC is RC with other opcodes and receive queues.
constexpr bool is_reliable(Service service) {
  return service == Service::rc || service == Service::xrc;
}

}  // namespace verbatim::wire
