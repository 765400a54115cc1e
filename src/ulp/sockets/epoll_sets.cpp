#include "ulp/sockets/epoll_sets.h"

#include <atomic>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <pthread.h>

namespace verbatim::ulp::sockets {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<EpollSet>> sets;
};

/// Never destroyed: threads may use it while the process exits. A child begins with an empty one.
std::atomic<Table*> the_table = nullptr;
/// Most calls of most programs concern no set.
std::atomic<int> count = 0;

void in_child() {
  the_table = new Table;
  count = 0;
}

Table& table() {
  static const bool made = [] {
    the_table = new Table;
    return pthread_atfork(nullptr, nullptr, in_child) == 0;
  }();
  static_cast<void>(made);
  return *the_table;
}

std::vector<std::shared_ptr<EpollSet>> all() {
  std::vector<std::shared_ptr<EpollSet>> result;
  if (count == 0) return result;
  const std::lock_guard lock(table().mutex);
  for (const auto& [number, set] : table().sets) result.push_back(set);
  return result;
}

}  // namespace

std::shared_ptr<EpollSet> find_set(int program) {
  if (count == 0) return nullptr;
  const std::lock_guard lock(table().mutex);
  const auto found = table().sets.find(program);
  return found == table().sets.end() ? nullptr : found->second;
}

std::shared_ptr<EpollSet> find_or_make_set(int program) {
  if (auto found = find_set(program)) return found;
  auto made = EpollSet::make(program);
  if (!made) return nullptr;
  const std::lock_guard lock(table().mutex);
  auto& entry = table().sets[program];
  if (entry) return entry;  // Another thread was faster; ours takes itself out.
  ++count;
  return entry = std::move(made);
}

void drop_set(int program) {
  if (count == 0) return;
  std::shared_ptr<EpollSet> dropped;  // Destroyed without the lock.
  const std::lock_guard lock(table().mutex);
  const auto found = table().sets.find(program);
  if (found == table().sets.end()) return;
  dropped = std::move(found->second);
  table().sets.erase(found);
  --count;
}

void duplicate_set(int program, int number) {
  auto set = find_set(program);
  if (!set) return;
  const std::lock_guard lock(table().mutex);
  if (table().sets.insert_or_assign(number, std::move(set)).second) ++count;
}

void close_in_sets(int fd) {
  for (const auto& set : all()) set->close(fd);
}

void forget_in_sets(const Source& source) {
  for (const auto& set : all()) set->forget(source);
}

}  // namespace verbatim::ulp::sockets
