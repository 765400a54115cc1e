#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/disk/world_for_test.h"
#include "ulp/iscsi/bench_for_test.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/initiator/initiator.h"
#include "ulp/nvmeof/host/initiator.h"
#include "ulp/nvmeof/portal.h"

namespace verbatim::ulp::disk {
namespace {

constexpr int kSeeds = 100, kAsks = 100;

class IserTarget final : public WorldTarget {
 public:
  explicit IserTarget(std::uint64_t seed)
      : bench_({.sessions = 4, .window = 5, .stashes = 4, .initial_r2t = seed % 2 == 0}) {
    auto made = *iscsi::Target::create("iqn.2026-01.test:t2");
    EXPECT_TRUE(made.add(3, unit_));
    auto* const target = *bench_.sessions->add(std::move(made));
    target->admit_any();
    if (seed % 3 == 0) target->set_authentication({.initiator = credentials_, .target = {}});
  }
  storage::Service& service() override { return service_; }
  std::span<std::byte> disk() override { return bench_.disk; }
  std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch) override {
    return std::make_unique<iser::Initiator>(
        iser::Initiator::Settings{.login = {.initiator = "iqn.2026-01.test:i1",
                                            .target = "iqn.2026-01.test:t2",
                                            .credentials = credentials_,
                                            .isid = 0x8000'0042'0000},
                                  .lun = 3,
                                  .commands = 8},
        scratch);
  }

 private:
  const iscsi::Credentials credentials_{"bob", "secretofbob12"};
  iscsi::TargetBench bench_;
  scsi::LogicalUnit unit_{storage::UnitId{7}, {.serial = "42"}, iscsi::TargetBench::settings()};
  iser::Service service_{*bench_.sessions};
};

class NvmeTarget final : public WorldTarget {
 public:
  explicit NvmeTarget(std::uint64_t seed)
      : disk_(1000 * 512 + 8192), entries_(seed % 2 == 0 ? 4 : 33) {
    auto subsystem = *nvmeof::Subsystem::create(kName);
    subsystem.admit_any_host();
    EXPECT_TRUE(subsystem.add(3, {.unit = storage::UnitId{7}, .blocks = 1000, .block_shift = 9}));
    EXPECT_TRUE(target_.add(std::move(subsystem)));
  }
  storage::Service& service() override { return portal_; }
  std::span<std::byte> disk() override { return disk_; }
  std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch) override {
    return std::make_unique<nvmeof::Initiator>(
        nvmeof::Initiator::Settings{.subsystem = kName,
                                    .host = "nqn.2026-01.test:host",
                                    .namespace_id = 3,
                                    .entries = entries_},
        scratch);
  }

 private:
  static constexpr const char* kName = "nqn.2026-01.test:t3";
  std::vector<std::byte> disk_;
  const std::uint16_t entries_;
  nvmeof::Target target_{nvmeof::Limits{}};
  nvmeof::Portal portal_{target_, *SocketAddress::parse("10.0.0.1", 4420), 1024};
};

template <typename Target>
void run_worlds() {
  std::uint64_t sessions = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Target target(seed);
    World world(seed, target);
    world.run(kAsks);
    sessions += world.sessions();
  }
  EXPECT_GT(sessions, 2u * kSeeds);  // They were lost, and came back.
}

TEST(DiskWorld, NothingAnsweredIsLostByIser) { run_worlds<IserTarget>(); }
TEST(DiskWorld, NothingAnsweredIsLostByNvme) { run_worlds<NvmeTarget>(); }

}  // namespace
}  // namespace verbatim::ulp::disk
