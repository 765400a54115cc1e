#include "base/os/thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace verbatim {

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started;
  try {
    started = std::thread(std::move(body));
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
