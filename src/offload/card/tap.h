#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/switch/frames/segmentation.h"

namespace verbatim::offload {

/// A network interface of the kernel whose other end is the card. Its descriptor stays valid when
/// the interface moves into another network namespace. Large frames pass as one.
class Tap {
 public:
  static constexpr std::size_t kFrameMax = 65536 + 64;

  /// ENOENT: no /dev/net/tun; EPERM: no CAP_NET_ADMIN; EBUSY: the interface exists.
  static Result<Tap> open(const std::string& name);

  /// One that a card of before has left (service/keeper.h). Fails if its interface is gone.
  static Result<Tap> adopt(UniqueFd fd, const std::string& name);

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  std::array<std::uint8_t, 6> mac() const;
  /// Return 0 or an errno value.
  int set_mac(std::span<const std::uint8_t, 6> mac) const;
  int set_carrier(bool is_up) const;

  /// Returns the size of the frame that is now in `room`; 0: none has come.
  std::size_t read(MutableByteSpan room, FrameNote& note) const;
  /// The frame is `head` and then `rest`. Returns false if the interface takes none: it is down,
  /// say.
  bool write(ByteSpan head, ByteSpan rest, const FrameNote& note) const;

 private:
  Tap(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  UniqueFd fd_;
  std::string name_;
};

}  // namespace verbatim::offload
