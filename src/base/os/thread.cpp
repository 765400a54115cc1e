#include "base/os/thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/mman.h>

namespace verbatim {
namespace {

/// A card reads and writes memory whatever its protection key (pkeys(7)). A thread may use those
/// that its maker could use then, and none that is allocated later. Who gets no key has no such
/// processor; or the program has all of them already, and then this cannot be told.
void allow_all_protection_keys() {
  constexpr int kKeys = 16;
  const int own = pkey_alloc(0, 0);
  if (own < 0) return;
  for (int key = 0; key < kKeys; ++key) pkey_set(key, 0);
  pkey_free(own);
}

}  // namespace

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started;
  try {
    started = std::thread([body = std::move(body)] {
      allow_all_protection_keys();
      body();
    });
    pthread_setname_np(started->native_handle(), name);
  } catch (const std::system_error& error) {
    started = refuse(error.code().value(), std::string("no thread can be started (ulimit -u, or a "
                                                       "limit of the container's tasks): ") +
                                               std::strerror(error.code().value()));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace verbatim
