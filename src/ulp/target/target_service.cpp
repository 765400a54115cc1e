#include "ulp/target/target_service.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "service/daemon.h"
#include "ulp/backstore/null_store.h"
#include "ulp/backstore/ram_store.h"
#include "ulp/backstore/scratch_store.h"
#include "ulp/engine/portals.h"
#include "ulp/nvmeof/portal.h"
#include "ulp/rdma/driver.h"
#include "ulp/target/disks.h"
#include "ulp/target/iscsi_part.h"
#include "ulp/target/runner.h"
#include "ulp/target/scsi_memory.h"
#include "ulp/target/srp_part.h"
#include "ulp/target/tree/served_tree.h"
#include "ulp/tcp/driver.h"
#include "ulp/tcp/node_addresses.h"

namespace verbatim::ulp::target {
namespace {

constexpr std::uint16_t kNvmePort = 4420;
constexpr std::uint16_t kIscsiPort = 3260;
constexpr std::uint16_t kSrpPort = 4242;  // SRP has no port of its own.
constexpr std::uint32_t kReceives = 4096;
/// By the adapter; TCP has other numbers. 2,000 hosts of NVMe have two each.
constexpr std::uint32_t kConnectionsMax = 8192;
constexpr std::uint32_t kTcpListener = 1 << 16;
constexpr std::uint32_t kScratchPages = 256;  // 1 MiB, of which a host holds 64 KiB a command.

struct Settings {
  std::string listen = "::", spin, kernel = "6.1";
  std::string nvme, ram = "64M", block = "512", file, direct = "no", null;
  std::string hosts, any_host = "no";
  std::string iscsi_listen, srp_listen;
  IscsiSettings iscsi;
  SrpSettings srp;
};

/// How long it polls before it sleeps: "always", or microseconds.
Result<TimeNs> parse_spin(const std::string& text) {
  if (text.empty()) return rdma::Turn::kDefaultSpin;
  if (text == "always") return kNever;
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || text.size() > 9)
    return refuse(EINVAL, fmt::format("spin is 'always' or microseconds, not '{}'", text));
  return std::stoull(text) * kMicrosecond;
}

/// "6.13".
Result<target_tree::KernelVersion> parse_kernel(const std::string& text) {
  target_tree::KernelVersion version;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, version.major_number);
  if (error == std::errc{} && point != end && *point == '.') {
    const auto [stop, fault] = std::from_chars(point + 1, end, version.minor_number);
    if (fault == std::errc{} && stop == end) return version;
  }
  return refuse(EINVAL, fmt::format("kernel is a version as 6.13, not '{}'", text));
}

/// The process's target.
class TargetService : public std::enable_shared_from_this<TargetService> {
 public:
  ~TargetService() { runner_.clear(); }
  Result<void> open(const Settings& settings, service::Daemon& daemon) {
    const auto listen = parse_place(settings.listen, kNvmePort);
    if (!listen) return std::unexpected(listen.error());
    const bool has_disk =
        !settings.nvme.empty() || !settings.iscsi.name.empty() || !settings.srp.ports.empty();
    const auto spin = parse_spin(settings.spin);
    if (!spin) return std::unexpected(spin.error());
    const auto kernel = parse_kernel(settings.kernel);
    if (!kernel) return std::unexpected(kernel.error());
    if (auto opened = open_driver(daemon.loop(), *spin, *kernel); !opened) return opened;
    if (has_disk) {
      if (auto added = add_disk(settings); !added) return added;
    }
    if (!settings.nvme.empty()) {
      if (auto served = serve_nvme(settings, *listen); !served) return served;
    }
    if (!settings.iscsi.name.empty()) {
      if (auto served = serve_iscsi(settings, *listen); !served) return served;
    }
    if (!settings.srp.ports.empty()) {
      if (auto served = serve_srp(settings, *listen); !served) return served;
    }
    if (auto opened = tree_->open(daemon.loop(), daemon.name()); !opened) return opened;
    if (auto attached = driver_->attach(daemon.loop()); !attached) return attached;
    daemon.loop().add(runner_);
    // The daemon owns it: it ends before the loop.
    daemon.on_status([self = shared_from_this()] { return self->status(); });
    daemon.on_stop(
        [this, &daemon] {
          driver_->disconnect_all(daemon.loop().now());
          tcp_->disconnect_all();
        },
        [this] { return connection_count() == 0; });
    return {};
  }

 private:
  static Result<nvmeof::Subsystem> make_subsystem(const Settings& settings) {
    if (settings.any_host != "yes" && settings.any_host != "no")
      return refuse(EINVAL,
                    fmt::format("allow-any-host is yes or no, not '{}'", settings.any_host));
    auto subsystem = nvmeof::Subsystem::create(settings.nvme);
    if (!subsystem) return subsystem;
    if (settings.any_host == "yes") subsystem->admit_any_host();
    for (const std::string& host : split(settings.hosts)) subsystem->admit(host);
    return subsystem;
  }

  Result<void> open_driver(service::Loop& loop, TimeNs spin, target_tree::KernelVersion kernel) {
    const std::uint32_t bytes =
        std::max<std::uint32_t>(target_.limits().capsule_bytes, iser::Connection::kReceiveBytes);
    auto driver = rdma::Driver::create(runner_, {.connections_max = kConnectionsMax,
                                                 .receives = kReceives,
                                                 .receive_bytes = bytes,
                                                 .header_bytes = iser::Connection::kReceiveBytes,
                                                 .spin = spin});
    if (!driver) return std::unexpected(driver.error());
    driver_ = std::move(*driver);
    auto scratch = backstore::ScratchStore::create(driver_->device(), kScratchPages);
    if (!scratch) return std::unexpected(scratch.error());
    scratch_ = std::move(*scratch);
    runner_.use(*scratch_);
    if (auto taken = iscsi_memory_.take(driver_->device(), IscsiPart::kSessions); !taken)
      return taken;
    iscsi_ = std::make_unique<IscsiPart>(iscsi_memory_.pieces);
    tcp_ = std::make_unique<tcp::Driver>(
        runner_, loop,
        tcp::Driver::Options{.first_number = kConnectionsMax, .first_listener = kTcpListener});
    srp_ = std::make_unique<SrpPart>(runner_, *driver_, loop);
    tree_ = std::make_unique<ServedTree>(Engines{.loop = loop,
                                                 .runner = runner_,
                                                 .driver = *driver_,
                                                 .tcp = *tcp_,
                                                 .iscsi = *iscsi_,
                                                 .srp = *srp_,
                                                 .nvme = target_,
                                                 .nvme_receives = kReceives,
                                                 .kernel = kernel});
    target_.on_wake([this] { runner_.wake(); });
    return {};
  }

  Result<void> add_disk(const Settings& settings) {
    const auto bytes = parse_bytes(settings.null.empty() ? settings.ram : settings.null);
    const auto block = parse_bytes(settings.block);
    if (!bytes || !block) return std::unexpected((bytes ? block : bytes).error());
    const auto block_bytes = static_cast<std::uint32_t>(*block);
    const rdma::Device& device = driver_->device();
    Result<std::unique_ptr<backstore::Store>> disk = nullptr;
    if (!settings.file.empty())
      disk = tree_->devices().open_store(
          settings.file,
          {.block_bytes = block_bytes, .may_create = false, .is_direct = settings.direct == "yes"});
    else if (!settings.null.empty())
      disk = backstore::NullStore::create(device, *bytes, block_bytes);
    else
      disk = backstore::RamStore::create(device, *bytes, block_bytes);
    if (!disk) return std::unexpected(disk.error());
    disk_ = std::move(*disk);
    unit_ = runner_.add(*disk_);
    return {};
  }

  Result<void> serve_nvme(const Settings& settings, const SocketAddress& listen) {
    auto subsystem = make_subsystem(settings);
    if (!subsystem) return std::unexpected(subsystem.error());
    const backstore::Geometry geometry = disk_->geometry();
    auto added = subsystem->add(
        1, {.unit = unit_,
            .blocks = geometry.bytes / geometry.block_bytes,
            .block_shift = static_cast<std::uint8_t>(std::countr_zero(geometry.block_bytes)),
            .is_read_only = geometry.is_read_only,
            .can_reserve = true});
    if (!added) return added;
    if (auto shown = target_.add(std::move(*subsystem)); !shown)
      return std::unexpected(shown.error());
    auto listener = driver_->listen(rdma::IpService{listen});
    if (!listener) return std::unexpected(listener.error());
    portal_ = std::make_unique<nvmeof::Portal>(target_, listen, kReceives);
    runner_.serve(*listener, *portal_, *driver_);
    listens_at_.push_back(tcp::text_of_listener(driver_->device(), listen));
    return {};
  }

  /// iSER, and iSCSI over TCP at the same addresses if this machine has them (a fabric's are not
  /// the kernel's).
  Result<void> serve_iscsi(const Settings& settings, const SocketAddress& nvme) {
    const auto listen = settings.iscsi_listen.empty()
                            ? Result<SocketAddress>(nvme.with_port(kIscsiPort))
                            : parse_place(settings.iscsi_listen, kIscsiPort);
    if (!listen) return std::unexpected(listen.error());
    auto added = iscsi_->add(settings.iscsi, unit_, disk_->geometry());
    if (!added) return added;
    auto listener = driver_->listen(rdma::IpService{*listen});
    if (!listener) return std::unexpected(listener.error());
    runner_.serve(*listener, iscsi_->iser(), *driver_);
    listens_at_.push_back("iSER " + tcp::text_of_listener(driver_->device(), *listen));
    return serve_iscsi_by_tcp(*listen);
  }

  /// At the node's addresses, not at those of others on this machine.
  Result<void> serve_iscsi_by_tcp(const SocketAddress& listen) {
    const rdma::Device& device = driver_->device();
    if (device.limits().is_iwarp) return {};  // Its ports are TCP's.
    const auto places = is_any(listen) ? tcp::node_addresses(device, listen.port())
                                       : std::vector<SocketAddress>{listen};
    for (const SocketAddress& place : places) {
      const auto stream = tcp_->listen(place);
      if (!stream && stream.error().code == EADDRNOTAVAIL) {
        log(LogLevel::info, "no iSCSI over TCP: {}", stream.error().text);
        continue;
      }
      if (!stream) return std::unexpected(stream.error());
      runner_.serve(*stream, iscsi_->tcp(), *tcp_);
      listens_at_.push_back("TCP " + place.text());
    }
    return {};
  }

  /// By rdma_cm, and on a fabric's host by the InfiniBand CM, too.
  Result<void> serve_srp(const Settings& settings, const SocketAddress& nvme) {
    const auto listen = settings.srp_listen.empty()
                            ? Result<SocketAddress>(nvme.with_port(kSrpPort))
                            : parse_place(settings.srp_listen, kSrpPort);
    if (!listen) return std::unexpected(listen.error());
    if (auto added = srp_->add(settings.srp, unit_, disk_->geometry()); !added) return added;
    return srp_->listen(*listen);
  }

  std::uint32_t connection_count() const {
    return driver_->connection_count() + tcp_->connection_count();
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
    std::vector<std::string> places = listens_at_;
    srp_->add_places(places);
    tree_->add_places(places);
    nlohmann::json status = {{"listens", fmt::format("{}", fmt::join(places, ", "))},
                             {"connections", connection_count()},
                             {"subsystems", std::move(subsystems)},
                             {"hosts", std::move(hosts)},
                             {"incidents", std::move(incidents)}};
    status["iscsi"] = iscsi_->status();
    status["srp"] = srp_->status();
    return status;
  }

  // In this order: regions before the device.
  nvmeof::Target target_{nvmeof::Limits{}};
  std::unique_ptr<nvmeof::Portal> portal_;
  std::unique_ptr<IscsiPart> iscsi_;
  Runner runner_;
  std::unique_ptr<rdma::Driver> driver_;
  std::unique_ptr<backstore::ScratchStore> scratch_;
  ScsiMemory iscsi_memory_;
  std::unique_ptr<SrpPart> srp_;
  std::unique_ptr<tcp::Driver> tcp_;
  std::unique_ptr<ServedTree> tree_;
  std::unique_ptr<backstore::Store> disk_;  // A file: by the tree's buffers.
  storage::UnitId unit_{};
  std::vector<std::string> listens_at_;
};

}  // namespace

int run_target(int argc, char** argv) {
  Settings settings;
  const service::Setting known[] = {
      {"listen", "ADDRESS", "", "where hosts connect, with a port or 4420 (default: the node's)",
       &settings.listen},
      {"spin", "US|always", "", "how long it polls before it sleeps (default: 50 microseconds)",
       &settings.spin},
      {"kernel", "VERSION", "", "whose tree programs see (default: 6.1; 6.13: resv_enable)",
       &settings.kernel},
      {"nvme", "NQN", "", "the name of the subsystem that has the disk", &settings.nvme},
      {"ram", "SIZE", "", "its disk: memory of this size (default: 64M)", &settings.ram},
      {"file", "PATH", "", "its disk: this file or block device", &settings.file},
      {"direct", "yes|no", "", "past the page cache (O_DIRECT); block devices: always",
       &settings.direct},
      {"null", "SIZE", "", "its disk: nothing, of this size: reads as zeroes, forgets writes",
       &settings.null},
      {"block", "BYTES", "", "bytes of a block: 512 (default) or 4096", &settings.block},
      {"allow-host", "NQN,...", "", "hosts that may connect (default: none)", &settings.hosts},
      {"allow-any-host", "yes|no", "", "all of them may", &settings.any_host},
      {"iscsi", "IQN", "", "the name of the iSCSI target that has the disk, over iSER and TCP",
       &settings.iscsi.name},
      {"iscsi-listen", "ADDRESS", "", "where initiators connect (default: as listen, port 3260)",
       &settings.iscsi_listen},
      {"allow-initiator", "IQN,...", "", "initiators that may log in (default: none)",
       &settings.iscsi.initiators},
      {"allow-any-initiator", "yes|no", "", "all of them may", &settings.iscsi.any},
      {"iscsi-auth", "FILE", "",
       "CHAP: userid, password, userid_mutual, password_mutual, each "
       "with its value in a line",
       &settings.iscsi.auth},
      {"srp", "PORT,...", "",
       "SRP ports that have the disk: id_ext and ioc_guid, 32 hex digits; 'node': its GUID, twice",
       &settings.srp.ports},
      {"srp-listen", "ADDRESS", "", "where initiators connect (default: as listen, port 4242)",
       &settings.srp_listen},
      {"allow-srp-initiator", "PORT,...", "", "initiators' ports that may log in (default: none)",
       &settings.srp.initiators},
      {"allow-any-srp-initiator", "yes|no", "", "all of them may", &settings.srp.any}};
  return service::run_daemon(
      {.program = "verbatim-ulpd target",
       .kind = "target",
       .summary = "serves a disk to hosts of NVMe over Fabrics, iSCSI and SRP",
       .settings = known},
      argc, argv, [&](service::Daemon& daemon) {
        return std::make_shared<TargetService>()->open(settings, daemon);
      });
}

}  // namespace verbatim::ulp::target
