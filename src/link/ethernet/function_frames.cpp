#include "link/ethernet/function_frames.h"

#include <utility>

namespace verbatim::link {

Result<FunctionFrames> FunctionFrames::open(const std::string& function) {
  auto name = parse_function(function);
  if (!name) return std::unexpected(name.error());
  FunctionFrames frames(std::move(*name));
  auto sending = frames.join(0);
  if (!sending) return std::unexpected(sending.error());
  frames.sending_ = std::move(*sending);
  return frames;
}

Result<std::unique_ptr<FunctionPort>> FunctionFrames::join(std::uint16_t wants) const {
  return FunctionPort::open({.socket = name_.socket,
                             .function = name_.function,
                             .wants = wants,
                             .receive_buffers = wants == 0 ? 1u : 512u,
                             .send_buffers = wants == 0 ? 256u : 1u});
}

int FunctionFrames::send(const FrameBatch& batch) const noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.frame(i).size() > frame_bytes_max()) return EMSGSIZE;
  }
  return sending_->send(batch.size(), [&](std::size_t i, MutableByteSpan room) {
    const MutableByteSpan frame = batch.frame(i);
    std::memcpy(room.data(), frame.data(), frame.size());
    return frame.size();
  });
}

Result<int> FunctionFrames::start_receiving() {
  auto receiving = join(VNIC_WANTS_ALL);
  if (!receiving) return std::unexpected(receiving.error());
  receiving_ = std::move(*receiving);
  return receiving_->descriptor();
}

}  // namespace verbatim::link
