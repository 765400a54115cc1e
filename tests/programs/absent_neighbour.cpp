/// Creates address handles over RoCE v1 (GID index 2): `absent_neighbour ABSENT PRESENT`, two IPv4
/// addresses. No node has the first: EHOSTUNREACH. The second is created meanwhile. Prints which
/// came first, and exits with status 0 if all was so.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

namespace {

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "absent_neighbour: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

ibv_ah* handle_to(ibv_pd* pd, const char* address) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 2;
  attr.grh.hop_limit = 1;
  attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
  if (inet_pton(AF_INET, address, &attr.grh.dgid.raw[12]) != 1) die(address);
  return ibv_create_ah(pd, &attr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: absent_neighbour ABSENT PRESENT\n"), 2;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ibv_context* const context =
      devices != nullptr && devices[0] != nullptr ? ibv_open_device(devices[0]) : nullptr;
  ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  if (pd == nullptr) die("no device");
  std::thread waiting([&] {
    if (handle_to(pd, argv[1]) != nullptr || errno != EHOSTUNREACH) die(argv[1]);
    std::puts("nobody answers");
  });
  ibv_ah* const handle = handle_to(pd, argv[2]);
  if (handle == nullptr) die(argv[2]);
  std::puts("a handle is made");
  waiting.join();
  ibv_destroy_ah(handle);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
}
