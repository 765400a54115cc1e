#include "wire/performance/performance_packet.h"

#include <algorithm>
#include <cstring>

namespace verbatim::wire {
namespace {

constexpr std::size_t kDataAt = 64;

}  // namespace

std::expected<PerformancePacket, WireError> decode_performance_packet(ByteSpan mad) {
  const auto header = decode_mad_header(mad);
  if (!header) return std::unexpected(header.error());
  if (header->management_class != MadClass::performance_management ||
      header->class_version != PerformancePacket::kClassVersion) {
    return std::unexpected(WireError::mad_class);
  }
  PerformancePacket packet{
      .method = header->method,
      .status = static_cast<MadStatus>(header->status),
      .transaction = header->transaction,
      .attribute = static_cast<PerformanceAttribute>(header->attribute),
      .modifier = header->modifier,
      .data = {},
  };
  std::memcpy(packet.data.data(), &mad[kDataAt], packet.data.size());
  return packet;
}

void encode(const PerformancePacket& packet, std::span<std::byte, PerformancePacket::kSize> out) {
  std::ranges::fill(out, std::byte{0});
  const MadHeader header{
      .management_class = MadClass::performance_management,
      .class_version = PerformancePacket::kClassVersion,
      .method = packet.method,
      .status = raw(packet.status),
      .transaction = packet.transaction,
      .attribute = raw(packet.attribute),
      .modifier = packet.modifier,
  };
  encode(header, out.first<MadHeader::kSize>());
  std::memcpy(&out[kDataAt], packet.data.data(), packet.data.size());
}

}  // namespace verbatim::wire
