#include "wire/subnet/administration_packet.h"

#include <algorithm>
#include <cstring>

namespace verbatim::wire {
namespace {

constexpr std::size_t kRmppFlagsAt = 26;
constexpr std::byte kRmppActive{1};
constexpr std::size_t kRecordSizeAt = 44;
constexpr std::size_t kRecordSizeUnit = 8;
constexpr std::size_t kComponentsAt = 48;
constexpr std::size_t kDataAt = 56;

bool is_of_administration(const MadHeader& header) {
  return header.management_class == MadClass::subnet_administration &&
         header.class_version == AdministrationPacket::kClassVersion;
}

}  // namespace

std::expected<AdministrationTable, WireError> decode_administration_table(ByteSpan message) {
  if (message.size() < kDataAt) return std::unexpected(WireError::mad_length);
  std::array<std::byte, kMadBytes> first{};
  std::ranges::copy(message.first(kDataAt), first.begin());
  const auto header = decode_mad_header(first);
  if (!header) return std::unexpected(header.error());
  if (!is_of_administration(*header)) return std::unexpected(WireError::mad_class);
  if (header->method != MadMethod::get_table_response) {
    return std::unexpected(WireError::mad_attribute);
  }
  AdministrationTable table{
      .status = header->status,
      .attribute = static_cast<AdministrationAttribute>(header->attribute),
      .record_bytes = load_be<std::uint16_t>(&first[kRecordSizeAt]) * kRecordSizeUnit,
      .records = {},
  };
  const ByteSpan data = message.subspan(kDataAt);
  if (table.record_bytes != 0) {
    table.records = data.first(data.size() - data.size() % table.record_bytes);
  } else if (table.status == 0 && !data.empty()) {
    return std::unexpected(WireError::mad_length);
  }
  return table;
}

std::expected<AdministrationPacket, WireError> decode_administration_packet(ByteSpan mad) {
  const auto header = decode_mad_header(mad);
  if (!header) return std::unexpected(header.error());
  if (!is_of_administration(*header)) return std::unexpected(WireError::mad_class);
  if ((mad[kRmppFlagsAt] & kRmppActive) != std::byte{0}) {
    return std::unexpected(WireError::mad_length);
  }
  AdministrationPacket packet{
      .method = header->method,
      .status = header->status,
      .transaction = header->transaction,
      .attribute = static_cast<AdministrationAttribute>(header->attribute),
      .components = load_be<std::uint64_t>(&mad[kComponentsAt]),
      .data = {},
  };
  std::memcpy(packet.data.data(), &mad[kDataAt], packet.data.size());
  return packet;
}

void encode(const AdministrationPacket& packet,
            std::span<std::byte, AdministrationPacket::kSize> out) {
  std::ranges::fill(out, std::byte{0});
  const MadHeader header{
      .management_class = MadClass::subnet_administration,
      .class_version = AdministrationPacket::kClassVersion,
      .method = packet.method,
      .status = packet.status,
      .transaction = packet.transaction,
      .attribute = raw(packet.attribute),
  };
  encode(header, out.first<MadHeader::kSize>());
  store_be(&out[kComponentsAt], packet.components);
  std::memcpy(&out[kDataAt], packet.data.data(), packet.data.size());
}

}  // namespace verbatim::wire
