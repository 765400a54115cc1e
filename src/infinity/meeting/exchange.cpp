#include "infinity/meeting/exchange.h"

#include <algorithm>
#include <cstring>

namespace infinity::detail {
namespace {

constexpr std::uint16_t kHasOffer = 0x4256;   // "VB".
constexpr std::uint32_t kOffer = 0x31494256;  // "VBI1".
constexpr std::uint32_t kNumberMax = 0xffffff;

template <class Number>
void put(std::byte* at, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i)
    at[i] = static_cast<std::byte>((number >> (8 * i)) & 0xff);
}
template <class Number>
Number take(const std::byte* at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i)
    number = static_cast<Number>(number | (static_cast<Number>(at[i]) << (8 * i)));
  return number;
}

}  // namespace

std::array<std::byte, Greeting::kBytes> encode(const Greeting& greeting) {
  std::array<std::byte, Greeting::kBytes> bytes{};
  put(&bytes[0], greeting.lid);
  if (greeting.has_offer) put(&bytes[2], kHasOffer);
  put(&bytes[4], greeting.queue_pair);
  put(&bytes[8], greeting.sequence_number);
  put(&bytes[12], static_cast<std::uint32_t>(greeting.user_data.size()));
  std::copy(greeting.user_data.begin(), greeting.user_data.end(),
            bytes.begin() + Greeting::kHeaderBytes);
  return bytes;
}

std::optional<Greeting> decode_greeting(std::span<const std::byte, Greeting::kBytes> bytes) {
  Greeting greeting;
  greeting.lid = take<std::uint16_t>(&bytes[0]);
  greeting.has_offer = take<std::uint16_t>(&bytes[2]) == kHasOffer;
  greeting.queue_pair = take<std::uint32_t>(&bytes[4]);
  // Infinity's random numbers have one value too many.
  greeting.sequence_number = take<std::uint32_t>(&bytes[8]) & kNumberMax;
  const auto size = take<std::uint32_t>(&bytes[12]);
  if (greeting.queue_pair > kNumberMax || size > Greeting::kUserDataMax) return std::nullopt;
  const auto data = bytes.subspan(Greeting::kHeaderBytes, size);
  greeting.user_data.assign(data.begin(), data.end());
  return greeting;
}

std::string_view name_of(Link link) {
  switch (link) {
    case Link::infiniband:
      return "InfiniBand";
    case Link::roce:
      return "RoCE";
    case Link::iwarp:
      return "iWARP";
  }
  return "?";
}

std::array<std::byte, Offer::kBytes> encode(const Offer& offer) {
  std::array<std::byte, Offer::kBytes> bytes{};
  put(&bytes[0], kOffer);
  put(&bytes[4], static_cast<std::uint8_t>(offer.link));
  put(&bytes[5], static_cast<std::uint8_t>(offer.mtu));
  put(&bytes[6], offer.gid_type);
  put(&bytes[7], offer.reads);
  std::memcpy(&bytes[8], offer.gid.raw, sizeof offer.gid.raw);
  put(&bytes[24], offer.port);
  put(&bytes[32], offer.ticket);
  return bytes;
}

std::optional<Offer> decode_offer(std::span<const std::byte, Offer::kBytes> bytes) {
  if (take<std::uint32_t>(&bytes[0]) != kOffer) return std::nullopt;
  const auto link = take<std::uint8_t>(&bytes[4]);
  const auto mtu = take<std::uint8_t>(&bytes[5]);
  if (link < std::uint8_t{1} || link > std::uint8_t{3}) return std::nullopt;
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) return std::nullopt;
  Offer offer;
  offer.link = static_cast<Link>(link);
  offer.mtu = static_cast<ibv_mtu>(mtu);
  offer.gid_type = take<std::uint8_t>(&bytes[6]);
  offer.reads = std::max(take<std::uint8_t>(&bytes[7]), std::uint8_t{1});
  std::memcpy(offer.gid.raw, &bytes[8], sizeof offer.gid.raw);
  offer.port = take<std::uint16_t>(&bytes[24]);
  offer.ticket = take<std::uint64_t>(&bytes[32]);
  return offer;
}

}  // namespace infinity::detail
