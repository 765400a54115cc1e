#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "link/decorators/fault_plan.h"

/// Blocks of a pcapng file (draft-ietf-opsawg-pcapng), in this machine's byte order. Each function
/// appends a block to `out`. A file consists of a section header, descriptions of its interfaces,
/// numbered in order, and their packets and statistics.
namespace verbatim::link::pcapng {

/// Of InfiniBand, ERF records: Debian 12's tshark does not know the type 247, of bare packets.
enum class LinkType : std::uint16_t { ethernet = 1, raw_ip = 101, erf = 197 };

struct Interface {
  LinkType type{};
  std::string_view name;
  std::string_view description;
};

struct Packet {
  std::uint32_t interface = 0;
  TimeNs time = 0;  // Since 1970.
  Direction direction{};
  bool has_wrong_crc = false;
  ByteSpan headers;  // Headers before `bytes`.
  ByteSpan bytes;
  ByteSpan trailer;          // CRCs behind `bytes`.
  std::string_view comment;  // Empty: none.
};

struct Statistics {
  std::uint32_t interface = 0;
  TimeNs time = 0;
  std::uint64_t received = 0;  // By the capture, including dropped ones.
  std::uint64_t dropped = 0;   // The capture had no room for them.
};

void append_section(std::vector<std::byte>& out, std::string_view application);
void append_interface(std::vector<std::byte>& out, const Interface& interface);
void append_packet(std::vector<std::byte>& out, const Packet& packet);
void append_statistics(std::vector<std::byte>& out, const Statistics& statistics);

}  // namespace verbatim::link::pcapng
