#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "offload/switch/frames/segmentation.h"
#include "offload/switch/rule.h"

namespace verbatim::offload {

/// A frame that a rule's actions change. Checksums are corrected by the difference (RFC 1624), also
/// one that is left to the card, which has the sum of the pseudo header: large frames stay whole.
class EditedFrame {
 public:
  /// Bytes before the frame into which tags and tunnels' headers are pushed.
  static constexpr std::size_t kHeadroom = 192;

  /// `frame` has kHeadroom bytes before it. `flow_hash` gives a tunnel its UDP source port.
  EditedFrame(MutableByteSpan frame, const FrameNote& note, std::uint32_t flow_hash = 0);

  /// Returns false if the frame does not have the header that the action changes.
  bool apply(const Action& action);
  ByteSpan frame() const { return {data_, size_}; }
  const FrameNote& note() const { return note_; }

 private:
  void find_headers();
  void find_ipv6_transport();
  bool is_tagged() const;
  bool push_vlan(std::uint16_t type);
  bool pop_vlan();
  bool encapsulate(std::size_t bytes);
  bool add_header(ByteSpan bytes);
  bool decapsulate(std::size_t bytes);
  bool set_tag(std::uint16_t mask, std::uint16_t value);
  bool set_address(bool is_ipv6, bool is_source, ByteSpan address);
  bool set_hop_limit(std::uint8_t limit);
  bool set_port(std::size_t at, std::uint16_t port);
  std::uint32_t sctp_checksum() const;
  /// Where the checksum of TCP, UDP or ICMPv6 is; null if there is none.
  std::byte* checksum() const;
  void correct_transport(ByteSpan from, ByteSpan to, bool is_pseudo);

  std::byte* data_;
  std::size_t size_;
  FrameNote note_;
  std::size_t pushed_ = 0;  // Bytes of the headroom that are used.
  std::size_t ip_ = 0;      // Offset of the IP header; 0: none.
  bool is_ipv6_ = false;
  bool is_routed_ = false;     // IPv6: its destination is another than the pseudo header's.
  std::size_t transport_ = 0;  // Offset; 0: none, or a later fragment.
  std::uint8_t protocol_ = 0;
  std::uint32_t flow_hash_;
  std::size_t encapsulated_ = 0;  // Bytes of the header that is being put before the frame,
  std::size_t missing_ = 0;       // and how many have not come yet.
};

}  // namespace verbatim::offload
