#include "ulp/initiator/disk_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/log.h"
#include "service/launch.h"

namespace verbatim::ulp::initiator {

Result<std::unique_ptr<DiskProcess>> DiskProcess::start(service::Loop& loop, const Options& options,
                                                        std::function<void()> on_change) {
  const auto program = service::find_program("verbatim");
  if (!program) return std::unexpected(program.error());
  std::vector<std::string> words{*program, "disk", options.url, "--name", options.name};
  words.insert(words.end(), options.more.begin(), options.more.end());
  std::unique_ptr<DiskProcess> made(new DiskProcess(loop, std::move(on_change)));
  if (auto spawned = made->spawn(std::move(words)); !spawned)
    return std::unexpected(spawned.error());
  return made;
}

Result<void> DiskProcess::spawn(std::vector<std::string> words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return refuse_errno("pipe");
  output_.reset(ends[0]);
  const UniqueFd writing(ends[1]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);  // The loop has blocked the signals that end us.
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int code = posix_spawn(&id_, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) return refuse(code, words[0]);
  process_.reset(static_cast<int>(syscall(SYS_pidfd_open, id_, 0)));
  auto watched =
      loop_.watch(output_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_output(); });
  if (!watched) return watched;
  return loop_.watch(process_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_end(); });
}

DiskProcess::~DiskProcess() {
  if (output_) loop_.unwatch(output_.get());
  if (process_) loop_.unwatch(process_.get());
  stop();
}

void DiskProcess::stop() {
  if (id_ > 0 && !is_over_) kill(id_, SIGTERM);
}

void DiskProcess::on_output() {
  char bytes[1024];
  const bool was_serving = is_serving_;
  ssize_t got = 0;
  while ((got = read(output_.get(), bytes, sizeof bytes)) > 0) {
    line_.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end; (end = line_.find('\n')) != std::string::npos;) {
      on_line(line_.substr(0, end));
      line_.erase(0, end + 1);
    }
    if (line_.size() > sizeof bytes) line_.clear();
  }
  if (got == 0) loop_.change(output_.get(), 0);
  if (!was_serving && is_serving_) on_change_();
}

void DiskProcess::on_line(const std::string& line) {
  is_serving_ |= line.starts_with("nbd+unix://");
  words_ = line;
}

void DiskProcess::on_end() {
  on_output();
  if (std::exchange(is_over_, true)) return;
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG);
  loop_.unwatch(process_.get());
  on_change_();
}

}  // namespace verbatim::ulp::initiator
