#include <cstdio>
#include <cstring>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/// Runs with libverbatim-view.so preloaded. From the beginning of `main` its calls look for no
/// function: the loader's lock may be held, in a forked child for ever. This program's own `dlsym`
/// stands before the loader's.
namespace {

int searches = 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void*, const char* name) noexcept {
  ++searches;
  static void* const c_library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  // The first versions of the C library on x86-64 and on aarch64.
  void* const of_x86 = dlvsym(c_library, name, "GLIBC_2.2.5");
  return of_x86 != nullptr ? of_x86 : dlvsym(c_library, name, "GLIBC_2.17");
}

int main() {
  const int before = searches;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  char byte = 0;
  const int on = 1;
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool works = bind(fd, name, length) == 0 && getsockname(fd, name, &length) == 0 &&
                     sendto(fd, &byte, 1, 0, name, length) == 1 &&
                     recvfrom(fd, &byte, 1, 0, name, &length) == 1 && access("/", F_OK) == 0 &&
                     close(open("/dev/null", O_RDONLY | O_CLOEXEC)) == 0;
  std::printf("%d searches before main, %d since; the calls %s\n", before, searches - before,
              works ? "work" : "fail");
  return works && before > 0 && searches == before ? 0 : 1;
}
