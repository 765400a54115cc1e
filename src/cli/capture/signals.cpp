#include "cli/capture/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace verbatim::cli {

Result<Signals> Signals::take() {
  sigset_t taken, before;
  sigemptyset(&taken);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&taken, number);
  sigprocmask(SIG_BLOCK, &taken, &before);
  signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return refuse_errno("signalfd");
  return Signals(std::move(fd), before);
}

int Signals::next() {
  signalfd_siginfo info{};
  return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

void Signals::restore() const {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

}  // namespace verbatim::cli
