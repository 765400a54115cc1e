// Any bytes from a peer of LNet: messages are decoded within their bounds and encode to what they
// were; a node takes no harm, and loses no buffer. The first byte says how long messages are.
#include <array>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/lnet/self_tests.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;
using namespace verbatim::ulp::lnet;

constexpr Nid kOurs{0x000500000a000001}, kPeer{0x000500000a000002};
constexpr std::uint64_t kOurStamp = 1, kPeerStamp = 2;
constexpr std::uint32_t kBuffers = 4;

void check_codecs(ByteSpan bytes) {
  std::array<std::byte, kMessageBytes> out;
  if (const auto one = decode_message(bytes);
      one && one->payload.size() <= lnet::Message::kPayloadMax) {
    const Fragment memory = one->fragments.size() > 0 ? one->fragments[0] : Fragment{};
    const std::size_t length = encode(*one, out, one->fragments.key, memory);
    const auto again = decode_message(ByteSpan(out).first(length));
    VERBATIM_ASSERT(again && again->kind == one->kind && again->cookie == one->cookie &&
                    again->ends == one->ends);
  }
  if (const auto info = decode_ping_info(bytes))
    VERBATIM_ASSERT(decode_ping_info(encode(*info))->ends.size() == info->ends.size());
  if (const auto refusal = decode_refusal(bytes)) {
    const auto data = encode(*refusal);
    VERBATIM_ASSERT(decode_refusal(ByteSpan(data.begin(), data.size())) == refusal);
  }
}

/// The peer's connection is there; its messages are whatever comes, addressed as they must be.
void check_node(ByteSpan bytes) {
  static std::array<std::vector<std::byte>, kBuffers> memory;
  std::vector<Buffer> all;
  for (auto& one : memory) {
    one.resize(Buffers::kBytes);
    all.push_back({{one.data(), Buffers::kBytes, MemoryKey{1}}, MemoryKey{2}});
  }
  Buffers buffers(std::move(all));
  {
    Node node({{kOurs, Nid{0x000500010a000001}}, {}, kOurStamp}, buffers);
    SelfTest tests(node);
    std::array<std::byte, kMessageBytes> request;
    Meeting meeting;
    const std::size_t length =
        encode({.kind = MessageKind::connect, .ends = {kPeer, kPeerStamp, kOurs, 0}}, request);
    meeting.private_data = to_private_data(ByteSpan(request).first(length));
    constexpr LinkId kLink{1};
    VERBATIM_ASSERT(node.on_meeting(kLink, meeting, 1).has_value());
    node.on_established(kLink, {}, 1);
    const auto out = std::make_unique<Output>();
    const std::size_t step = bytes.empty() ? 1 : 48 + std::to_integer<std::size_t>(bytes[0]);
    for (TimeNs now = 2; !bytes.empty(); ++now) {
      const ByteSpan piece = bytes.first(std::min(step, bytes.size()));
      bytes = bytes.subspan(piece.size());
      std::vector<std::byte> message(piece.begin(), piece.end());
      if (message.size() >=
          lnet::Message::kHeaderSize) {  // Of the peer, for us, of the right length.
        store_le(message.data(), std::uint32_t{0x0be91b91});
        store_le(message.data() + 4, std::uint16_t{0x12});
        store_le(message.data() + 8, static_cast<std::uint32_t>(message.size()));
        store_le(message.data() + 12, std::uint32_t{0});
        store_le(message.data() + 16, kPeer.value);
        store_le(message.data() + 24, kPeerStamp);
        store_le(message.data() + 32, kOurs.value);
        store_le(message.data() + 40, kOurStamp);
      }
      node.on_message(kLink, message, now);
      while (node.take_wish()) {
      }
      while (const auto link = node.take_ready()) {
        out->clear();
        node.pump(*link, now, *out);
        for (const Work& work : out->work) {
          const auto* const send = std::get_if<Send>(&work);
          if (send != nullptr && send->done != kNoTag)
            node.on_done(*link, send->done, CompletionStatus::success);
        }
      }
    }
    node.on_end(kLink, "over", {}, 1);
    node.on_time(200 * kSecond);
  }
  VERBATIM_ASSERT(buffers.free_count() == kBuffers);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  check_codecs(bytes);
  check_node(bytes);
  return 0;
}
