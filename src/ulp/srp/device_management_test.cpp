#include "ulp/srp/device_management.h"

#include <gtest/gtest.h>

#include "ulp/srp/bench_for_test.h"

namespace verbatim::ulp::srp {
namespace {

constexpr std::uint64_t kService = 0x0200'0000'0010'0000;

class SrpDeviceManagement : public testing::Test {
 protected:
  static PortId id_of(std::uint64_t extension, std::uint64_t guid) {
    PortId id{};
    store_be(id.data(), extension);
    store_be(&id[8], guid);
    return id;
  }
  void add(std::uint64_t extension, std::uint64_t guid) {
    EXPECT_TRUE(ports.add(Port(id_of(extension, guid), "port")));
  }
  /// Returns the status; the data is in `data`.
  std::uint16_t get(std::uint16_t attribute, std::uint32_t modifier = 0,
                    wire::MadMethod method = wire::MadMethod::get) {
    std::array<std::byte, wire::kMadBytes> request{}, response{};
    wire::encode({.management_class = kDeviceManagement,
                  .method = method,
                  .attribute = attribute,
                  .modifier = modifier},
                 std::span(request).first<wire::MadHeader::kSize>());
    EXPECT_TRUE(agent.answer(request, response));
    std::ranges::copy(std::span(response).subspan(64), data.begin());
    return load_be<std::uint16_t>(&response[4]);
  }
  std::string text(std::size_t at) const { return reinterpret_cast<const char*>(&data[at]); }
  template <typename T>
  T number(std::size_t at) const {
    return load_be<T>(&data[at]);
  }

  std::vector<std::byte> memory =
      std::vector<std::byte>(Ports::kPiecesPerChannel * scsi::LogicalUnit::kMemoryBytes);
  std::vector<Slice> pieces = std::vector<Slice>(Ports::kPiecesPerChannel);
  Ports ports{{.channels = 1}, pieces};
  DeviceManagement agent{ports, kService};
  std::array<std::byte, 192> data{};
};

TEST_F(SrpDeviceManagement, ShowsAControllerForEachGuid) {
  add(1, 0x0200000000100002);
  add(2, 0x0200000000100002);
  add(1, 0x0200000000100003);
  EXPECT_EQ(get(0x10), 0);
  EXPECT_EQ(number<std::uint16_t>(0), 1);  // Changes.
  EXPECT_EQ(data[2], std::byte{16});
  EXPECT_EQ(data[4], std::byte{0x11});  // Two slots are taken.
  EXPECT_EQ(data[5], std::byte{0});
  EXPECT_EQ(get(0x11, 1), 0);
  EXPECT_EQ(number<std::uint64_t>(0), 0x0200000000100002u);
  EXPECT_EQ(number<std::uint32_t>(8), 0x02000000u);
  EXPECT_EQ(number<std::uint32_t>(28), 0x0100609eu);
  EXPECT_EQ(number<std::uint32_t>(32), 0x01080001u);
  EXPECT_EQ(number<std::uint32_t>(44), 8260u);
  EXPECT_EQ(data[54], std::byte{2});
  EXPECT_EQ(text(64), "Verbatim SRP target");
  EXPECT_EQ(get(0x11, 2), 0);
  EXPECT_EQ(data[54], std::byte{1});
}

TEST_F(SrpDeviceManagement, ServicesInPortions) {
  for (std::uint64_t extension = 1; extension <= 6; ++extension) add(extension, 5);
  EXPECT_EQ(get(0x12, 1 << 16 | 3 << 8 | 0), 0);
  EXPECT_EQ(text(48), "SRP.T10:0000000000000002");
  EXPECT_EQ(number<std::uint64_t>(48 + 40), kService);
  EXPECT_EQ(get(0x12, 1 << 16 | 5 << 8 | 4), 0);
  EXPECT_EQ(text(0), "SRP.T10:0000000000000005");
  EXPECT_EQ(text(48), "SRP.T10:0000000000000006");
  EXPECT_EQ(number<std::uint64_t>(2 * 48), 0u);
}

TEST_F(SrpDeviceManagement, CountsChanges) {
  EXPECT_EQ(get(0x10), 0);
  EXPECT_EQ(data[4], std::byte{0});
  const auto before = number<std::uint16_t>(0);
  add(1, 5);
  EXPECT_EQ(get(0x10), 0);
  EXPECT_EQ(get(0x10), 0);
  EXPECT_EQ(number<std::uint16_t>(0), before + 1);
}

TEST_F(SrpDeviceManagement, RefusesAsLinux) {
  add(1, 5);
  EXPECT_EQ(get(0x01), 0);
  EXPECT_EQ(get(0x20), 0x000c);                           // No such attribute.
  EXPECT_EQ(get(0x10, 0, wire::MadMethod::set), 0x0008);  // Nor is anything set.
  EXPECT_EQ(get(0x11, 0), 0x001c);
  EXPECT_EQ(get(0x11, 17), 0x001c);
  EXPECT_EQ(get(0x11, 2), 0x0100);  // An empty slot.
  EXPECT_EQ(get(0x12, 2 << 16), 0x0100);
  EXPECT_EQ(get(0x12, 1 << 16 | 0 << 8 | 1), 0x001c);  // The last before the first,
  EXPECT_EQ(get(0x12, 1 << 16 | 1 << 8 | 0), 0x001c);  // more than there are,
  EXPECT_EQ(get(0x12, 1 << 16 | 4 << 8 | 0), 0x001c);  // and than fit.
  EXPECT_EQ(get(0x12, 0xffffffff), 0x001c);
}

TEST_F(SrpDeviceManagement, ManyControllers) {
  for (std::uint64_t guid = 1; guid <= 300; ++guid) add(1, guid);
  EXPECT_EQ(get(0x10), 0);
  EXPECT_EQ(data[2], std::byte{255});
  EXPECT_EQ(data[4 + 127], std::byte{0x10});
  EXPECT_EQ(get(0x11, 255), 0);
  EXPECT_EQ(number<std::uint64_t>(0), 255u);
}

}  // namespace
}  // namespace verbatim::ulp::srp
