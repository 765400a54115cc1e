#include "dropin/rdspreload/fd_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/process_token.h"
#include "dropin/rdspreload/next.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

std::array<std::atomic<std::uint8_t>, kNumbers> table;
std::atomic<const local::SharedPage*> page;

/// Sockets that were there before exec.
void find_inherited() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && local::is_socket(fd, broker_path())) set_known(fd, kIsRds);
  }
  closedir(folder);
}

__attribute__((constructor)) void begin() {
  local::Calls& calls = local::calls();
  calls.socket = VERBATIM_NEXT(socket);
  calls.connect = VERBATIM_NEXT(connect);
  calls.sendmsg = VERBATIM_NEXT(sendmsg);
  calls.recvmsg = VERBATIM_NEXT(recvmsg);
  calls.close = VERBATIM_NEXT(close);
  calls.fcntl = next<int(int, int, ...)>("fcntl");
  pthread_atfork(nullptr, nullptr, [] { renew_own_process_token(); });
  if (!broker_path().empty()) find_inherited();
}

bool is_number(int fd) { return fd >= 0 && fd < kNumbers; }

}  // namespace

const std::string& broker_path() {
  static const std::string path = [] {
    const char* const value = getenv("VERBATIM_RDS");
    return std::string(value == nullptr ? "" : value);
  }();
  return path;
}

std::uint8_t known_of(int fd) {
  if (!is_number(fd)) return 0;
  return table[static_cast<std::size_t>(fd)].load(std::memory_order_relaxed);
}

bool has_any() {
  return std::ranges::any_of(
      table, [](const auto& one) { return (one.load(std::memory_order_relaxed) & kIsRds) != 0; });
}

bool set_known(int fd, std::uint8_t known) {
  if (is_number(fd)) table[static_cast<std::size_t>(fd)].store(known, std::memory_order_relaxed);
  return is_number(fd);
}

void add_known(int fd, Known known) {
  if (is_number(fd)) table[static_cast<std::size_t>(fd)].fetch_or(known);
}

namespace {

const local::SharedPage* known_page(int fd) {
  const local::SharedPage* known = page.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  // Two threads may map it: the second one's stays mapped, too.
  known = local::open_page(fd);
  if (known != nullptr) page.store(known, std::memory_order_release);
  return known;
}

}  // namespace

bool may_be_congested(int fd) {
  const local::SharedPage* const known = known_page(fd);
  return known == nullptr || known->is_congested.load(std::memory_order_relaxed) != 0;
}

bool may_go_straight(int fd) {
  const local::SharedPage* const known = known_page(fd);
  return known != nullptr && known->is_shared.load(std::memory_order_relaxed) != 0;
}

}  // namespace verbatim::rdspreload
