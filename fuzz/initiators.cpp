// Any bytes from a storage target, to our initiators of iSER and NVMe: however a login, an answer
// or a disk is made up, an initiator takes no harm, and answers each request at most once.
#include <memory>
#include <set>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/iser/initiator/initiator.h"
#include "ulp/nvmeof/host/initiator.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;
using storage::Channel;

/// A driver that carries out nothing.
class Session {
 public:
  explicit Session(bool is_iser) : memory_(storage::kScratchBytes + 65536) {
    const storage::PeerMemory scratch{{memory_.data(), storage::kScratchBytes, MemoryKey{1}},
                                      MemoryKey{2}};
    if (is_iser) {
      engine_ = std::make_unique<iser::Initiator>(
          iser::Initiator::Settings{.login = {.initiator = "iqn.2026-01.test:i",
                                              .target = "iqn.2026-01.test:t",
                                              .credentials = {"user", "secretsecret"}}},
          scratch);
    } else {
      engine_ = std::make_unique<nvmeof::Initiator>(
          nvmeof::Initiator::Settings{.subsystem = "nqn.t", .host = "nqn.h", .entries = 4},
          scratch);
    }
    engine_->begin(0, out_);
    take();
  }

  /// What the target writes into our memory, then its message.
  void on_message(ByteSpan written, ByteSpan bytes, Channel channel) {
    std::ranges::copy(written.first(std::min<std::size_t>(written.size(), storage::kScratchBytes)),
                      memory_.begin());
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    engine_->on_message(channel,
                        {.memory = {copy.data(), static_cast<std::uint32_t>(copy.size()), {}}},
                        now_, out_);
    take();
    ask();
    now_ += kSecond;
    engine_->on_time(now_, out_);
    take();
  }

 private:
  void ask() {
    if (engine_->facts() == nullptr || open_.size() > 8) return;
    const storage::DiskFacts& facts = *engine_->facts();
    const Tag user{++users_};
    const auto kind = static_cast<storage::DiskRequest::Kind>(users_ % 3);  // No zeroes.
    const bool is_taken = engine_->on_request(
        {.kind = kind,
         .bytes = facts.block_bytes,
         .memory = {{memory_.data() + storage::kScratchBytes, facts.block_bytes, MemoryKey{1}},
                    MemoryKey{3}},
         .user = user},
        now_, out_);
    if (is_taken) open_.insert(raw(user));
    take();
  }
  void take() {
    for (const auto& request : std::vector(out_.connect.begin(), out_.connect.end())) {
      established_.push_back(request.channel);
    }
    for (const storage::DiskAnswer& answer : out_.answers)
      VERBATIM_ASSERT(open_.erase(raw(answer.user)) == 1);
    out_.clear();
    while (!established_.empty()) {
      const Channel channel = established_.back();
      established_.pop_back();
      engine_->on_established(channel, {}, now_, out_);
      take();
    }
  }

  std::vector<std::byte> memory_;
  std::unique_ptr<storage::Initiator> engine_;
  storage::InitiatorOutput out_;
  std::vector<Channel> established_;
  std::set<std::uint32_t> open_;
  std::uint32_t users_ = 0;
  TimeNs now_ = 0;
};

}  // namespace

/// The first byte chooses the protocol; each message has two lengths (written, in steps of 32, and
/// sent) and a channel before it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSpan rest = std::as_bytes(std::span(data, size));
  if (rest.empty()) return 0;
  Session session((rest[0] & std::byte{1}) != std::byte{});
  rest = rest.subspan(1);
  while (rest.size() >= 3) {
    const auto written = 32 * std::to_integer<std::size_t>(rest[0]);
    const auto sent = std::to_integer<std::size_t>(rest[1]);
    const Channel channel{static_cast<std::uint8_t>(std::to_integer<unsigned>(rest[2]) & 1)};
    rest = rest.subspan(3);
    const ByteSpan first = rest.first(std::min(written, rest.size()));
    rest = rest.subspan(first.size());
    const ByteSpan second = rest.first(std::min(sent, rest.size()));
    rest = rest.subspan(second.size());
    session.on_message(first, second, channel);
  }
  return 0;
}
