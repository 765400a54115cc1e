// Any bytes as a frame that comes to the card's switch: parsing and every edit stay inside the
// frame and its headroom.

#include <cstring>
#include <vector>

#include "base/assert.h"
#include "offload/switch/frames/edited_frame.h"
#include "offload/switch/frames/tunnel.h"
#include "offload/switch/key.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  using namespace verbatim::offload;
  if (size < 2 || size > 4096) return 0;
  const std::uint8_t kind = data[0];
  const std::uint8_t value = data[1];
  // A frame of exactly this size, so that the sanitizer sees its end.
  std::vector<std::byte> room(EditedFrame::kHeadroom + size - 2);
  const MutableByteSpan frame = MutableByteSpan(room).subspan(EditedFrame::kHeadroom);
  if (!frame.empty()) std::memcpy(frame.data(), data + 2, frame.size());
  const auto key = key_of(frame, 1);
  if (key) {
    if (const auto tunnel = tunnel_of(frame, *key)) {
      VERBATIM_ASSERT(tunnel->key.kind != wire::TunnelKind::kNone);
      MoreMatch more;
      more.options.push({.size = 8, .mask = {kind}, .value = {value}});
      more.accepts(*key, &*tunnel);
    }
  }
  const TunnelHeaders headers = tunnel_headers(frame);
  VERBATIM_ASSERT(headers.bytes <= frame.size());
  EditedFrame edited(frame, {});
  Action action{.kind = static_cast<ActionKind>(kind % (static_cast<unsigned>(kLastAction) + 1)),
                .value = value};
  edited.apply(action);
  edited.apply({.kind = ActionKind::kDecapsulate});
  edited.apply({.kind = ActionKind::kSetDestinationPort, .value = value});
  const ByteSpan left = edited.frame();
  VERBATIM_ASSERT(left.data() >= room.data() &&
                  left.data() + left.size() <= room.data() + room.size());
  return 0;
}
