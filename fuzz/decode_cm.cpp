// Any bytes as a CM message and as an RDMA IP header: nothing outside is read, and an accepted
// message encodes (except reserved bits) and decodes to the same value.
#include <array>

#include "base/assert.h"
#include "wire/mad/cm_message.h"
#include "wire/mad/rdma_ip_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto mad = wire::decode_cm(bytes)) {
    std::array<std::byte, wire::kMadBytes> again;
    encode(*mad, again);
    VERBATIM_ASSERT(wire::decode_cm(again) == mad);
  }
  if (size < wire::RdmaIpHeader::kSize) return 0;
  if (const auto header = wire::decode_rdma_ip(bytes.first<wire::RdmaIpHeader::kSize>())) {
    std::array<std::byte, wire::RdmaIpHeader::kSize> again;
    encode(*header, again);
    VERBATIM_ASSERT(wire::decode_rdma_ip(again) == header);
  }
  return 0;
}
