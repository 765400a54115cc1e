#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "offload/card/function/function_member.h"
#include "offload/switch/frames/segmentation.h"

namespace verbatim::offload {

/// A function that is rings of memory. Its clients share it: each gets what is for its queue pair
/// numbers. Its link is up while it has clients and the driver has not put it down. Frames to its
/// own address, and copies of those to groups, go back to its clients without the switch.
class RingFunction {
 public:
  /// The same seed makes the same MAC, also in the next card.
  RingFunction(std::string name, const std::string& seed);

  const std::string& name() const { return name_; }
  std::array<std::uint8_t, 6> mac() const { return mac_; }
  int set_mac(std::span<const std::uint8_t, 6> mac);
  /// What the driver wants; returns 0.
  int set_carrier(bool is_up);
  bool link_is_up() const { return is_wanted_up_ && !members_.empty(); }

  /// ENOSPC: it has enough clients; EINVAL as FunctionMember.
  Result<FunctionMember*> join(int socket, const vnic_join& join);
  /// Null: none of its clients has this socket.
  FunctionMember* find(int socket) const;
  void leave(int socket);
  std::span<const std::unique_ptr<FunctionMember>> members() const { return members_; }

  /// Returns the size of the next frame of a client, which is now in `room`; 0: there is none. Of
  /// a large RoCE packet the payload, `rest`, is not: it lies in the client's memory, which may
  /// change it, until `publish`.
  std::size_t read(MutableByteSpan room, ByteSpan& rest);
  /// Returns false if no client took the frame, or not all of a large one's packets.
  bool write(ByteSpan head, ByteSpan rest, const FrameNote& note);
  /// Clients have what was written for them, and back what was read.
  void publish();

  void say_asleep(bool asleep);
  bool has_work() const;
  /// Wakes the clients that sleep and have got something.
  void wake_members();

 private:
  bool deliver(ByteSpan head, ByteSpan rest);
  void say_link();

  std::string name_;
  std::array<std::uint8_t, 6> mac_{};
  bool is_wanted_up_ = true;
  std::vector<std::unique_ptr<FunctionMember>> members_;
  std::size_t next_ = 0;  // Whose turn it is to send.
  std::unique_ptr<std::array<std::byte, VNIC_FUNCTION_FRAME_MAX>> packet_;  // Of a large frame.
};

}  // namespace verbatim::offload
