#include "ulp/target/target_service.h"

#include <bit>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "ulp/backstore/ram_store.h"
#include "ulp/backstore/scratch_store.h"
#include "ulp/nvmeof/portal.h"
#include "ulp/rdma/driver.h"
#include "ulp/target/disks.h"
#include "ulp/target/runner.h"

namespace verbatim::ulp::target {
namespace {

constexpr std::uint16_t kNvmePort = 4420;
constexpr std::uint32_t kReceives = 4096;
constexpr std::uint32_t kScratchPages = 256;  // 1 MiB, of which a host holds 64 KiB a command.

struct Settings {
  std::string listen = "::";
  std::string nvme, ram = "64M", block = "512";
  std::string hosts, any_host = "no";
};

/// The process's target: everything is made before it serves, and ends with it.
class TargetService {
 public:
  Result<void> open(const Settings& settings, service::Daemon& daemon) {
    const auto listen = parse_place(settings.listen, kNvmePort);
    if (!listen) return std::unexpected(listen.error());
    auto subsystem = make_subsystem(settings);
    if (!subsystem) return std::unexpected(subsystem.error());
    if (auto opened = open_driver(); !opened) return opened;
    if (auto added = add_disk(settings, std::move(*subsystem)); !added) return added;
    auto listener = driver_->listen(rdma::IpService{*listen});
    if (!listener) return std::unexpected(listener.error());
    portal_ = std::make_unique<nvmeof::Portal>(target_, *listen, kReceives);
    runner_.serve(*listener, *portal_);
    listens_at_ = *listen;
    if (auto attached = driver_->attach(daemon.loop()); !attached) return attached;
    daemon.loop().add(runner_);
    daemon.on_status([this] { return status(); });
    daemon.on_stop([this, &daemon] { driver_->disconnect_all(daemon.loop().now()); },
                   [this] { return driver_->connection_count() == 0; });
    return {};
  }

 private:
  static Result<nvmeof::Subsystem> make_subsystem(const Settings& settings) {
    if (settings.nvme.empty())
      return refuse(EINVAL, "which NQN? Say --nvme nqn.2026-01.com.example:disk");
    if (settings.any_host != "yes" && settings.any_host != "no")
      return refuse(EINVAL,
                    fmt::format("allow-any-host is yes or no, not '{}'", settings.any_host));
    auto subsystem = nvmeof::Subsystem::create(settings.nvme);
    if (!subsystem) return subsystem;
    if (settings.any_host == "yes") subsystem->admit_any_host();
    for (const std::string& host : split(settings.hosts)) subsystem->admit(host);
    return subsystem;
  }

  Result<void> open_driver() {
    const std::uint32_t bytes = target_.limits().capsule_bytes;
    auto driver = rdma::Driver::create(runner_, {.receives = kReceives, .receive_bytes = bytes});
    if (!driver) return std::unexpected(driver.error());
    driver_ = std::move(*driver);
    auto scratch = backstore::ScratchStore::create(driver_->device(), kScratchPages);
    if (!scratch) return std::unexpected(scratch.error());
    scratch_ = std::move(*scratch);
    runner_.use(*driver_, *scratch_);
    return {};
  }

  Result<void> add_disk(const Settings& settings, nvmeof::Subsystem subsystem) {
    const auto bytes = parse_bytes(settings.ram);
    const auto block = parse_bytes(settings.block);
    if (!bytes || !block) return std::unexpected((bytes ? block : bytes).error());
    auto disk =
        backstore::RamStore::create(driver_->device(), *bytes, static_cast<std::uint32_t>(*block));
    if (!disk) return std::unexpected(disk.error());
    disk_ = std::move(*disk);
    const backstore::Geometry geometry = disk_->geometry();
    auto added = subsystem.add(
        1, {.unit = runner_.add(*disk_),
            .blocks = geometry.bytes / geometry.block_bytes,
            .block_shift = static_cast<std::uint8_t>(std::countr_zero(geometry.block_bytes)),
            .is_read_only = geometry.is_read_only});
    if (!added) return added;
    if (auto shown = target_.add(std::move(subsystem)); !shown)
      return std::unexpected(shown.error());
    return {};
  }

  nlohmann::json status() const {
    nlohmann::json subsystems = nlohmann::json::array(), hosts = nlohmann::json::array();
    for (const auto& subsystem : target_.subsystems()) {
      nlohmann::json spaces = nlohmann::json::array();
      for (const auto& [id, space] : subsystem->ids_after(0)) {
        spaces.push_back({{"id", id},
                          {"bytes", space.blocks << space.block_shift},
                          {"block_bytes", 1u << space.block_shift}});
      }
      subsystems.push_back({{"nqn", subsystem->nqn()},
                            {"any_host", subsystem->admits_any_host()},
                            {"namespaces", std::move(spaces)}});
    }
    for (const auto& [id, controller] : target_.controllers()) {
      hosts.push_back({{"controller", id},
                       {"host", controller->host().host},
                       {"nqn", controller->is_discovery() ? std::string(nvmeof::kDiscoveryNqn)
                                                          : controller->subsystem()->nqn()},
                       {"queues", controller->queue_count()}});
    }
    nlohmann::json incidents = nlohmann::json::array();
    for (const Incident& one : runner_.incidents())
      incidents.push_back({{"peer", one.peer}, {"words", one.words}});
    return {{"listens", listens_at_.text()},
            {"connections", driver_->connection_count()},
            {"subsystems", std::move(subsystems)},
            {"hosts", std::move(hosts)},
            {"incidents", std::move(incidents)}};
  }

  // In this order: sessions end before what they use; regions before the device.
  nvmeof::Target target_{nvmeof::Limits{}};
  std::unique_ptr<nvmeof::Portal> portal_;
  Runner runner_;
  std::unique_ptr<rdma::Driver> driver_;
  std::unique_ptr<backstore::ScratchStore> scratch_;
  std::unique_ptr<backstore::RamStore> disk_;
  SocketAddress listens_at_;
};

}  // namespace

int run_target(int argc, char** argv) {
  Settings settings;
  const service::Setting known[] = {
      {"listen", "ADDRESS", "", "where hosts connect, with a port or 4420 (default: all)",
       &settings.listen},
      {"nvme", "NQN", "", "the name of the subsystem that has the disk", &settings.nvme},
      {"ram", "SIZE", "", "its disk: memory of this size (default: 64M)", &settings.ram},
      {"block", "BYTES", "", "bytes of a block: 512 (default) or 4096", &settings.block},
      {"allow-host", "NQN,...", "", "hosts that may connect (default: none)", &settings.hosts},
      {"allow-any-host", "yes|no", "", "all of them may", &settings.any_host}};
  TargetService target;
  return service::run_daemon(
      {.program = "verbatim-ulpd target",
       .kind = "target",
       .summary = "serves a disk to hosts of NVMe over Fabrics",
       .settings = known},
      argc, argv, [&](service::Daemon& daemon) { return target.open(settings, daemon); });
}

}  // namespace verbatim::ulp::target
