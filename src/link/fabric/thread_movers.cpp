#include "link/fabric/thread_movers.h"

#include <atomic>
#include <utility>
#include <vector>

#include <pthread.h>

#include "base/log.h"

namespace verbatim::link {
namespace {

struct OfFabric {
  std::shared_ptr<AttachedFabric> fabric;  // Outlives the mover.
  std::unique_ptr<fabric::Mover> mover;
};
using OfThread = std::vector<OfFabric>;

/// A key, not a `thread_local`: a library that programs load late has little static space for
/// these.
pthread_key_t key() {
  static const pthread_key_t made = [] {
    pthread_key_t key{};
    pthread_key_create(&key, [](void* of_thread) { delete static_cast<OfThread*>(of_thread); });
    return key;
  }();
  return made;
}

fabric::Mover* join(OfThread& of_thread, const std::shared_ptr<AttachedFabric>& fabric) {
  static std::atomic<bool> is_logged{false};
  auto mover = fabric->fabric->join(fabric->end);
  if (!mover) {
    if (!is_logged.exchange(true)) log(LogLevel::error, "{}", mover.error().text);
    return nullptr;
  }
  // A fabric that nobody else has is that of a link which has ended.
  std::erase_if(of_thread, [](const OfFabric& entry) { return entry.fabric.use_count() == 1; });
  of_thread.push_back({fabric, std::move(*mover)});
  return of_thread.back().mover.get();
}

}  // namespace

fabric::Mover* mover_of_this_thread(const std::shared_ptr<AttachedFabric>& fabric) {
  auto* of_thread = static_cast<OfThread*>(pthread_getspecific(key()));
  if (of_thread == nullptr) {
    of_thread = new OfThread;
    pthread_setspecific(key(), of_thread);
  }
  for (const OfFabric& entry : *of_thread) {
    if (entry.fabric == fabric) return entry.mover.get();
  }
  return join(*of_thread, fabric);
}

}  // namespace verbatim::link
