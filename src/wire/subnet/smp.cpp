#include "wire/subnet/smp.h"

#include <algorithm>
#include <cstring>

namespace verbatim::wire {
namespace {

constexpr std::size_t kMKeyAt = 24;
constexpr std::size_t kSourceLidAt = 32;
constexpr std::size_t kDestinationLidAt = 34;
constexpr std::size_t kDataAt = 64;
constexpr std::size_t kInitialPathAt = 128;
constexpr std::size_t kReturnPathAt = 192;
/// A bit of a directed-route SMP's status field.
constexpr std::uint16_t kDirectionBit = 0x8000;

DirectedRoute load_route(const MadHeader& header, const std::byte* at) {
  DirectedRoute route{
      .source_lid = static_cast<Lid>(load_be<std::uint16_t>(at + kSourceLidAt)),
      .destination_lid = static_cast<Lid>(load_be<std::uint16_t>(at + kDestinationLidAt)),
      .is_returning = (header.status & kDirectionBit) != 0,
      .hop_pointer = static_cast<std::uint8_t>(header.class_specific >> 8),
      .hop_count = static_cast<std::uint8_t>(header.class_specific),
  };
  std::memcpy(route.initial_path.data(), at + kInitialPathAt, route.initial_path.size());
  std::memcpy(route.return_path.data(), at + kReturnPathAt, route.return_path.size());
  return route;
}

void store_route(const DirectedRoute& route, std::byte* at) {
  store_be(at + kSourceLidAt, raw(route.source_lid));
  store_be(at + kDestinationLidAt, raw(route.destination_lid));
  std::memcpy(at + kInitialPathAt, route.initial_path.data(), route.initial_path.size());
  std::memcpy(at + kReturnPathAt, route.return_path.data(), route.return_path.size());
}

}  // namespace

std::expected<Smp, WireError> decode_smp(ByteSpan mad) {
  const auto header = decode_mad_header(mad);
  if (!header) return std::unexpected(header.error());
  const bool is_directed = header->management_class == MadClass::directed_route_subnet_management;
  if ((!is_directed && header->management_class != MadClass::subnet_management) ||
      header->class_version != Smp::kClassVersion) {
    return std::unexpected(WireError::mad_class);
  }
  Smp smp{
      .method = header->method,
      .status =
          static_cast<MadStatus>(is_directed ? header->status & ~kDirectionBit : header->status),
      .transaction = header->transaction,
      .attribute = static_cast<SubnetAttribute>(header->attribute),
      .modifier = header->modifier,
      .m_key = load_be<std::uint64_t>(&mad[kMKeyAt]),
      .route = {},
      .data = {},
  };
  if (is_directed) smp.route = load_route(*header, mad.data());
  std::memcpy(smp.data.data(), &mad[kDataAt], smp.data.size());
  return smp;
}

void encode(const Smp& smp, std::span<std::byte, Smp::kSize> out) {
  std::ranges::fill(out, std::byte{0});
  MadHeader header{
      .management_class = MadClass::subnet_management,
      .class_version = Smp::kClassVersion,
      .method = smp.method,
      .status = raw(smp.status),
      .transaction = smp.transaction,
      .attribute = raw(smp.attribute),
      .modifier = smp.modifier,
  };
  if (smp.route) {
    header.management_class = MadClass::directed_route_subnet_management;
    header.status &= static_cast<std::uint16_t>(~kDirectionBit);
    if (smp.route->is_returning) header.status |= kDirectionBit;
    header.class_specific =
        static_cast<std::uint16_t>(smp.route->hop_pointer << 8 | smp.route->hop_count);
    store_route(*smp.route, out.data());
  }
  encode(header, out.first<MadHeader::kSize>());
  store_be(&out[kMKeyAt], smp.m_key);
  std::memcpy(&out[kDataAt], smp.data.data(), smp.data.size());
}

}  // namespace verbatim::wire
