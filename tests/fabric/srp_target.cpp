#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <endian.h>
#include <infiniband/umad.h>
#include <infiniband/umad_types.h>

/// srp_target GUID: says by device management (IBA chapter 16, SRP annex B) that port 1 of the
/// first device has one SRP target, whose service is the GUID. Prints "ready" when it answers.
namespace {

constexpr int kMadBytes = 256;
constexpr std::size_t kDataAt = 64;
constexpr std::uint8_t kDeviceManagement = 0x06;
constexpr std::uint16_t kIoUnitInfo = 0x10, kProfile = 0x11, kServiceEntries = 0x12;
constexpr std::uint16_t kUnsupportedAttribute = 0x0c, kInvalidField = 0x1c;
constexpr std::uint32_t kSlot = 1;

/// A datagram with its data filled in by byte offset.
struct Mad {
  std::uint8_t* bytes;

  template <typename T>
  T get(std::size_t at) const {
    T value;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
  }
  void put16(std::size_t at, std::uint16_t value) const {
    value = htobe16(value);
    std::memcpy(bytes + at, &value, sizeof value);
  }
  void put64(std::size_t at, std::uint64_t value) const {
    value = htobe64(value);
    std::memcpy(bytes + at, &value, sizeof value);
  }
  std::uint8_t& data(std::size_t at) const { return bytes[kDataAt + at]; }
  void refuse(std::uint16_t status) const { put16(4, status); }
};

void put_unit(const Mad& mad) {
  mad.put16(kDataAt, 1);  // Changes so far.
  mad.data(2) = 1;        // Slots.
  mad.data(4) = 0x10;     // The first one has a controller.
}

void put_profile(const Mad& mad, std::uint64_t guid) {
  constexpr std::uint16_t kIoClass = 0x0100, kSubclass = 0x609e, kProtocol = 0x0108;
  mad.put64(kDataAt, guid);
  mad.put16(kDataAt + 28, kIoClass);
  mad.put16(kDataAt + 30, kSubclass);
  mad.put16(kDataAt + 32, kProtocol);
  mad.put16(kDataAt + 34, 1);     // Its version.
  mad.put16(kDataAt + 46, 8260);  // The largest SEND.
  mad.data(54) = 1;               // Services.
  std::strcpy(reinterpret_cast<char*>(&mad.data(64)), "A target of the tests");
}

void put_service(const Mad& mad, std::uint64_t guid) {
  std::snprintf(reinterpret_cast<char*>(&mad.data(0)), 40, "SRP.T10:%016llx",
                static_cast<unsigned long long>(guid));
  mad.put64(kDataAt + 40, guid);
}

/// Makes the answer of a Get.
void answer(const Mad& mad, std::uint64_t guid) {
  const std::uint16_t attribute = be16toh(mad.get<std::uint16_t>(16));
  const std::uint32_t modifier = be32toh(mad.get<std::uint32_t>(20));
  mad.bytes[3] = UMAD_METHOD_GET_RESP;
  std::memset(mad.bytes + 24, 0, kMadBytes - 24);
  switch (attribute) {
    case kIoUnitInfo:
      return put_unit(mad);
    case kProfile:
      return modifier == kSlot ? put_profile(mad, guid) : mad.refuse(kInvalidField);
    case kServiceEntries:
      return modifier >> 16 == kSlot ? put_service(mad, guid) : mad.refuse(kInvalidField);
    default:
      return mad.refuse(kUnsupportedAttribute);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::uint64_t guid = std::strtoull(argv[1], nullptr, 0);
  const int port = umad_open_port(nullptr, 1);
  long methods[16 / sizeof(long)] = {1l << UMAD_METHOD_GET | 1l << UMAD_METHOD_SET};
  const int agent = port < 0 ? port : umad_register(port, kDeviceManagement, 1, 0, methods);
  if (agent < 0) return std::fprintf(stderr, "%s\n", std::strerror(-agent)), 1;
  std::puts("ready");
  std::fflush(stdout);
  alignas(8) std::array<std::uint8_t, 64 + kMadBytes> umad{};
  for (;;) {
    int length = kMadBytes;
    if (umad_recv(port, umad.data(), &length, -1) < 0) return 1;
    answer({static_cast<std::uint8_t*>(umad_get_mad(umad.data()))}, guid);
    umad_send(port, agent, umad.data(), kMadBytes, 0, 0);
  }
}
