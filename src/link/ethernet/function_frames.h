#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "base/error.h"
#include "link/ethernet/frame_batch.h"
#include "link/ethernet/function_port.h"
#include "link/ethernet/received_frame.h"

namespace verbatim::link {

/// The frames of a card's function that is rings of memory. Of those that the node sends, it also
/// receives what goes to groups and to itself.
class FunctionFrames {
 public:
  /// `function`: "SOCKET/vf2". EINVAL, and as FunctionPort::open.
  static Result<FunctionFrames> open(const std::string& function);

  std::size_t frame_bytes_max() const { return VNIC_FUNCTION_FRAME_MAX; }
  int send(const FrameBatch& batch) const noexcept;
  Result<int> start_receiving();
  void stop_receiving() { receiving_.reset(); }
  bool begin_sleep() { return receiving_ == nullptr || receiving_->begin_sleep(); }
  template <typename OnFrame>
  std::size_t receive(OnFrame& on_frame) {
    if (receiving_ == nullptr) return 0;
    return receiving_->receive([&](MutableByteSpan frame) {
      const MacAddress mac = receiving_->mac();
      const bool sent =
          frame.size() >= 12 && std::memcmp(frame.data() + mac.size(), mac.data(), mac.size()) == 0;
      on_frame(ReceivedFrame{.bytes = frame, .sent = sent});
    });
  }

 private:
  explicit FunctionFrames(FunctionName name) : name_(std::move(name)) {}
  Result<std::unique_ptr<FunctionPort>> join(std::uint16_t wants) const;

  FunctionName name_;
  std::unique_ptr<FunctionPort> sending_;
  std::unique_ptr<FunctionPort> receiving_;
};

}  // namespace verbatim::link
