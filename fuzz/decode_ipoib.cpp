// Any bytes as a datagram of IP over InfiniBand, and as private data of a connection: what is
// decoded can be encoded again, and a sender takes it in any order.
#include <array>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/ipoib/arrivals.h"
#include "ulp/ipoib/datagram_sender.h"
#include "ulp/ipoib/offload/merge.h"
#include "ulp/ipoib/snooping.h"
#include "ulp/ipoib/wire/ip.h"
#include "ulp/ipoib/wire/too_long.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp::ipoib;

/// A sender in connected mode that knows an own address of each family.
struct Host {
  Outputs out;
  DatagramSender sender{
      {.own = {.flags = HardwareAddress::kConnected, .qpn = Qpn(1), .gid = {}}, .datagram_mtu = 60},
      0,
      out};
  Host() {
    for (const char* text : {"10.9.0.1", "fd09::1"}) own.push_back(*SocketAddress::parse(text));
    out.clear();
    sender.set_own(own, 0, out);
  }
  std::vector<SocketAddress> own;
};

/// Answers what the last input has asked for: hops are neighbours, and every connection is answered
/// with these bytes.
void answer(Host& host, ByteSpan private_data, TimeNs now) {
  if (const auto offer = decode_connected_peer(private_data))
    VERBATIM_ASSERT(decode_connected_peer(encode(*offer)) == offer);
  std::array<std::byte, kTooLongBytesMax> message;
  for (const Output& output : host.out) {
    if (const auto* const told = std::get_if<TellTooLong>(&output))
      encode_too_long(told->packet, told->hop, told->mtu, message);
  }
  const Outputs outputs = host.out;
  for (const Output& output : outputs) {
    host.out.clear();
    if (const auto* const wanted = std::get_if<Connect>(&output))
      host.sender.on_connected(wanted->peer, private_data, now, host.out);
    if (const auto* const path = std::get_if<AskPath>(&output))
      host.sender.on_path(path->gid, WayId{1}, now, host.out);
    const auto* const hop = std::get_if<AskNextHop>(&output);
    if (hop == nullptr) continue;
    host.sender.on_next_hop(hop->address,
                            {.kind = NextHop::Kind::neighbour, .hop = hop->address, .source = {}},
                            now, host.out);
  }
}

void take(Host& host, ByteSpan bytes, TimeNs now) {
  host.out.clear();
  const auto frame = decode_frame(bytes);
  if (!frame) return;
  if (frame->type == EtherType::arp) {
    const auto arp = decode_arp(frame->packet);
    if (!arp) return;
    std::array<std::byte, Arp::kSize> again{};
    encode(*arp, again);
    VERBATIM_ASSERT(decode_arp(again) == arp);
    return host.sender.on_arp(*arp, now, host.out);
  }
  if (const auto message = decode_neighbour_message(frame->packet))
    host.sender.on_message(*message, now, host.out);
  read_reports(frame->packet, [&](const SocketAddress& group, bool is_member) {
    host.out.clear();
    host.sender.on_report(group, is_member, now, host.out);
  });
  // As the same segment twice, and as one that stands alone.
  Merge merge;
  if (merge.add(frame->packet)) {
    merge.add(frame->packet);
    std::size_t merged = 0;
    for (const ByteSpan part : merge.take().parts) merged += part.size();
    VERBATIM_ASSERT(merged <= Merge::kBytesMax);
  }
  host.out.clear();
  if (!frame->packet.empty()) host.sender.on_packet(frame->packet, now, host.out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Host host;
  Arrivals arrivals;
  std::vector<std::byte> datagram;
  for (TimeNs now = 0; !input.empty(); now += kSecond) {
    datagram.clear();
    for (std::uint32_t left = input.byte(); left > 0 && !input.empty(); --left)
      datagram.push_back(static_cast<std::byte>(input.byte()));
    take(host, datagram, now);
    answer(host, datagram, now);
    const auto number = static_cast<Arrivals::Id>(now / kSecond);
    arrivals.on_requested(number, Gid{}, datagram, now);
    arrivals.on_message(number, now);
    host.out.clear();
    host.sender.on_time(now, host.out);
  }
  return 0;
}
