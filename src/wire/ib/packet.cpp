#include "wire/ib/packet.h"

#include <cstring>
#include <optional>

#include "base/assert.h"

namespace verbatim::wire {
namespace {

/// Returns the next `N` bytes. The caller has checked that all headers of the opcode are there.
template <std::size_t N>
std::span<const std::byte, N> take(const std::byte*& at) {
  const std::span<const std::byte, N> taken(at, N);
  at += N;
  return taken;
}

template <std::size_t N>
std::span<std::byte, N> give(std::byte*& at) {
  const std::span<std::byte, N> given(at, N);
  at += N;
  return given;
}

using Fault = std::optional<WireError>;

/// Decodes the extended headers of `opcode` from `at` on. The caller has checked that they are
/// there.
Fault decode_extended(const OpcodeInfo& opcode, const std::byte* at, Headers& headers) {
  if (opcode.has(kXrcEth)) headers.xrc_eth = decode_xrc_eth(take<XrcEth::kSize>(at));
  if (opcode.has(kDeth)) headers.deth = decode_deth(take<Deth::kSize>(at));
  if (opcode.has(kFeth)) headers.feth = decode_feth(take<Feth::kSize>(at));
  if (opcode.has(kReth)) headers.reth = decode_reth(take<Reth::kSize>(at));
  if (opcode.has(kAtomicEth)) headers.atomic_eth = decode_atomic_eth(take<AtomicEth::kSize>(at));
  if (opcode.has(kAeth)) {
    const auto aeth = decode_aeth(take<Aeth::kSize>(at));
    if (!aeth) return aeth.error();
    headers.aeth = *aeth;
  }
  if (opcode.has(kAtomicAckEth)) headers.atomic_ack = load_be<std::uint64_t>(take<8>(at).data());
  if (opcode.has(kImmediate)) std::memcpy(&headers.immediate, take<4>(at).data(), 4);
  if (opcode.has(kIeth)) {
    headers.invalidate_key = static_cast<MemoryKey>(load_be<std::uint32_t>(take<4>(at).data()));
  }
  return {};
}

Fault decode_into(ByteSpan bytes, Packet& packet) {
  const Bth& bth = packet.headers.bth;
  if (const Fault fault = decode_bth(bytes, packet.headers.bth)) return fault;
  const OpcodeInfo& opcode = info(bth.opcode);
  if (!opcode.known) return WireError::unknown_opcode;
  const std::size_t header_bytes = Bth::kSize + opcode.header_bytes();
  if (bytes.size() < header_bytes) return WireError::too_short;
  if (opcode.headers != 0) {
    const Fault fault = decode_extended(opcode, bytes.data() + Bth::kSize, packet.headers);
    if (fault) return fault;
  }

  const std::size_t rest = bytes.size() - header_bytes;
  if (rest != 0 && !opcode.has_payload) return WireError::unexpected_payload;
  // IBA 9.2.3: the pad count aligns the payload to four bytes.
  if (rest % 4 != 0) return WireError::unaligned_length;
  if (bth.pad_count > rest) return WireError::bad_padding;
  packet.payload = bytes.subspan(header_bytes, rest - bth.pad_count);
  return {};
}

}  // namespace

std::expected<Packet, WireError> decode_packet(ByteSpan bytes) {
  // A single object, returned in place: a packet is too large to copy.
  std::expected<Packet, WireError> result;
  const Fault fault = decode_into(bytes, *result);
  if (fault) result = std::unexpected(*fault);
  return result;
}

std::optional<Packet> decode_invalid_request(ByteSpan bytes) {
  Packet packet{.is_invalid = true};
  if (decode_bth(bytes, packet.headers.bth)) return {};
  const OpcodeInfo& opcode = info(packet.headers.bth.opcode);
  if (!opcode.is_request || !is_reliable(opcode.service)) return {};
  return packet;
}

std::size_t encode_headers(const Headers& headers, MutableByteSpan out) {
  const OpcodeInfo& opcode = info(headers.bth.opcode);
  VERBATIM_ASSERT(opcode.known && out.size() >= Bth::kSize + opcode.header_bytes());
  std::byte* at = out.data();
  encode(headers.bth, give<Bth::kSize>(at));
  if (opcode.has(kXrcEth)) encode(headers.xrc_eth, give<XrcEth::kSize>(at));
  if (opcode.has(kDeth)) encode(headers.deth, give<Deth::kSize>(at));
  if (opcode.has(kFeth)) encode(headers.feth, give<Feth::kSize>(at));
  if (opcode.has(kReth)) encode(headers.reth, give<Reth::kSize>(at));
  if (opcode.has(kAtomicEth)) encode(headers.atomic_eth, give<AtomicEth::kSize>(at));
  if (opcode.has(kAeth)) encode(headers.aeth, give<Aeth::kSize>(at));
  if (opcode.has(kAtomicAckEth)) store_be(give<8>(at).data(), headers.atomic_ack);
  if (opcode.has(kImmediate)) std::memcpy(give<4>(at).data(), &headers.immediate, 4);
  if (opcode.has(kIeth)) store_be(give<4>(at).data(), raw(headers.invalidate_key));
  return static_cast<std::size_t>(at - out.data());
}

}  // namespace verbatim::wire
