// Tests between two hosts that compare every byte. Either side may be any RDMA device, because the
// program uses only libibverbs, and librdmacm to connect over iWARP. One program is the server, the
// other names its host:
//
//   peer_session [-p PORT] [-g GID-INDEX] [HOST [-m SMALLEST-MTU]]
//
// Connections of rdma_cm use the port after PORT.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "tests/peers/session.h"

namespace {

/// Returns the MTU that the client asks for.
ibv_mtu smallest(const peers::ControlConnection& line, bool is_client, int bytes) {
  if (!is_client) return line.receive_value<ibv_mtu>();
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && 128 << mtu < bytes) ++mtu;
  line.send_value(static_cast<ibv_mtu>(mtu));
  return static_cast<ibv_mtu>(mtu);
}

ibv_mtu carried(const peers::Device& device, const peers::ControlConnection& line) {
  ibv_port_attr port{};
  peers::check(ibv_query_port(device.context, 1, &port) == 0, "ibv_query_port");
  line.send_value(port.active_mtu);
  return std::min(port.active_mtu, line.receive_value<ibv_mtu>());
}

peers::Stack told(const peers::ControlConnection& line, peers::Stack own) {
  line.send_value(own);
  return line.receive_value<peers::Stack>();
}

/// From rdma_cm, which connects only queue pairs of its own contexts.
ibv_context* first_context() {
  ibv_context** contexts = rdma_get_devices(nullptr);
  peers::check(contexts != nullptr && contexts[0] != nullptr, "no RDMA device");
  ibv_context* const first = contexts[0];
  rdma_free_devices(contexts);
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = "18600";
  int gid_index = endpoint::kGidIndex;
  int mtu_bytes = 256;
  for (int option; (option = getopt(argc, argv, "p:g:m:")) != -1;) {
    if (option == 'p') port = optarg;
    if (option == 'g') gid_index = std::atoi(optarg);
    if (option == 'm') mtu_bytes = std::atoi(optarg);
    if (option == '?') return 2;
  }
  const bool is_client = optind < argc;
  const char* const host = is_client ? argv[optind] : nullptr;
  ibv_context* const context = first_context();
  const bool is_iwarp = peers::is_iwarp(context);
  peers::Device device(context, 1024, static_cast<std::uint8_t>(is_iwarp ? 0 : gid_index));
  auto connections =
      is_iwarp ? std::make_unique<peers::Connections>(host, std::atoi(port) + 1) : nullptr;
  const peers::ControlConnection line = is_client ? peers::ControlConnection::of_client(host, port)
                                                  : peers::ControlConnection::of_server(port);
  const peers::Session session{device,
                               line,
                               is_client,
                               std::make_unique<peers::Buffer>(device, peers::kBytesMax + 64),
                               smallest(line, is_client, mtu_bytes),
                               carried(device, line),
                               peers::stack_of(context),
                               told(line, peers::stack_of(context)),
                               std::move(connections)};
  run_transfers(session);
  run_streams(session);
  run_windows(session);
  run_errors(session);
  return 0;
}
