#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "wire/mad/fields.h"
#include "wire/mad/mad.h"
#include "wire/subnet/administration_packet.h"

/// Asking the subnet administrator for a path (IBA chapter 15).
namespace verbatim::wire {

/// A PathRecord (IBA 15.2.5.16).
struct PathRecord {
  static constexpr std::size_t kSize = 64;
  std::uint64_t service = 0;
  Gid destination_gid{};
  Gid source_gid{};
  std::uint16_t destination_lid = 0;
  std::uint16_t source_lid = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  bool reversible = false;
  std::uint8_t path_count = 0;
  std::uint16_t pkey = 0;
  std::uint16_t qos_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t mtu = 0;               // As `ibv_mtu`.
  std::uint8_t rate = 0;              // As `ibv_rate`.
  std::uint8_t packet_life_time = 0;  // 4.096 us * 2^this.
  std::uint8_t preference = 0;
  friend bool operator==(const PathRecord&, const PathRecord&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PathRecord::service, 0), field(&PathRecord::destination_gid, 64, 128),
                 field(&PathRecord::source_gid, 192, 128), field(&PathRecord::destination_lid, 320),
                 field(&PathRecord::source_lid, 336), field(&PathRecord::flow_label, 356, 20),
                 field(&PathRecord::hop_limit, 376), field(&PathRecord::traffic_class, 384),
                 field(&PathRecord::reversible, 392, 1), field(&PathRecord::path_count, 393, 7),
                 field(&PathRecord::pkey, 400), field(&PathRecord::qos_class, 416, 12),
                 field(&PathRecord::service_level, 428, 4), field(&PathRecord::mtu, 434, 6),
                 field(&PathRecord::rate, 442, 6), field(&PathRecord::packet_life_time, 450, 6),
                 field(&PathRecord::preference, 456));
};

/// Which path a query wants: one that leads back as well.
struct PathQuery {
  Gid destination{};
  Gid source{};
  std::uint16_t pkey = 0;
  std::uint64_t service = 0;                  // For which service at the destination.
  std::optional<std::uint16_t> qos_class;     // Asked for if there is one, as
  std::optional<std::uint8_t> traffic_class;  // this.
  friend bool operator==(const PathQuery&, const PathQuery&) = default;
};

/// SubnAdmGet(PathRecord).
AdministrationPacket question_for(const PathQuery& query);

/// All paths from a port.
struct PathTableQuery {
  std::uint64_t transaction = 0;
  Gid source{};
  friend bool operator==(const PathTableQuery&, const PathTableQuery&) = default;
};

/// SubnAdmGetTable(PathRecord).
void encode(const PathTableQuery& query, std::span<std::byte, kMadBytes> out);

struct PathTable {
  std::uint16_t status = 0;         // As `AdministrationPacket::status`.
  std::vector<PathRecord> records;  // Empty unless the status is 0.
};
/// SubnAdmGetTableResp(PathRecord), its segments put together (mad/rmpp). Fails for another
/// message.
std::expected<PathTable, WireError> decode_path_table(ByteSpan message);

}  // namespace verbatim::wire
