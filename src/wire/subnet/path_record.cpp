#include "wire/subnet/path_record.h"

namespace verbatim::wire {
namespace {

// The SA's header, behind the MAD's and RMPP's (IBA 15.2.1.1).
//
//     byte   24-35   36-43   44-45      46-47   48-55       56-255
//          +-------+-------+-----------+------+-----------+-----------+
//          | RMPP  | SM    | attribute | rsvd | component | attribute |
//          |       | Key   | offset    |      | mask      |           |
//          +-------+-------+-----------+------+-----------+-----------+
constexpr std::size_t kComponentMaskAt = 48;
constexpr std::size_t kAttributeAt = 56;

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
  std::ranges::fill(out, std::byte{0});
  encode(MadHeader{.management_class = MadClass::subnet_administration,
                   .class_version = kSaClassVersion,
                   .method = MadMethod::get,
                   .transaction = query.transaction,
                   .attribute = kPathRecordAttribute},
         out.first<MadHeader::kSize>());
  store_be(&out[kComponentMaskAt],
           std::uint64_t{kDestinationGid | kSourceGid | kReversible | kPathCount | kPKey});
  encode(PathRecord{.destination_gid = query.destination,
                    .source_gid = query.source,
                    .reversible = true,
                    .path_count = 1,
                    .pkey = query.pkey},
         out.subspan<kAttributeAt, PathRecord::kSize>());
}

std::expected<PathAnswer, WireError> decode_path_answer(ByteSpan mad) {
  const auto header = decode_mad_header(mad);
  if (!header) return std::unexpected(header.error());
  if (header->management_class != MadClass::subnet_administration ||
      header->class_version != kSaClassVersion) {
    return std::unexpected(WireError::mad_class);
  }
  if (header->method != MadMethod::get_response || header->attribute != kPathRecordAttribute) {
    return std::unexpected(WireError::mad_attribute);
  }
  PathAnswer answer{.transaction = header->transaction, .status = header->status, .record = {}};
  if (answer.status == 0) {
    answer.record = decode<PathRecord>(mad.subspan(kAttributeAt).first<PathRecord::kSize>());
  }
  return answer;
}

}  // namespace verbatim::wire
