#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

/// cm_path ADDRESS PORT [TOS]: prints the service level of the path that rdma_cm finds to a peer's
/// port.
namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  check(argc >= 3, "cm_path ADDRESS PORT [TOS]");
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<std::uint16_t>(std::stoi(argv[2])));
  check(inet_pton(AF_INET, argv[1], &peer.sin_addr) == 1, "ADDRESS");
  rdma_cm_id* id = nullptr;  // Without a channel its calls wait.
  check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  if (argc > 3) {
    auto tos = static_cast<std::uint8_t>(std::stoi(argv[3], nullptr, 0));
    check(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) == 0, "TOS");
  }
  check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&peer), 2000) == 0, "address");
  check(rdma_resolve_route(id, 5000) == 0, "route");
  std::printf("%d\n", id->route.path_rec->sl);
  return 0;
}
