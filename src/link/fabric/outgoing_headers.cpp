#include "link/fabric/outgoing_headers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/ib/bth.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

namespace verbatim::link {
namespace {

constexpr std::size_t kHeadersMax = wire::Lrh::kSize + wire::Grh::kSize + wire::Bth::kSize;

}  // namespace

std::optional<OutgoingHeaders> outgoing_headers(std::span<const ByteSpan> packet) {
  OutgoingHeaders headers;
  std::array<std::byte, kHeadersMax> copy;
  std::size_t copied = 0;
  for (const ByteSpan piece : packet) {
    const std::size_t length = std::min(piece.size(), copy.size() - copied);
    if (length != 0) std::memcpy(copy.data() + copied, piece.data(), length);
    copied += length;
  }
  const ByteSpan start = ByteSpan(copy).first(copied);
  const auto lrh = wire::decode_lrh(start);
  if (!lrh) return std::nullopt;
  const std::size_t bth_at =
      wire::Lrh::kSize + (lrh->next == wire::Lrh::Next::grh ? wire::Grh::kSize : 0);
  if (lrh->next != wire::Lrh::Next::grh && lrh->next != wire::Lrh::Next::bth) return std::nullopt;
  if (start.size() < bth_at + wire::Bth::kSize) return std::nullopt;
  wire::Bth bth;
  if (wire::decode_bth(start.subspan(bth_at), bth)) return std::nullopt;
  headers.dlid = lrh->dlid;
  headers.service_level = lrh->service_level;
  headers.destination = bth.dest_qp;
  headers.p_key = bth.pkey;
  return headers;
}

}  // namespace verbatim::link
