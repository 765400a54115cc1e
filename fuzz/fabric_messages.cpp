// Any bytes as each message of a fabric's protocol: nothing is read beyond them, and what is
// accepted is in range.
#include <vector>

#include "base/assert.h"
#include "fabric/protocol/decode.h"

namespace {

using namespace verbatim;
using namespace verbatim::fabric::protocol;

template <typename... Messages>
int count_accepted(ByteSpan bytes) {
  return (0 + ... + (decode<Messages>(bytes) ? 1 : 0));
}

void check_mad(ByteSpan bytes, MessageType type) {
  const auto mad = decode_mad(bytes, type);
  if (!mad) return;
  VERBATIM_ASSERT(mad->record.agent < kAgentsMax && mad->record.length <= kMadBytesMax);
  VERBATIM_ASSERT(mad->is_inline() ? mad->inline_bytes.size() == mad->record.length
                                   : mad->inline_bytes.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size, so that the sanitizer sees each read beyond it.
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(first, first + size);
  const int accepted =
      count_accepted<HostRequest, WatchHost, GidRequest, HostGid, ViewRequest, IssmRequest,
                     StatusRequest, StopRequest, OpenPort, RegisterAgent, UnregisterAgent,
                     HostDescription, Done, Status, IssmPath, Opened, Registered, Refusal,
                     AttachData, JoinGroup, BadKeyReport, DataAttached, JoinMulticast,
                     LeaveMulticast, MulticastMember, LinkRequest, CaptureRequest, Capturing>(
          bytes);
  VERBATIM_ASSERT(accepted <= 1);  // A message has one type.
  check_mad(bytes, MessageType::sent_mad);
  check_mad(bytes, MessageType::received_mad);
  if (const auto open = decode<OpenPort>(bytes)) {
    VERBATIM_ASSERT(text_of(open->host).size() <= open->host.size());
  }
  return 0;
}
