#include "ulp/lnet/wire/ping_info.h"

#include "ulp/lnet/wire/byte_order.h"

namespace verbatim::ulp::lnet {
namespace {

constexpr std::uint32_t kMagic = 0x70696e67;
constexpr std::size_t kHeaderSize = 16, kEndSize = 16;
constexpr std::uint32_t kUp = 0x15aac0de, kDown = 0xdeadface;

}  // namespace

std::optional<PingInfo> decode_ping_info(ByteSpan bytes) {
  if (bytes.size() < kHeaderSize) return std::nullopt;
  const Order order = load_le<std::uint32_t>(bytes.data()) == kMagic ? Order::little : Order::big;
  const auto u32 = [&](std::size_t at) { return load<std::uint32_t>(order, bytes.data() + at); };
  if (u32(0) != kMagic) return std::nullopt;
  PingInfo info{.features = u32(4), .pid = u32(8), .ends = {}};
  for (std::uint32_t i = 0; i < u32(12); ++i) {
    const std::size_t at = kHeaderSize + i * kEndSize;
    if (at + kEndSize > bytes.size()) break;
    const Nid nid{load<std::uint64_t>(order, bytes.data() + at)};
    info.ends.push_back({nid, nid == kLoopbackNid || u32(at + 8) == kUp});  // 0@lo: a number.
  }
  return info;
}

std::vector<std::byte> encode(const PingInfo& info) {
  std::vector<std::byte> bytes(kHeaderSize + info.ends.size() * kEndSize);
  store_le(bytes.data(), kMagic);
  store_le(bytes.data() + 4, info.features);
  store_le(bytes.data() + 8, info.pid);
  store_le(bytes.data() + 12, static_cast<std::uint32_t>(info.ends.size()));
  std::byte* at = bytes.data() + kHeaderSize;
  for (const PingInfo::End& end : info.ends) {
    store_le(at, end.nid.value);
    store_le(at + 8, end.nid == kLoopbackNid ? 1 : end.is_up ? kUp : kDown);
    at += kEndSize;
  }
  return bytes;
}

}  // namespace verbatim::ulp::lnet
