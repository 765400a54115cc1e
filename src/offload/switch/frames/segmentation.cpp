#include "offload/switch/frames/segmentation.h"

#include <algorithm>
#include <cstring>

#include "wire/net/frame.h"
#include "wire/net/ip.h"

namespace verbatim::offload {
namespace {

constexpr std::size_t kTcpHeaderBytes = 20;
constexpr std::byte kTcpFinAndPush{0x09};

}  // namespace

std::uint64_t add_words(ByteSpan bytes, std::uint64_t sum) {
  while (bytes.size() > 1) {
    sum += load_be<std::uint16_t>(bytes.data());
    bytes = bytes.subspan(2);
  }
  return bytes.empty() ? sum : sum + (std::to_integer<std::uint64_t>(bytes[0]) << 8);
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

std::optional<Segments> Segments::of(ByteSpan frame, const FrameNote& note) {
  Segments segments(frame, note);
  if (note.needs_checksum &&
      std::size_t{note.checksum_start} + note.checksum_offset + 2 > frame.size()) {
    return {};
  }
  if (note.kind == LargeKind::kNone) return segments;
  if (!note.needs_checksum || note.segment_bytes == 0 || !segments.find_headers()) return {};
  const std::size_t payload = frame.size() - segments.headers_;
  segments.count_ = std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>((payload + note.segment_bytes - 1) / note.segment_bytes));
  return segments;
}

/// Returns false if the headers are not those of the note's kind, or cut short.
bool Segments::find_headers() {
  ip_at_ = wire::kEthernetHeaderBytes;
  if (frame_.size() < ip_at_) return false;
  auto type = load_be<std::uint16_t>(frame_.data() + ip_at_ - 2);
  while ((type == wire::kTypeVlan || type == wire::kTypeServiceVlan) &&
         frame_.size() >= ip_at_ + 4) {
    ip_at_ += wire::kVlanTagBytes;
    type = load_be<std::uint16_t>(frame_.data() + ip_at_ - 2);
  }
  is_ipv4_ = type == wire::kTypeIpv4;
  if (!is_ipv4_ && type != wire::kTypeIpv6) return false;
  if (note_.kind == LargeKind::kTcpIpv4 && !is_ipv4_) return false;
  if (note_.kind == LargeKind::kTcpIpv6 && is_ipv4_) return false;
  const std::size_t transport = note_.checksum_start;
  const std::size_t ip_bytes = is_ipv4_ ? wire::kIpv4HeaderBytes : wire::kIpv6HeaderBytes;
  const bool is_udp = note_.kind == LargeKind::kUdp;
  const std::size_t least = is_udp ? wire::kUdpHeaderBytes : kTcpHeaderBytes;
  if (transport < ip_at_ + ip_bytes || frame_.size() < transport + least) return false;
  headers_ = transport + least;
  if (!is_udp) {
    const auto words = std::to_integer<std::size_t>(frame_[transport + 12] >> 4);
    headers_ = transport + words * 4;
    if (words * 4 < kTcpHeaderBytes) return false;
  }
  // The field must lie in the header that each packet repeats.
  return headers_ <= frame_.size() && transport + note_.checksum_offset + 2 <= headers_;
}

/// IPv4: length, identification, checksum; IPv6: length.
void Segments::finish_ip(MutableByteSpan packet) const {
  std::byte* const ip = packet.data() + ip_at_;
  const std::size_t size = packet.size() - ip_at_;
  if (!is_ipv4_) {
    store_be(ip + 4, static_cast<std::uint16_t>(size - wire::kIpv6HeaderBytes));
    return;
  }
  store_be(ip + 2, static_cast<std::uint16_t>(size));
  store_be(ip + 4, static_cast<std::uint16_t>(load_be<std::uint16_t>(ip + 4) + written_));
  store_be(ip + 10, std::uint16_t{0});
  const std::size_t header = note_.checksum_start - ip_at_;
  store_be(ip + 10, static_cast<std::uint16_t>(~fold(add_words(ByteSpan(ip, header)))));
}

/// TCP: sequence number, FIN and PSH on the last packet alone; UDP: length. The pseudo header's sum
/// is that of the whole frame's length.
void Segments::finish_transport(MutableByteSpan packet, std::size_t payload_at) const {
  std::byte* const at = packet.data() + note_.checksum_start;
  const std::size_t size = packet.size() - note_.checksum_start;
  if (note_.kind == LargeKind::kUdp) {
    store_be(at + 4, static_cast<std::uint16_t>(size));
  } else {
    const auto ahead = static_cast<std::uint32_t>(payload_at - headers_);
    store_be(at + 4, load_be<std::uint32_t>(at + 4) + ahead);
    if (written_ + 1 < count_) at[13] &= ~kTcpFinAndPush;
  }
  const auto whole = static_cast<std::uint16_t>(frame_.size() - note_.checksum_start);
  std::byte* const field = at + note_.checksum_offset;
  const std::uint64_t sum = load_be<std::uint16_t>(field);
  store_be(field, fold(sum + static_cast<std::uint16_t>(~whole) + size));
}

std::size_t Segments::next(MutableByteSpan out) {
  if (written_ == count_) return 0;
  std::size_t size = frame_.size();
  if (note_.kind == LargeKind::kNone) {
    if (out.size() < size) return 0;
    std::memcpy(out.data(), frame_.data(), size);
  } else {
    const std::size_t at = headers_ + std::size_t{written_} * note_.segment_bytes;
    const std::size_t payload = std::min<std::size_t>(note_.segment_bytes, frame_.size() - at);
    size = headers_ + payload;
    if (out.size() < size) return 0;
    std::memcpy(out.data(), frame_.data(), headers_);
    std::memcpy(out.data() + headers_, frame_.data() + at, payload);
    finish_ip(out.first(size));
    finish_transport(out.first(size), at);
  }
  if (note_.needs_checksum) {
    const ByteSpan covered(out.data() + note_.checksum_start, size - note_.checksum_start);
    const auto checksum = static_cast<std::uint16_t>(~fold(add_words(covered)));
    // UDP: zero means that there is none. TCP takes either form of zero.
    store_be(out.data() + note_.checksum_start + note_.checksum_offset,
             checksum == 0 ? std::uint16_t{0xffff} : checksum);
  }
  ++written_;
  return size;
}

}  // namespace verbatim::offload
