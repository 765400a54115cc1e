#include <cstdio>

#include <fcntl.h>
#include <infiniband/verbs.h>

/// `domain_opener FILE` opens the XRC domain of a file.
int main(int argc, char** argv) {
  const int file = argc == 2 ? open(argv[1], O_RDONLY | O_CREAT, 0600) : -1;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ibv_context* const context = devices != nullptr ? ibv_open_device(devices[0]) : nullptr;
  ibv_xrcd_init_attr wanted{};
  wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  wanted.fd = file;
  wanted.oflags = O_CREAT;
  if (file < 0 || context == nullptr || ibv_open_xrcd(context, &wanted) == nullptr) {
    std::perror("domain_opener");
    return 1;
  }
  return 0;
}
