#include "ulp/disk/vhost/vhost_user_program.h"

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ulp/disk/disk_options.h"

namespace verbatim::ulp::disk::vhost {
namespace {

Result<void> read_options(int argc, char** argv, DiskOptions& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? "" : word.substr(equals + 1));
    if (key == "socket") {
      options.settings.vhost_user = value;
      continue;
    }
    if (key == "read-only") {
      options.settings.is_read_only = value == "1";
      continue;
    }
    const auto is_known = options.set(key, value);
    if (!is_known) return std::unexpected(is_known.error());
    if (!*is_known) return refuse(EINVAL, fmt::format("'{}' is not known", word));
  }
  if (options.settings.vhost_user.empty()) return refuse(EINVAL, "socket=PATH is missing");
  options.settings.uri = "vhost-user at " + options.settings.vhost_user;
  return options.complete();
}

}  // namespace

int run_vhost_user(int argc, char** argv) {
  // Before other threads begin: they inherit it, and this one waits for them.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&ends, number);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  DiskOptions options;
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "verbatim disk: {}\n", error.text);
    return 1;
  };
  if (const auto read = read_options(argc, argv, options); !read) return fail(read.error());
  const std::string socket = options.settings.vhost_user;
  const auto disk = DiskThread::start(std::move(options.settings));
  if (!disk) return fail(disk.error());
  fmt::print(
      "-object memory-backend-memfd,id=m,size=SIZE,share=on -machine memory-backend=m "
      "-chardev socket,id=c,path={},reconnect=1 -device "
      "vhost-user-blk-pci,chardev=c,num-queues=1\n",
      socket);
  std::fflush(stdout);
  int number = 0;
  sigwait(&ends, &number);
  return 0;
}

}  // namespace verbatim::ulp::disk::vhost
