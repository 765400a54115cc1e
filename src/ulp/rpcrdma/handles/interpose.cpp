// libverbatim-handles.so: see README.md.
#include <cerrno>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>

#include "ulp/rpcrdma/handles/handle_table.h"

namespace {

using verbatim::ulp::rpcrdma::HandleTable;
using verbatim::ulp::rpcrdma::key_of;

/// Lives until the process has ended: other threads may still call when statics are destroyed.
HandleTable& table() {
  static HandleTable& the_table = *[] {
    const char* const exported = getenv("HANDLES_FOLDER");
    return new HandleTable(exported == nullptr ? "/" : exported);
  }();
  return the_table;
}

template <typename Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int name_to_handle_at(int at, const char* name, file_handle* handle,
                                                     int* mount, int flags) noexcept {
  static auto* const real = next<decltype(name_to_handle_at)>("name_to_handle_at");
  const int done = real(at, name, handle, mount, flags);
  const int error = errno;
  if (done == 0) table().add(key_of(*handle), at, name);
  errno = error;
  return done;
}

[[gnu::visibility("default")]] int open_by_handle_at(int mount, file_handle* handle, int flags) {
  static auto* const real = next<decltype(open_by_handle_at)>("open_by_handle_at");
  // As the kernel, but before EPERM: `key_of` reads so many.
  if (handle->handle_bytes > MAX_HANDLE_SZ) return errno = EINVAL, -1;
  const int fd = real(mount, handle, flags);
  return fd >= 0 || errno != EPERM ? fd : table().open(key_of(*handle), flags);
}

/// Its handle stays: the next call must not look for it.
[[gnu::visibility("default")]] int renameat(int from, const char* name, int to,
                                            const char* new_name) noexcept {
  static auto* const real = next<decltype(renameat)>("renameat");
  const int done = real(from, name, to, new_name);
  const int error = errno;
  if (done == 0) table().add(key_of(to, new_name), to, new_name);
  errno = error;
  return done;
}

[[gnu::visibility("default")]] void* dlopen(const char* file, int mode) noexcept {
  static auto* const real = next<decltype(dlopen)>("dlopen");
  return real(file, mode & ~RTLD_DEEPBIND);
}

[[gnu::visibility("default")]] int getaddrinfo(const char* node, const char* service,
                                               const addrinfo* hints, addrinfo** result) {
  static auto* const real = next<decltype(getaddrinfo)>("getaddrinfo");
  if (hints == nullptr) return real(node, service, hints, result);
  addrinfo all = *hints;
  all.ai_flags &= ~AI_ADDRCONFIG;
  return real(node, service, &all, result);
}
}
