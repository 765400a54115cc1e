// Any bytes as a trunk's datagram: what is read is written as the same. And as what a peer of an
// established session says, which knows its number: nothing comes out of order.
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "base/assert.h"
#include "fabric/trunk/session.h"
#include "input.h"

namespace {

using namespace verbatim;
using namespace verbatim::fabric::trunk;

const SocketAddress kPeer = SocketAddress::ipv4({10, 0, 0, 1}, 4800);
constexpr Offer kOffer{.width_enabled = 3, .speed_enabled = 7};

void read_and_write(ByteSpan bytes) {
  const auto datagram = decode(bytes);
  if (!datagram) return;
  std::vector<std::byte> again(kDatagramBytesMax);
  again.resize(encode(*datagram, again));
  const auto twice = decode(again);
  VERBATIM_ASSERT(twice && twice->to == datagram->to &&
                  twice->body.index() == datagram->body.index());
}

/// The number that a session says in its hello.
std::uint64_t number_of(Session& session, TimeNs now) {
  std::array<std::byte, kControlBytesMax> control;
  std::uint64_t number = 0;
  while (const auto outgoing = session.next_datagram(control, now)) {
    const auto datagram = decode(outgoing->bytes);
    if (const auto* hello = std::get_if<Hello>(&datagram->body)) number = hello->from;
  }
  return number;
}

Datagram datagram_of(Input& input, std::uint64_t to, ByteSpan packet) {
  switch (input.byte() % 5) {
    case 0:
      return {.to = to, .body = Hello{.from = 1 + input.byte() % 2, .offer = kOffer}};
    case 1:
      return {.to = to, .body = Bye{}};
    case 2:
      return {.to = to, .body = Status{.next = input.byte(), .is_gap = input.byte() % 2 != 0}};
    default:
      return {.to = to,
              .body = Packet{.sequence = input.byte() % 4,
                             .is_management = input.byte() % 2 != 0,
                             .bytes = packet}};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const start = reinterpret_cast<const std::byte*>(data);
  read_and_write({start, size});
  Input input(data, size);
  Session session({.random = std::mt19937_64(1), .node_guid = 2, .port = 1, .peer = kPeer});
  session.set_offer(kOffer, 0);
  std::uint32_t expected = 0;
  std::array<std::byte, kDatagramBytesMax> bytes;
  const std::array<std::byte, 32> packet{};
  std::uint64_t number = number_of(session, 0);
  for (TimeNs now = 0; !input.empty(); now += input.byte() * 10 * kMillisecond) {
    const Datagram datagram = datagram_of(input, number, packet);
    const std::size_t length = encode(datagram, bytes);
    const auto event = session.on_datagram(ByteSpan(bytes).first(length), kPeer, now);
    if (std::holds_alternative<Session::Up>(event)) expected = 0;
    if (const auto* come = std::get_if<Packet>(&event)) {
      VERBATIM_ASSERT(session.is_up() && come->sequence == expected);
      ++expected;
    }
    if (session.has_room(false)) session.send(packet, false);
    (void)session.on_time(now);
    if (const auto next = number_of(session, now); next != 0) number = next;
  }
  return 0;
}
