#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/input.h"
#include "link/capture_file/capture_file.h"
#include "link/capture_file/capture_merge.h"

/// Programs write the rings that `verbatim capture` reads: whatever they write, each packet's bytes
/// lie within the ring, the reader comes to an end, and the file has whole blocks.
namespace verbatim::link {
namespace {

/// A sealed file with a header that is right but for its positions, and `data` behind it.
UniqueFd ring_of(ByteSpan data) {
  constexpr std::size_t kCapacity = 4096;
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::size_t total = CaptureRingHeader::kDataOffset + kCapacity;
  if (!fd || ftruncate(fd.get(), total) != 0) std::abort();
  void* const address = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) std::abort();
  const CaptureMapping mapping(address, total);
  auto* const header = new (address) CaptureRingHeader{.capacity = kCapacity};
  std::uint64_t positions[2]{};
  std::memcpy(positions, data.data(), std::min(data.size(), sizeof positions));
  header->read.store(positions[0]);
  header->written.store(positions[0] + positions[1] % (kCapacity + 2));
  data = data.subspan(std::min(data.size(), sizeof positions));
  std::memcpy(mapping.data(), data.data(), std::min(data.size(), kCapacity));
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

void read(ByteSpan data) {
  auto reader = CaptureReader::open(ring_of(data));
  if (!reader) std::abort();
  CaptureMerge merge;
  merge.add(1, std::move(*reader));
  CaptureFile file("fuzz", "fuzz");
  CapturedPacket packet;
  ByteSpan bytes;
  while (merge.next(kNever, packet, bytes)) file.add(packet, bytes);
  if (file.bytes().size() % 4 != 0) std::abort();
}

}  // namespace
}  // namespace verbatim::link

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  verbatim::link::read(std::as_bytes(std::span(data, size)));
  return 0;
}
