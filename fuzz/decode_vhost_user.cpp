// Any bytes from a frontend of vhost-user, and any bytes as the memory of a guest, ring included:
// messages are decoded within their bounds; requests are taken, asked and answered with no access
// outside of what is shared, and what they make us keep is bounded.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/disk/vhost/block.h"
#include "ulp/disk/vhost/ring.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;
using namespace verbatim::ulp::disk;
using namespace verbatim::ulp::disk::vhost;

constexpr std::size_t kMemoryBytes = 0x1000;
constexpr std::uint64_t kGuest = 0x10000, kUser = 0x20000;

void check_codec(ByteSpan bytes) {
  if (bytes.size() < vhost::kHeaderBytes) return;
  const auto header = decode_header(bytes.first<vhost::kHeaderBytes>());
  if (!header) return;
  const ByteSpan rest = bytes.subspan(vhost::kHeaderBytes);
  const auto message =
      decode(*header, rest.first(std::min<std::size_t>(rest.size(), header->bytes)));
  if (!message) return;
  if (const auto* const access = std::get_if<ConfigAccess>(&message->body)) {
    const auto config = config_of({});
    VERBATIM_ASSERT(encode_reply(header->request, *access,
                                 ByteSpan(config).subspan(access->offset, access->bytes))
                        .size() == vhost::kHeaderBytes + 12 + access->bytes);
  }
}

void run_ring(Ring& ring, const GuestMemory& memory, std::uint64_t features) {
  const storage::DiskFacts facts{.bytes = 1 << 20,
                                 .clear_bytes_max = 65536,
                                 .can_discard = true,
                                 .can_write_zeroes = true,
                                 .name = "fuzz"};
  for (std::uint32_t i = 0; i < Ring::kEntriesMax; ++i) {
    auto chain = ring.take();
    if (!chain || !*chain) return;
    VERBATIM_ASSERT((**chain).readable.size() + (**chain).writable.size() <= Ring::kEntriesMax);
    Job job;
    job.chain = std::move(**chain);
    if (!read_request(job, memory, facts, features)) return;
    VERBATIM_ASSERT(job.data == nullptr || job.bytes <= kDataBytesMax);
    if (job.data != nullptr && !job.status) std::fill_n(job.data, job.bytes, std::byte{1});
    ring.put(job.chain.head, write_answer(job, memory));
    ring.wants_call();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_codec(std::as_bytes(std::span(data, size)));
  Input input(data, size);
  Ring ring;
  GuestMemory memory;
  const std::uint32_t entries = input.byte();
  if (!ring.set_entries(entries)) return 0;
  VringAddress address;
  for (std::uint64_t* const part : {&address.descriptors, &address.available, &address.used})
    *part = kUser + input.two();
  ring.set_addresses(address);
  ring.set_base(static_cast<std::uint16_t>(input.two()));
  const std::uint64_t features = input.two();
  // In two pieces, which adjoin for the guest alone.
  std::vector<std::byte> low(kMemoryBytes), high(kMemoryBytes);
  for (std::vector<std::byte>* const part : {&low, &high})
    for (std::byte& one : *part) one = static_cast<std::byte>(input.byte());
  memory.add(kGuest, kUser, low);
  memory.add(kGuest + kMemoryBytes, kUser + 2 * kMemoryBytes, high);
  if (ring.begin(memory)) run_ring(ring, memory, features);
  return 0;
}
