// Any bytes as an InfiniBand packet with its headers: the headers that the port takes off are those
// that it writes before the same packet on the same path.
#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "port/encapsulation_infiniband.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const auto* const start = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(start, start + size);
  const auto found = port::decapsulate(bytes);
  (void)wire::infiniband_icrc(bytes);
  if (!found) return 0;
  VERBATIM_ASSERT(found->packet.data() + found->packet.size() <= bytes.data() + bytes.size());
  std::vector<std::byte> again(port::encapsulation_bytes(found->to));
  port::encapsulate(found->to, 0, found->packet.size(), again);
  again.insert(again.end(), found->packet.begin(), found->packet.end());
  const ByteSpan covered = found->packet.first(found->packet.size() - wire::kIcrcBytes);
  VERBATIM_ASSERT(wire::infiniband_icrc(again) == port::icrc_seed(found->to).compute(covered, 0));
  const auto twice = port::decapsulate(again);
  VERBATIM_ASSERT(twice && twice->to == found->to && twice->from == found->from);
  VERBATIM_ASSERT(twice->group == found->group && std::ranges::equal(twice->packet, found->packet));
  return 0;
}
