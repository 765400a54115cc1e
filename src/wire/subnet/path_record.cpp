#include "wire/subnet/path_record.h"

#include "wire/subnet/administration_packet.h"

namespace verbatim::wire {
namespace {

/// The components of a PathRecord that the SA shall compare (IBA table 205).
enum Component : std::uint64_t {
  kDestinationGid = 1 << 2,
  kSourceGid = 1 << 3,
  kReversible = 1 << 11,
  kPathCount = 1 << 12,
  kPKey = 1 << 13,
};

}  // namespace

void encode(const PathQuery& query, std::span<std::byte, kMadBytes> out) {
  AdministrationPacket packet{
      .method = MadMethod::get,
      .transaction = query.transaction,
      .attribute = AdministrationAttribute::path_record,
      .components = kDestinationGid | kSourceGid | kReversible | kPathCount | kPKey};
  set_data(packet, PathRecord{.destination_gid = query.destination,
                              .source_gid = query.source,
                              .reversible = true,
                              .path_count = 1,
                              .pkey = query.pkey});
  encode(packet, out);
}

std::expected<PathAnswer, WireError> decode_path_answer(ByteSpan mad) {
  const auto packet = decode_administration_packet(mad);
  if (!packet) return std::unexpected(packet.error());
  if (packet->method != MadMethod::get_response ||
      packet->attribute != AdministrationAttribute::path_record) {
    return std::unexpected(WireError::mad_attribute);
  }
  PathAnswer answer{.transaction = packet->transaction, .status = packet->status, .record = {}};
  if (answer.status == 0) answer.record = data_as<PathRecord>(*packet);
  return answer;
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
