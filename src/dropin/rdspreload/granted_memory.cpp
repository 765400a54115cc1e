#include "dropin/rdspreload/granted_memory.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <pthread.h>

#include "base/os/page.h"
#include "region/adoption/memory_file.h"
#include "ulp/rds/local/client.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

struct Granted {
  region::PageRange pages;
  bool is_once = false;
};

/// Of this process, not of its children. Never destroyed: others' threads may run until the end.
struct Memory {
  std::mutex lock;
  region::MemoryFile* file = nullptr;
  std::map<std::uint32_t, Granted> granted;
};
Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

int fail(int error) {
  errno = error;
  return -1;
}

void before_fork() {
  memory().lock.lock();
  if (memory().file != nullptr) memory().file->before_fork();
}
void in_parent() {
  if (memory().file != nullptr) memory().file->in_parent();
  memory().lock.unlock();
}
void in_child() {
  if (memory().file != nullptr) memory().file->in_child();
  memory().file = nullptr;  // Its pages are copies now, and the keys are the parent's.
  memory().granted.clear();
  memory().lock.unlock();
}

region::MemoryFile* file() {
  Memory& all = memory();
  if (all.file != nullptr) return all.file;
  auto created = region::MemoryFile::create();
  if (!created) return nullptr;
  static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  return all.file = created->release();
}

region::PageRange pages_of(const RdsIovec& memory) {
  const std::uint64_t page = page_bytes();
  return {memory.address / page * page, (memory.address + memory.bytes + page - 1) / page * page};
}

/// Linux's own checks, and its bound.
int check(const RdsIovec& memory) {
  constexpr std::uint64_t kMost = 1 << 20;
  if (memory.bytes == 0 || memory.address + memory.bytes - 1 < memory.address) return EINVAL;
  if (memory.bytes > kMost) return EMSGSIZE;
  return 0;
}

int ask(int fd, const GetMemory& asked, local::Answer& answer) {
  const local::Grant grant{.offset = asked.memory.address,
                           .bytes = asked.memory.bytes,
                           .is_written = (asked.flags & kReadWrite) != 0,
                           .is_once = (asked.flags & kUseOnce) != 0};
  const local::Head question{.ask = local::Ask::grant, .bytes = sizeof grant};
  return local::ask(fd, question, &grant, answer, nullptr, 0, nullptr, file()->fd()) < 0 ? -1 : 0;
}

/// Requires the lock.
void take_back(std::map<std::uint32_t, Granted>::iterator one) {
  memory().file->release(one->second.pages);
  memory().granted.erase(one);
}

}  // namespace

int grant(int fd, const GetMemory& asked, std::uint64_t& cookie) {
  if (const int error = check(asked.memory); error != 0) return fail(error);
  const std::lock_guard held(memory().lock);
  if (file() == nullptr) return fail(ENOMEM);
  const region::PageRange pages = pages_of(asked.memory);
  const std::uint64_t moved = file()->adopt(pages);
  if (moved < pages.length()) {
    file()->release({pages.begin, pages.begin + moved});
    std::fprintf(stderr,
                 "verbatim: peers cannot have the memory at %#llx, %llu bytes: it is no plain "
                 "private memory (RDS_GET_MR: EBUSY)\n",
                 static_cast<unsigned long long>(asked.memory.address),
                 static_cast<unsigned long long>(asked.memory.bytes));
    return fail(EBUSY);
  }
  local::Answer answer;
  if (ask(fd, asked, answer) < 0) {
    const int error = errno;
    file()->release(pages);
    return fail(error);
  }
  cookie = answer.value;
  memory().granted[static_cast<std::uint32_t>(cookie)] = {pages, (asked.flags & kUseOnce) != 0};
  if (asked.cookie_address != 0) {
    std::memcpy(reinterpret_cast<void*>(asked.cookie_address), &cookie, sizeof cookie);  // NOLINT
  }
  return 0;
}

int end_grant(int fd, std::uint64_t cookie) {
  if (cookie == 0) return 0;  // Linux: what was freed is unmapped now. Here it is already.
  local::Answer answer;
  const local::Head question{.ask = local::Ask::end_grant, .value = cookie};
  if (local::ask(fd, question, nullptr, answer) < 0) return -1;
  const std::lock_guard held(memory().lock);
  const auto found = memory().granted.find(static_cast<std::uint32_t>(cookie));
  if (found != memory().granted.end()) take_back(found);
  return 0;
}

void on_used(std::uint32_t key) {
  const std::lock_guard held(memory().lock);
  const auto found = memory().granted.find(key);
  if (found != memory().granted.end() && found->second.is_once) take_back(found);
}

void end_all_grants() {
  const std::lock_guard held(memory().lock);
  while (!memory().granted.empty()) take_back(memory().granted.begin());
}

}  // namespace verbatim::rdspreload
