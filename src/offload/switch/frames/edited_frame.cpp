#include "offload/switch/frames/edited_frame.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include <netinet/in.h>

#include "offload/switch/frames/tunnel.h"
#include "wire/crc32c.h"
#include "wire/net/frame.h"
#include "wire/net/ip.h"

namespace verbatim::offload {
namespace {

constexpr std::size_t kMacs = 12;  // Bytes of both addresses.
constexpr int kExtensionsMax = 8;

bool is_vlan(std::uint16_t type) {
  return type == wire::kTypeVlan || type == wire::kTypeServiceVlan;
}
std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

/// The checksum after `from` has become `to` (RFC 1624, equation 3). A complemented one, or the sum
/// itself.
std::uint16_t corrected(std::uint16_t checksum, ByteSpan from, ByteSpan to, bool is_complement) {
  std::uint64_t sum = is_complement ? static_cast<std::uint16_t>(~checksum) : checksum;
  sum += static_cast<std::uint16_t>(~fold(add_words(from)));
  sum = add_words(to, sum);
  return is_complement ? static_cast<std::uint16_t>(~fold(sum)) : fold(sum);
}

/// SCTP stores its checksum so (RFC 9260, appendix A).
std::uint32_t little_endian(std::uint32_t value) {
  return std::endian::native == std::endian::big ? std::byteswap(value) : value;
}

void correct(std::byte* field, ByteSpan from, ByteSpan to) {
  store_be(field, corrected(load_be<std::uint16_t>(field), from, to, true));
}

}  // namespace

EditedFrame::EditedFrame(MutableByteSpan frame, const FrameNote& note, std::uint32_t flow_hash)
    : data_(frame.data()), size_(frame.size()), note_(note), flow_hash_(flow_hash) {
  find_headers();
}

void EditedFrame::find_headers() {
  ip_ = transport_ = 0;
  is_ipv6_ = is_routed_ = false;
  protocol_ = 0;
  std::size_t at = wire::kEthernetHeaderBytes;
  if (size_ < at) return;
  auto type = load_be<std::uint16_t>(data_ + at - 2);
  while (is_vlan(type) && size_ >= at + wire::kVlanTagBytes) {
    at += wire::kVlanTagBytes;
    type = load_be<std::uint16_t>(data_ + at - 2);
  }
  const std::byte* const ip = data_ + at;
  if (type == wire::kTypeIpv6 && size_ >= at + wire::kIpv6HeaderBytes) {
    ip_ = at;
    is_ipv6_ = true;
    find_ipv6_transport();
  } else if (type == wire::kTypeIpv4 && size_ >= at + wire::kIpv4HeaderBytes) {
    ip_ = at;
    protocol_ = byte(ip + 9);
    const bool is_later_fragment = (load_be<std::uint16_t>(ip + 6) & 0x1fff) != 0;
    if (!is_later_fragment) transport_ = at + (byte(ip) & 15u) * 4u;
  }
  const std::size_t least = protocol_ == IPPROTO_TCP ? 18 : protocol_ == IPPROTO_SCTP ? 12 : 8;
  if (transport_ + least > size_) transport_ = 0;
}

void EditedFrame::find_ipv6_transport() {
  std::size_t at = ip_ + wire::kIpv6HeaderBytes;
  protocol_ = byte(data_ + ip_ + 6);
  for (int i = 0; i < kExtensionsMax && size_ >= at + 8; ++i) {
    const std::byte* const header = data_ + at;
    const bool is_fragment = protocol_ == IPPROTO_FRAGMENT;
    const bool is_other = protocol_ == IPPROTO_HOPOPTS || protocol_ == IPPROTO_ROUTING ||
                          protocol_ == IPPROTO_DSTOPTS || protocol_ == IPPROTO_AH;
    if (!is_fragment && !is_other) {
      transport_ = at;
      return;
    }
    if (is_fragment && (load_be<std::uint16_t>(header + 2) & 0xfff8) != 0) return;
    is_routed_ |= protocol_ == IPPROTO_ROUTING && byte(header + 3) != 0;
    at += is_fragment               ? 8
          : protocol_ == IPPROTO_AH ? (byte(header + 1) + 2u) * 4u
                                    : (byte(header + 1) + 1u) * 8u;
    protocol_ = byte(header);
  }
}

bool EditedFrame::is_tagged() const {
  return size_ >= wire::kEthernetHeaderBytes + wire::kVlanTagBytes &&
         is_vlan(load_be<std::uint16_t>(data_ + kMacs));
}

bool EditedFrame::push_vlan(std::uint16_t type) {
  if (size_ < wire::kEthernetHeaderBytes || pushed_ + wire::kVlanTagBytes > kHeadroom) return false;
  std::memmove(data_ - wire::kVlanTagBytes, data_, kMacs);
  data_ -= wire::kVlanTagBytes;
  size_ += wire::kVlanTagBytes;
  pushed_ += wire::kVlanTagBytes;
  store_be(data_ + kMacs, type);
  store_be(data_ + kMacs + 2, std::uint16_t{0});
  if (ip_ != 0) ip_ += wire::kVlanTagBytes;
  if (transport_ != 0) transport_ += wire::kVlanTagBytes;
  note_.checksum_start = static_cast<std::uint16_t>(note_.checksum_start + wire::kVlanTagBytes);
  return true;
}

bool EditedFrame::pop_vlan() {
  if (!is_tagged()) return false;
  std::memmove(data_ + wire::kVlanTagBytes, data_, kMacs);
  data_ += wire::kVlanTagBytes;
  size_ -= wire::kVlanTagBytes;
  if (pushed_ != 0) pushed_ -= wire::kVlanTagBytes;
  if (ip_ != 0) ip_ -= wire::kVlanTagBytes;
  if (transport_ != 0) transport_ -= wire::kVlanTagBytes;
  note_.checksum_start = static_cast<std::uint16_t>(note_.checksum_start - wire::kVlanTagBytes);
  return true;
}

bool EditedFrame::encapsulate(std::size_t bytes) {
  if (!note_.is_plain() || pushed_ + bytes > kHeadroom) return false;
  data_ -= bytes;
  size_ += bytes;
  pushed_ += bytes;
  encapsulated_ = missing_ = bytes;
  return true;
}

bool EditedFrame::add_header(ByteSpan bytes) {
  const std::size_t taken = std::min(missing_, bytes.size());
  if (taken == 0) return false;
  std::memcpy(data_ + encapsulated_ - missing_, bytes.data(), taken);
  missing_ -= taken;
  if (missing_ != 0) return true;
  finish_tunnel_header({data_, size_}, encapsulated_, flow_hash_);
  find_headers();
  return true;
}

/// A packet without Ethernet gets the tunnel's addresses.
bool EditedFrame::decapsulate(std::size_t bytes) {
  const TunnelHeaders headers = bytes == 0 ? tunnel_headers(frame()) : TunnelHeaders{bytes};
  bytes = headers.bytes;
  if (!note_.is_plain() || bytes == 0 || size_ < bytes) return false;
  if (headers.packet_type != 0) {
    bytes -= wire::kEthernetHeaderBytes;
    std::memmove(data_ + bytes, data_, kMacs);
    store_be(data_ + bytes + kMacs, headers.packet_type);
  }
  if (size_ < bytes + wire::kEthernetHeaderBytes) return false;
  data_ += bytes;
  size_ -= bytes;
  pushed_ -= std::min(pushed_, bytes);
  find_headers();
  return true;
}

bool EditedFrame::set_tag(std::uint16_t mask, std::uint16_t value) {
  if (!is_tagged()) return false;
  std::byte* const tag = data_ + wire::kEthernetHeaderBytes;
  const auto kept = load_be<std::uint16_t>(tag) & ~mask;
  store_be(tag, static_cast<std::uint16_t>(kept | (value & mask)));
  return true;
}

std::byte* EditedFrame::checksum() const {
  if (transport_ == 0) return nullptr;
  if (protocol_ == IPPROTO_TCP) return data_ + transport_ + 16;
  if (protocol_ == IPPROTO_ICMPV6 && is_ipv6_) return data_ + transport_ + 2;
  if (protocol_ != IPPROTO_UDP) return nullptr;
  std::byte* const field = data_ + transport_ + 6;
  // UDP: zero means that there is none.
  return note_.needs_checksum || load_be<std::uint16_t>(field) != 0 ? field : nullptr;
}

/// One that is left to the card has the pseudo header's sum alone.
void EditedFrame::correct_transport(ByteSpan from, ByteSpan to, bool is_pseudo) {
  std::byte* const field = checksum();
  if (field == nullptr || (note_.needs_checksum && !is_pseudo)) return;
  const bool is_complement = !note_.needs_checksum;
  auto value = corrected(load_be<std::uint16_t>(field), from, to, is_complement);
  if (is_complement && value == 0 && protocol_ == IPPROTO_UDP) value = 0xffff;
  store_be(field, value);
}

bool EditedFrame::set_address(bool is_ipv6, bool is_source, ByteSpan address) {
  if (ip_ == 0 || is_ipv6_ != is_ipv6) return false;
  const std::size_t first = is_ipv6 ? 8 : 12;
  std::byte* const at = data_ + ip_ + first + (is_source ? 0 : address.size());
  std::array<std::byte, 16> old;
  std::memcpy(old.data(), at, address.size());
  const ByteSpan from = ByteSpan(old).first(address.size());
  if (!is_ipv6) correct(data_ + ip_ + 10, from, address);
  if (is_source || !is_routed_) correct_transport(from, address, true);
  std::memcpy(at, address.data(), address.size());
  return true;
}

bool EditedFrame::set_hop_limit(std::uint8_t limit) {
  if (ip_ == 0) return false;
  std::byte* const ip = data_ + ip_;
  if (is_ipv6_) {
    ip[7] = std::byte{limit};
    return true;
  }
  const std::array<std::byte, 2> from{ip[8], ip[9]};
  const std::array<std::byte, 2> to{std::byte{limit}, ip[9]};
  correct(ip + 10, from, to);
  ip[8] = std::byte{limit};
  return true;
}

bool EditedFrame::set_port(std::size_t at, std::uint16_t port) {
  const bool has_ports =
      protocol_ == IPPROTO_TCP || protocol_ == IPPROTO_UDP || protocol_ == IPPROTO_SCTP;
  if (transport_ == 0 || !has_ports) return false;
  std::byte* const field = data_ + transport_ + at;
  const std::array<std::byte, 2> from{field[0], field[1]};
  std::array<std::byte, 2> to;
  store_be(to.data(), port);
  correct_transport(from, to, false);
  const std::uint32_t before = sctp_checksum();
  std::memcpy(field, to.data(), to.size());
  if (protocol_ != IPPROTO_SCTP) return true;
  // A CRC is linear: its field changes by what the packet's CRC does.
  std::uint32_t stored;
  std::byte* const crc = data_ + transport_ + 8;
  std::memcpy(&stored, crc, sizeof stored);
  stored ^= little_endian(before ^ sctp_checksum());
  std::memcpy(crc, &stored, sizeof stored);
  return true;
}

/// CRC32c of the SCTP packet as it is, without what Ethernet has padded; 0 for others.
std::uint32_t EditedFrame::sctp_checksum() const {
  if (protocol_ != IPPROTO_SCTP || transport_ == 0) return 0;
  const std::byte* const ip = data_ + ip_;
  const std::size_t length = is_ipv6_ ? load_be<std::uint16_t>(ip + 4) + wire::kIpv6HeaderBytes
                                      : load_be<std::uint16_t>(ip + 2);
  const std::size_t end = std::min(ip_ + length, size_);
  if (end < transport_) return 0;
  wire::Crc32c crc;
  crc.update({data_ + transport_, end - transport_});
  return crc.value();
}

bool EditedFrame::apply(const Action& action) {
  const ByteSpan bytes = std::as_bytes(std::span(action.bytes));
  const auto value = static_cast<std::uint16_t>(action.value);
  switch (action.kind) {
    case ActionKind::kSetDestinationMac:
    case ActionKind::kSetSourceMac: {
      if (size_ < wire::kEthernetHeaderBytes) return false;
      const std::size_t at = action.kind == ActionKind::kSetSourceMac ? 6 : 0;
      std::memcpy(data_ + at, bytes.data(), 6);
      return true;
    }
    case ActionKind::kSetSourceIpv4:
      return set_address(false, true, bytes.first(4));
    case ActionKind::kSetDestinationIpv4:
      return set_address(false, false, bytes.first(4));
    case ActionKind::kSetSourceIpv6:
      return set_address(true, true, bytes);
    case ActionKind::kSetDestinationIpv6:
      return set_address(true, false, bytes);
    case ActionKind::kSetHopLimit:
      return set_hop_limit(static_cast<std::uint8_t>(value));
    case ActionKind::kSetSourcePort:
      return set_port(0, value);
    case ActionKind::kSetDestinationPort:
      return set_port(2, value);
    case ActionKind::kPushVlan:
      return push_vlan(value);
    case ActionKind::kPopVlan:
      return pop_vlan();
    case ActionKind::kSetVlanId:
      return set_tag(0x0fff, value);
    case ActionKind::kSetVlanPriority:
      return set_tag(0xe000, static_cast<std::uint16_t>(value << 13));
    case ActionKind::kEncapsulate:
      return encapsulate(action.value);
    case ActionKind::kHeader:
      return add_header(bytes);
    case ActionKind::kDecapsulate:
      return decapsulate(action.value);
    default:
      return false;  // No change of the frame.
  }
}

}  // namespace verbatim::offload
