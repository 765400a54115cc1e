#include "wire/subnet/path_record.h"

namespace verbatim::wire {
namespace {

/// The components of a PathRecord that the SA shall compare (IBA table 205).
enum Component : std::uint64_t {
  kService = 3 << 0,  // Both parts of it.
  kDestinationGid = 1 << 2,
  kSourceGid = 1 << 3,
  kTrafficClass = 1 << 10,
  kReversible = 1 << 11,
  kPathCount = 1 << 12,
  kPKey = 1 << 13,
  kQosClass = 1 << 14,
};

}  // namespace

AdministrationPacket question_for(const PathQuery& query) {
  std::uint64_t components =
      kService | kDestinationGid | kSourceGid | kReversible | kPathCount | kPKey;
  if (query.qos_class) components |= kQosClass;
  if (query.traffic_class) components |= kTrafficClass;
  AdministrationPacket packet{.method = MadMethod::get,
                              .attribute = AdministrationAttribute::path_record,
                              .components = components};
  set_data(packet, PathRecord{.service = query.service,
                              .destination_gid = query.destination,
                              .source_gid = query.source,
                              .traffic_class = query.traffic_class.value_or(0),
                              .reversible = true,
                              .path_count = 1,
                              .pkey = query.pkey,
                              .qos_class = query.qos_class.value_or(0)});
  return packet;
}

void encode(const PathTableQuery& query, std::span<std::byte, kMadBytes> out) {
  AdministrationPacket packet{.method = MadMethod::get_table,
                              .transaction = query.transaction,
                              .attribute = AdministrationAttribute::path_record,
                              .components = kSourceGid};
  set_data(packet, PathRecord{.source_gid = query.source});
  encode(packet, out);
}

std::expected<PathTable, WireError> decode_path_table(ByteSpan message) {
  const auto table = decode_administration_table(message);
  if (!table) return std::unexpected(table.error());
  if (table->attribute != AdministrationAttribute::path_record) {
    return std::unexpected(WireError::mad_attribute);
  }
  PathTable paths{.status = table->status, .records = {}};
  if (table->status != 0) return paths;
  if (!table->records.empty() && table->record_bytes < PathRecord::kSize) {
    return std::unexpected(WireError::mad_length);
  }
  for (ByteSpan rest = table->records; !rest.empty(); rest = rest.subspan(table->record_bytes)) {
    paths.records.push_back(decode<PathRecord>(rest.first<PathRecord::kSize>()));
  }
  return paths;
}

}  // namespace verbatim::wire
