#pragma once

#include <cstdint>

/// Where a packet is: the one word from which, after a death, all else is computed.
namespace verbatim::fabric {

/// Indices into the parts of the image. 0 is the null one of each kind.
using Handle = std::uint32_t;  // Of a slot.
using LinkIndex = std::uint32_t;
using NodeIndex = std::uint32_t;

///     bits  61-63  53-60   32-52  28-31  24-27  0-23
///          +------+-------+------+------+------+--------+
///          | kind | branch| link | lane |  0   | number |
///          +------+-------+------+------+------+--------+
///
/// `number` of `in_buffer`: FCTBS after the packet, the order in that buffer; of `built` and
/// `in_ring`: the index in the ring. `branch`: 1 + the port that this copy of a multicast leaves
/// by; 0: of none.
class Where {
 public:
  enum Kind : std::uint8_t {
    kFree = 0,
    kBuilt = 1,     // By a program, in the ring of its link.
    kInBuffer = 2,  // At the end of a link; it takes credits there.
    kCopy = 3,      // The same, without credits: a branch of a multicast.
    kInRing = 4,    // Handed to a program.
    kClaimed = 5,   // By a mover, for a copy.
  };
  static constexpr std::uint32_t kLinksMax = 1u << 21;
  static constexpr std::uint32_t kNumberMask = 0xffffff;

  constexpr Where() = default;
  constexpr explicit Where(std::uint64_t word) : word_(word) {}
  static constexpr Where built(LinkIndex link, std::uint32_t index) {
    return make(kBuilt, 0, link, 0, index);
  }
  static constexpr Where in_buffer(LinkIndex link, unsigned lane, std::uint32_t sent_after) {
    return make(kInBuffer, 0, link, lane, sent_after);
  }
  static constexpr Where in_ring(LinkIndex link, unsigned lane, std::uint32_t index) {
    return make(kInRing, 0, link, lane, index);
  }
  static constexpr Where claimed(std::uint32_t mover) {
    return Where(std::uint64_t{kClaimed} << 61 | mover);
  }
  /// The packet in the same place whose branch is `port`; as the original, or as a copy of it.
  constexpr Where with_branch(unsigned port) const {
    return Where((word_ & ~(0xffULL << 53)) | std::uint64_t{(port + 1) & 0xff} << 53);
  }
  constexpr Where copy(unsigned port) const {
    return Where((with_branch(port).word_ & ~(7ULL << 61)) | std::uint64_t{kCopy} << 61);
  }
  /// The packet that this is a copy of, as long as it has no branch.
  constexpr Where original() const {
    return Where((word_ & ~(0x7ffULL << 53)) | std::uint64_t{kInBuffer} << 61);
  }

  /// The packet's number in a router's buffer, and the hop limit with which it has come there.
  constexpr std::uint32_t at_router(std::uint8_t hop_limit) const {
    return std::uint32_t{hop_limit} << 24 | number();
  }
  constexpr bool is_at_router(std::uint32_t at_router) const {
    return at_router != 0 && (at_router & kNumberMask) == number();
  }
  static constexpr std::uint8_t hop_limit(std::uint32_t at_router) {
    return static_cast<std::uint8_t>(at_router >> 24);
  }

  constexpr std::uint64_t word() const { return word_; }
  constexpr unsigned kind() const { return static_cast<unsigned>(word_ >> 61); }
  /// Of `kClaimed`.
  constexpr std::uint32_t mover() const { return static_cast<std::uint32_t>(word_); }
  constexpr unsigned branch() const { return static_cast<unsigned>(word_ >> 53) & 0xff; }
  constexpr LinkIndex link() const { return static_cast<LinkIndex>(word_ >> 32) & (kLinksMax - 1); }
  constexpr unsigned lane() const { return static_cast<unsigned>(word_ >> 28) & 15; }
  constexpr std::uint32_t number() const { return static_cast<std::uint32_t>(word_) & kNumberMask; }
  friend constexpr bool operator==(Where, Where) = default;

 private:
  static constexpr Where make(Kind kind, unsigned branch, LinkIndex link, unsigned lane,
                              std::uint32_t number) {
    return Where(std::uint64_t{kind} << 61 | std::uint64_t{branch} << 53 |
                 std::uint64_t{link & (kLinksMax - 1)} << 32 | std::uint64_t{lane & 15} << 28 |
                 (number & kNumberMask));
  }
  std::uint64_t word_ = 0;
};

/// How far `number` is ahead of `than`, both modulo 2^24.
constexpr std::int32_t ahead(std::uint32_t number, std::uint32_t than) {
  return static_cast<std::int32_t>((number - than) << 8) >> 8;
}

}  // namespace verbatim::fabric
