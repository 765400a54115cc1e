#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/disk/world_for_test.h"
#include "ulp/iscsi/bench_for_test.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/initiator/initiator.h"
#include "ulp/nvmeof/host/initiator.h"
#include "ulp/nvmeof/portal.h"
#include "ulp/srp/bench_for_test.h"
#include "ulp/srp/initiator/initiator.h"

namespace verbatim::ulp::disk {
namespace {

constexpr int kSeeds = 100, kAsks = 100;
/// Where the paths lead.
const SocketAddress kPlaces[] = {*SocketAddress::parse("10.0.0.1", 4420),
                                 *SocketAddress::parse("10.0.0.2", 4420)};

/// Port groups of a unit that is shown by ports 1 and 2, each in a group of its own.
struct TwoPorts {
  /// At least one stays usable, or is so a little later.
  void shake(sim::Random& random) {
    using State = scsi::AccessState;
    constexpr State kStates[] = {State::optimized, State::non_optimized, State::standby,
                                 State::unavailable, State::offline};
    if (random.below(100) != 0) return;
    std::vector<scsi::PortGroup> now;
    for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}})
      now.push_back({.id = port,
                     .state = kStates[random.below(std::size(kStates))],
                     .ports = {{.port = port}}});
    groups->set(std::move(now));
  }
  std::shared_ptr<scsi::PortGroups> groups =
      std::make_shared<scsi::PortGroups>(std::vector<std::uint16_t>{1, 2});
};

class IserTarget final : public WorldTarget {
 public:
  explicit IserTarget(std::uint64_t seed)
      : bench_({.sessions = 8, .window = 5, .stashes = 4, .initial_r2t = seed % 2 == 0}),
        changes_access_(seed % 5 < 2) {
    for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
      auto made = *iscsi::Target::create("iqn.2026-01.test:t2", port, port);
      iscsi::TargetSettings settings{.admits_any = true, .portals = {kPlaces[port - 1]}};
      if (seed % 3 == 0) settings.authentication = {.initiator = credentials_, .target = {}};
      made.set(std::move(settings));
      EXPECT_TRUE(made.add(3, unit_));
      EXPECT_TRUE(bench_.sessions->add(std::move(made)));
    }
  }
  storage::Service& service_of(std::uint32_t) override { return service_; }
  void shake(sim::Random& random) override {
    if (changes_access_) access_.shake(random);
  }
  std::span<std::byte> disk() override { return bench_.disk; }
  std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch,
                                                std::uint32_t path) override {
    return std::make_unique<iser::Initiator>(
        iser::Initiator::Settings{.login = {.initiator = "iqn.2026-01.test:i1",
                                            .target = "iqn.2026-01.test:t2",
                                            .credentials = credentials_,
                                            .isid = 0x8000'0042'0000u + path},
                                  .lun = 3,
                                  .commands = 8},
        scratch);
  }

 private:
  const iscsi::Credentials credentials_{"bob", "secretofbob12"};
  iscsi::TargetBench bench_;
  const bool changes_access_;
  TwoPorts access_;
  scsi::LogicalUnit unit_{storage::UnitId{7},
                          {.serial = "42"},
                          iscsi::TargetBench::settings(),
                          std::make_shared<scsi::Reservations>(),
                          access_.groups};
  iser::Service service_{*bench_.sessions};
};

class NvmeTarget final : public WorldTarget {
 public:
  explicit NvmeTarget(std::uint64_t seed)
      : disk_(1000 * 512 + 8192), entries_(seed % 2 == 0 ? 4 : 33), tells_access_(seed % 3 == 0) {
    settings_.admits_any_host = true;
    settings_.spaces = {{3, {.unit = storage::UnitId{7}, .blocks = 1000, .block_shift = 9}}};
    subsystem_ = *target_.add(*nvmeof::Subsystem::create(kName));
    set();
  }
  storage::Service& service_of(std::uint32_t path) override { return portals_[path]; }
  /// At least one path stays usable, or is so a little later.
  void shake(sim::Random& random) override {
    using State = nvmeof::AccessState;
    constexpr State kStates[] = {State::optimized, State::non_optimized, State::inaccessible,
                                 State::persistent_loss, State::change};
    if (random.below(100) != 0) return;
    for (State& state : states_) state = kStates[random.below(std::size(kStates))];
    set();
  }
  std::span<std::byte> disk() override { return disk_; }
  std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch,
                                                std::uint32_t) override {
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
  void set() {
    settings_.access.clear();
    for (std::size_t i = 0; tells_access_ && i < states_.size(); ++i)
      settings_.access.push_back({kPlaces[i], {{1, states_[i]}}});
    subsystem_->set(settings_);
    target_.refresh(*subsystem_);
  }
  const std::uint16_t entries_;
  const bool tells_access_;
  std::array<nvmeof::AccessState, 2> states_{nvmeof::AccessState::optimized,
                                             nvmeof::AccessState::optimized};
  nvmeof::SubsystemSettings settings_;
  nvmeof::Target target_{nvmeof::Limits{}};
  nvmeof::Subsystem* subsystem_ = nullptr;
  nvmeof::Portal portals_[2]{{target_, kPlaces[0], 1024}, {target_, kPlaces[1], 1024}};
};

class SrpTarget final : public WorldTarget {
 public:
  explicit SrpTarget(std::uint64_t seed) : changes_access_(seed % 5 < 2) {
    for (const std::uint32_t path : {0u, 1u}) {
      srp::Port made(port_of(path), "port", static_cast<std::uint16_t>(path + 1));
      EXPECT_TRUE(made.add(0, unit_));
      made.admit(initiator_of(path));
      EXPECT_TRUE(bench_.ports->add(std::move(made)));
    }
  }
  storage::Service& service_of(std::uint32_t) override { return service_; }
  void shake(sim::Random& random) override {
    if (changes_access_) access_.shake(random);
  }
  std::span<std::byte> disk() override { return bench_.disk; }
  std::unique_ptr<storage::Initiator> initiator(const storage::PeerMemory& scratch,
                                                std::uint32_t path) override {
    return std::make_unique<srp::Initiator>(
        srp::InitiatorSettings{.initiator = initiator_of(path), .target = port_of(path)}, scratch);
  }

 private:
  static srp::PortId initiator_of(std::uint32_t path) {
    return srp::port_id(static_cast<std::uint8_t>(100 + path));
  }
  static srp::PortId port_of(std::uint32_t path) {
    return srp::port_id(static_cast<std::uint8_t>(50 + path));
  }
  const bool changes_access_;
  srp::TargetBench bench_{{.channels = 8, .channels_per_session = 1, .requests = 8}};
  TwoPorts access_;
  scsi::LogicalUnit unit_{storage::UnitId{7},
                          {},
                          srp::TargetBench::settings(),
                          std::make_shared<scsi::Reservations>(),
                          access_.groups};
  srp::Service service_{*bench_.ports};
};

template <typename Target>
void run_worlds(std::uint32_t paths) {
  std::uint64_t sessions = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Target target(seed);
    World world(seed, target, paths);
    world.run(kAsks);
    sessions += world.sessions();
  }
  EXPECT_GT(sessions, 2u * paths * kSeeds);  // They were lost, and came back.
}

TEST(DiskWorld, NothingAnsweredIsLostByIser) { run_worlds<IserTarget>(1); }
TEST(DiskWorld, NothingAnsweredIsLostByNvme) { run_worlds<NvmeTarget>(1); }
TEST(DiskWorld, NothingAnsweredIsLostBySrp) { run_worlds<SrpTarget>(1); }
TEST(DiskWorld, NothingAnsweredIsLostByTwoPathsOfIser) { run_worlds<IserTarget>(2); }
TEST(DiskWorld, NothingAnsweredIsLostByTwoPathsOfNvme) { run_worlds<NvmeTarget>(2); }
TEST(DiskWorld, NothingAnsweredIsLostByTwoPathsOfSrp) { run_worlds<SrpTarget>(2); }

}  // namespace
}  // namespace verbatim::ulp::disk
