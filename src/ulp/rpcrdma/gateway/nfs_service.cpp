#include "ulp/rpcrdma/gateway/nfs_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "ulp/rpcrdma/gateway/ganesha.h"
#include "ulp/rpcrdma/gateway/piece_memory.h"
#include "ulp/rpcrdma/gateway/relay.h"
#include "ulp/tcp/node_addresses.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint16_t kNfsPort = 2049, kRdmaPort = 20049;  // "nfs", "nfsrdma" of IANA.
constexpr std::uint32_t kReceives = 4096;
constexpr std::uint32_t kHeaders = 1024;
/// Less than others: what is waited for has a server over TCP behind it.
constexpr TimeNs kSpin = 10 * kMicrosecond;
/// Of a stream, until it is known what comes: a record's beginning, or some short ones.
constexpr std::uint32_t kMessageBytes = 16 << 10;

struct Settings {
  std::string listen, to, folder;
};

/// The gateway of one process: everything is made before it serves, and ends with it.
class NfsService {
 public:
  explicit NfsService(Relay::Role role) : role_(role) {}

  Result<void> open(const Settings& settings, service::Daemon& daemon) {
    const auto listen = rdma::parse_place(settings.listen, is_server() ? kRdmaPort : kNfsPort);
    auto to = rdma::parse_place(settings.to, is_server() ? kNfsPort : kRdmaPort);
    if (!settings.folder.empty()) to = serve_folder(settings.folder, daemon);
    if (!listen || !to) return std::unexpected((listen ? to : listen).error());
    relay_ =
        std::make_unique<Relay>(Relay::Options{.role = role_, .to = *to, .receives = kReceives});
    if (auto opened = open_drivers(daemon.loop()); !opened) return opened;
    const auto listener =
        is_server() ? rdma_->listen(rdma::IpService{*listen}) : tcp_->listen(*listen);
    if (!listener) return std::unexpected(listener.error());
    if (auto attached = rdma_->attach(daemon.loop()); !attached) return attached;
    daemon.on_status(
        [this, folder = settings.folder, connects = to->text(),
         listens = is_server() ? tcp::text_of_listener(rdma_->device(), *listen) : listen->text()] {
          nlohmann::json status = relay_->status();
          status.update({{"listens", listens}, {"to", connects}});
          if (!folder.empty())
            status.update({{"folder", folder},
                           {"is_apart", ganesha_->is_apart()},
                           {"server_restarts", ganesha_->restarts()}});
          return status;
        });
    daemon.on_stop([this, &daemon] { relay_->disconnect_all(daemon.loop().now()); },
                   [this] { return relay_->is_empty(); });
    return {};
  }

 private:
  bool is_server() const { return role_ == Relay::Role::server; }

  /// Before the device is opened, for a child is made.
  Result<SocketAddress> serve_folder(const std::string& folder, service::Daemon& daemon) {
    auto server = Ganesha::start({.folder = folder, .name = daemon.name()}, daemon.loop());
    if (!server) return std::unexpected(server.error());
    ganesha_ = std::move(*server);
    return ganesha_->address();
  }

  Result<void> open_drivers(service::Loop& loop) {
    auto driver = rdma::Driver::create(*relay_, {.device = {},
                                                 .connections_max = Relay::kFirstStream,
                                                 .receives = kReceives,
                                                 .receive_bytes = kInlineBytes,
                                                 .headers = kHeaders,
                                                 .header_bytes = kInlineBytes,
                                                 .spin = kSpin});
    if (!driver) return std::unexpected(driver.error());
    rdma_ = std::move(*driver);
    // A client's peer moves the data: by READ of calls, and WRITE of replies.
    const int reads = IBV_ACCESS_LOCAL_WRITE | (is_server() ? 0 : IBV_ACCESS_REMOTE_READ);
    const int writes = IBV_ACCESS_LOCAL_WRITE | (is_server() ? 0 : IBV_ACCESS_REMOTE_WRITE);
    if (auto opened = records_.open(rdma_->device(), reads); !opened) return opened;
    if (auto opened = chunks_.open(rdma_->device(), writes); !opened) return opened;
    tcp_ = std::make_unique<tcp::Driver>(
        *relay_, loop,
        tcp::Driver::Options{.first_number = Relay::kFirstStream,
                             .first_listener = Relay::kFirstStreamListener,
                             .connector = ganesha_.get(),
                             .placer = relay_.get(),
                             .message_bytes = kMessageBytes});
    relay_->use({.rdma = *rdma_, .tcp = *tcp_, .pools = {records_.pool(), chunks_.pool()}});
    return {};
  }

  const Relay::Role role_;
  // In this order: drivers end before their handler; regions before the device.
  std::unique_ptr<Ganesha> ganesha_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<rdma::Driver> rdma_;
  PieceMemory records_, chunks_;
  std::unique_ptr<tcp::Driver> tcp_;
};

int run(Relay::Role role, const service::DaemonKind& kind, const Settings& settings, int argc,
        char** argv) {
  NfsService service(role);
  return service::run_daemon(
      kind, argc, argv, [&](service::Daemon& daemon) { return service.open(settings, daemon); });
}

}  // namespace

int run_nfs_serve(int argc, char** argv) {
  Settings settings{.listen = "::", .to = "127.0.0.1"};
  const service::Setting known[] = {
      {"listen", "ADDRESS", "", "where clients connect, with a port or 20049 (default: the node's)",
       &settings.listen},
      {"to", "ADDRESS", "", "the NFS server, with a port or 2049 (default: 127.0.0.1)",
       &settings.to},
      {"folder", "FOLDER", "", "instead of a server: a folder, which nfs-ganesha serves",
       &settings.folder}};
  return run(Relay::Role::server,
             {.program = "verbatim-ulpd nfs-serve",
              .kind = "nfs-serve",
              .summary = "NFS over RDMA for clients, in front of an NFS server that speaks TCP",
              .settings = known},
             settings, argc, argv);
}

int run_nfs_client(int argc, char** argv) {
  Settings settings{.listen = "127.0.0.1", .to = {}};
  const service::Setting known[] = {
      {"listen", "ADDRESS", "", "where clients connect, with a port or 2049 (default: 127.0.0.1)",
       &settings.listen},
      {"to", "ADDRESS", "", "the NFS server, which speaks RDMA, with a port or 20049",
       &settings.to}};
  return run(Relay::Role::client,
             {.program = "verbatim-ulpd nfs-client",
              .kind = "nfs-client",
              .summary = "an NFS server that speaks RDMA, for clients that speak TCP",
              .settings = known},
             settings, argc, argv);
}

}  // namespace verbatim::ulp::rpcrdma
