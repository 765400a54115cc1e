#include "link/fabric/outgoing_headers.h"

#include "wire/ib/bth.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

namespace verbatim::link {

std::optional<OutgoingHeaders> outgoing_headers(ByteSpan packet) {
  const auto lrh = wire::decode_lrh(packet);
  if (!lrh) return std::nullopt;
  if (lrh->next != wire::Lrh::Next::grh && lrh->next != wire::Lrh::Next::bth) return std::nullopt;
  const std::size_t bth_at =
      wire::Lrh::kSize + (lrh->next == wire::Lrh::Next::grh ? wire::Grh::kSize : 0);
  if (packet.size() < bth_at + wire::Bth::kSize) return std::nullopt;
  wire::Bth bth;
  if (wire::decode_bth(packet.subspan(bth_at), bth)) return std::nullopt;
  return OutgoingHeaders{.dlid = lrh->dlid,
                         .service_level = lrh->service_level,
                         .destination = bth.dest_qp,
                         .p_key = bth.pkey};
}

}  // namespace verbatim::link
