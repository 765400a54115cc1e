// A client of RMPP that gets any packets while it sends messages of its own: what it keeps is
// bounded, and once time has passed it has forgotten everything.
#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "fuzz/input.h"
#include "mad/rmpp/rmpp_engine.h"

namespace {

using namespace verbatim;
using namespace verbatim::mad;

RmppPeer peer(std::uint32_t choice) {
  return {.path = {.dlid = static_cast<Lid>(1 + choice % 2)}, .qpn = Qpn(1)};
}

MadBytes packet(Input& input) {
  MadBytes mad{};
  constexpr std::array<std::uint8_t, 4> kClasses{0x03, 0x32, 0x06, 0x04};
  encode(
      wire::MadHeader{.management_class = static_cast<wire::MadClass>(kClasses[input.byte() % 4]),
                      .class_version = 2,
                      .method = static_cast<wire::MadMethod>(input.byte() % 2 == 0 ? 0x12 : 0x92),
                      .transaction = input.byte() % 3},
      std::span(mad).first<wire::MadHeader::kSize>());
  for (std::size_t i = wire::MadHeader::kSize; i < kRmppPayloadAt + 4; ++i) {
    mad[i] = static_cast<std::byte>(input.byte());
  }
  if (input.byte() % 8 == 0) return mad;
  wire::RmppHeader rmpp = wire::decode_rmpp_header(mad);
  rmpp.version = 1;
  rmpp.is_active = true;
  rmpp.status = {};
  rmpp.segment %= 70;
  if (rmpp.type == wire::RmppType::ack) rmpp.length %= 256;
  encode(rmpp, std::span(mad));
  return mad;
}

void drain(RmppEngine& engine, TimeNs now) {
  for (unsigned packets = 0; engine.take_packet(now); ++packets) VERBATIM_ASSERT(packets < 10'000);
  while (const auto message = engine.take_message()) {
    VERBATIM_ASSERT(message->bytes.size() >= 40);
  }
  while (engine.take_finished()) {
  }
}

void send(RmppEngine& engine, Input& input) {
  std::vector<std::byte> message(56 + input.two() % 8'000);
  encode(wire::MadHeader{.management_class = wire::MadClass::subnet_administration,
                         .class_version = 2,
                         .method = wire::MadMethod::get_table_response,
                         .transaction = input.byte() % 3},
         std::span(message).first<wire::MadHeader::kSize>());
  (void)engine.send(peer(input.byte()), message,
                    {.ack_timeout = kMillisecond * input.byte(), .retries = input.byte() % 4});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  RmppEngine engine;
  TimeNs now = 0;
  while (!input.empty()) {
    const std::uint32_t step = input.byte();
    if (step < 32) {
      send(engine, input);
    } else if (step < 48) {
      now += kMillisecond * input.two();
      engine.on_time(now);
    } else {
      engine.on_packet(peer(step), packet(input), now);
    }
    if (step % 2 == 0) drain(engine, now);
  }
  drain(engine, now);
  for (unsigned steps = 0; engine.deadline() != kNever; ++steps) {
    VERBATIM_ASSERT(steps < 1'000);
    now = std::max(now, engine.deadline());
    engine.on_time(now);
    drain(engine, now);
  }
  return 0;
}
