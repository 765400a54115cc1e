#include <algorithm>

#include <gtest/gtest.h>

#include "sim/invariants.h"
#include "sim/random.h"
#include "transport/ib/requester/requester.h"
#include "wire/ib/opcode.h"

/// A requester whose peer answers at random. No answer may cause an assertion, a completion that is
/// double or out of order, or bytes outside a request.
namespace verbatim::sim {
namespace {

using namespace transport;

class HostilePeer {
 public:
  explicit HostilePeer(std::uint64_t seed) : random_(seed), requester_(kDepth) {
    requester_.configure({.first_psn = first_psn_,
                          .path_mtu = Mtu::k256,
                          .timeout = 5,
                          .retry_count = static_cast<std::uint8_t>(random_.below(8)),
                          .rnr_retry = static_cast<std::uint8_t>(random_.below(8)),
                          .max_rd_atomic = static_cast<std::uint8_t>(random_.between(1, 4)),
                          .window_bytes_max = static_cast<std::uint32_t>(random_.below(20'000))});
  }

  Violations run() {
    for (int step = 0; step < 300; ++step) {
      if (random_.chance(0.4) && !requester_.full()) post();
      OutgoingPacket packet;
      while (requester_.poll_transmit(now_, packet) || requester_.poll_local()) {
      }
      if (random_.chance(0.8)) answer();
      if (random_.chance(0.1)) pass_time();
    }
    requester_.flush(effects_);
    drain();
    completions_.finish();
    for (const auto& violation : completions_.violations()) violations_.push_back(violation);
    return violations_;
  }

 private:
  static constexpr std::uint32_t kDepth = 16;

  void post() {
    SendRequest request;
    do {
      request.operation = static_cast<Operation>(random_.below(kOperations));
    } while (!info(request.operation).known);
    request.fence = random_.chance(0.2);
    request.length = random_.below(2000);
    if (is_atomic(request.operation) || request.operation == Operation::atomic_write) {
      request.length = 8;
    }
    const Slot slot = requester_.post(request);
    lengths_[slot % kDepth] = request.length;
    completions_.posted(slot);
  }

  void answer() {
    static constexpr std::byte kPayload[256]{};
    static constexpr std::uint8_t kResponses[] = {0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12};
    wire::Packet packet;
    packet.headers.bth.opcode = static_cast<wire::Opcode>(
        random_.chance(0.02) ? random_.below(256) : kResponses[random_.below(6)]);
    // Usually close to the expected PSN.
    const Psn next = requester_.next_psn();
    packet.headers.bth.psn = random_.chance(0.05)
                                 ? Psn(static_cast<std::uint32_t>(random_.next()))
                                 : next - static_cast<std::uint32_t>(random_.below(12));
    packet.headers.aeth.syndrome = random_syndrome();
    packet.payload = ByteSpan(kPayload, random_.chance(0.7) ? 256 : random_.below(257));
    requester_.on_packet(packet, now_, effects_);
    drain();
  }

  wire::Syndrome random_syndrome() {
    const std::uint64_t dice = random_.below(100);
    if (dice < 80) return wire::Syndrome::ack();
    if (dice < 88) return wire::Syndrome::rnr_nak(1);
    if (dice < 97) return wire::Syndrome::nak(wire::NakCode::psn_sequence_error);
    return wire::Syndrome::nak(static_cast<wire::NakCode>(random_.between(1, 4)));
  }

  void pass_time() {
    const TimeNs deadline = requester_.deadline();
    if (deadline == kNever) return;
    now_ = std::max(now_, deadline);
    requester_.on_timeout(now_, effects_);
    drain();
  }

  void drain() {
    for (;;) {
      for (const RequesterEffect& effect : effects_.list) {
        if (const auto* done = std::get_if<CompleteRequest>(&effect)) {
          completions_.completed(done->slot, done->status);
        } else if (const auto* placed = std::get_if<PlaceResponse>(&effect)) {
          check_placed(placed->slot, placed->offset + placed->payload.size());
        } else if (const auto* atomic = std::get_if<PlaceAtomic>(&effect)) {
          check_placed(atomic->slot, 8);
        }
      }
      const bool more = effects_.more;
      effects_.list.clear();
      effects_.more = false;
      if (!more) return;
      requester_.resume(effects_);
    }
  }
  void check_placed(Slot slot, std::uint64_t end) {
    if (slot < completions_.completed_count() || slot >= completions_.posted_count()) {
      violations_.push_back("placed into a request that is not outstanding");
    } else if (end > lengths_[slot % kDepth]) {
      violations_.push_back("placed behind the end of the request");
    }
  }

  Random random_;
  Psn first_psn_{0xfffff0};
  Requester requester_;
  RequesterEffects effects_;
  TimeNs now_ = kSecond;
  std::uint64_t lengths_[kDepth] = {};
  SendCompletions completions_;
  Violations violations_;
};

TEST(Requester, SurvivesAPeerThatAnswersAtRandom) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    const Violations violations = HostilePeer(seed).run();
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front();
  }
}

}  // namespace
}  // namespace verbatim::sim
