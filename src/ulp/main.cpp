// verbatim-ulpd: the daemons of upper-layer protocols. The first word says which.
#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "ulp/disk/vhost/vhost_user_program.h"
#include "ulp/initiator/initiator_service.h"
#include "ulp/ipoib/driver/ipoib_service.h"
#include "ulp/lnet/driver/lnet_service.h"
#include "ulp/rds/driver/rds_service.h"
#include "ulp/rpcrdma/gateway/doorkeeper.h"
#include "ulp/rpcrdma/gateway/nfs_service.h"
#include "ulp/target/target_service.h"

namespace {

struct Kind {
  std::string_view name;
  const char* summary;
  int (*run)(int argc, char** argv);
};
constexpr Kind kKinds[] = {
    {"initiator", "logins of a node's programs to storage targets",
     verbatim::ulp::initiator::run_initiator},
    {"ipoib", "an interface of IP over InfiniBand", verbatim::ulp::ipoib::run_ipoib},
    {"lnet", "a node of Lustre's network", verbatim::ulp::lnet::run_lnet},
    {"nfs-client", "an NFS server that speaks RDMA, for clients that speak TCP",
     verbatim::ulp::rpcrdma::run_nfs_client},
    {"nfs-serve", "NFS over RDMA, in front of an NFS server that speaks TCP",
     verbatim::ulp::rpcrdma::run_nfs_serve},
    {"rds", "the broker of a node's RDS sockets", verbatim::ulp::rds::run_rds},
    {"target", "serves disks to hosts of storage protocols", verbatim::ulp::target::run_target},
};

void print_help() {
  fmt::print(
      "verbatim-ulpd: the daemons of upper-layer protocols\n\n"
      "usage: verbatim-ulpd KIND [OPTION]...\n");
  for (const Kind& kind : kKinds) fmt::print("  {:<20}  {}\n", kind.name, kind.summary);
  fmt::print("  {:<20}  \n\n'verbatim-ulpd KIND --help' tells more about each.\n",
             "--help, --version");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--help") return print_help(), 0;
  if (word == "--version") return fmt::print("verbatim-ulpd {}\n", VERBATIM_VERSION), 0;
  const auto kind = std::ranges::find(kKinds, word, &Kind::name);
  // No daemons: what `verbatim disk` becomes, and a part of nfs-serve's.
  if (word == "vhost-user") return verbatim::ulp::disk::vhost::run_vhost_user(argc - 1, argv + 1);
  if (word == "nfs-doorkeeper")
    return verbatim::ulp::rpcrdma::run_nfs_doorkeeper(argc - 1, argv + 1);
  if (kind != std::end(kKinds)) return kind->run(argc - 1, argv + 1);
  fmt::print(stderr, "verbatim-ulpd: which kind of daemon is '{}'? See verbatim-ulpd --help\n",
             word);
  return 2;
}
