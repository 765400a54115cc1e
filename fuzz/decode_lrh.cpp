// Any bytes as an InfiniBand packet: what decoding accepts, the encoder writes again but for the
// reserved bits, and with them it decodes to the same value. Its ICRC and VCRC are computed of any
// bytes behind it.
#include <array>

#include "base/assert.h"
#include "wire/net/icrc.h"
#include "wire/net/lrh.h"
#include "wire/net/vcrc.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto header = wire::decode_lrh(bytes);
  if (!header) return 0;
  std::array<std::byte, wire::Lrh::kSize> out;
  encode(*header, out);
  VERBATIM_ASSERT(wire::decode_lrh(out) == header);
  constexpr std::array kDefined{0xff, 0xf3, 0xff, 0xff, 0x07, 0xff, 0xff, 0xff};
  for (std::size_t i = 0; i < out.size(); ++i) {
    VERBATIM_ASSERT(out[i] == (bytes[i] & static_cast<std::byte>(kDefined[i])));
  }
  static_cast<void>(wire::verify_icrc(wire::IcrcSeed(*header), bytes.subspan(out.size()), 0));
  wire::Vcrc crc;
  crc.update(bytes);
  return 0;
}
