#include "ulp/sockets/epoll_set.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::ulp::sockets {
namespace {

/// A wait that finds no source ready spins as long before it sleeps, as rsockets do.
constexpr TimeNs kSpin = 10 * kMicrosecond;
/// Then it gives the processor away as often: to be woken costs the peer a system call for each
/// source that it has news for, and this process two.
constexpr int kYields = 4;
/// While sources are ready, the kernel's descriptors are looked at every so many waits.
constexpr unsigned kWaitsBetweenLooks = 8;
/// Bounds a sleep: another thread's call on a source may have taken the event that ends it.
constexpr TimeNs kLongestSleepMs = 100;
constexpr std::uint32_t kOptions = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE;
/// Looks without news after which a source becomes cold.
constexpr unsigned kIdleLooks = 64;
/// The name of `kick_` in the inner set.
constexpr int kKick = -1;

// A preloaded library replaces epoll's functions, so the system calls are made directly.
int control(int set, int operation, int fd, epoll_event event) {
  return static_cast<int>(syscall(SYS_epoll_ctl, set, operation, fd, &event));
}
int look_now(int set, std::span<epoll_event> events) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait, set, events.data(), static_cast<int>(events.size()), 0, nullptr, 8));
}

}  // namespace

std::shared_ptr<EpollSet> EpollSet::make(int program) {
  std::shared_ptr<EpollSet> set(new EpollSet(program));
  set->rebuild();
  if (!set->inner_ || !set->kick_) return nullptr;
  // The set's address tells our descriptor from the program's: it has no such data of its own.
  if (control(program, EPOLL_CTL_ADD, set->inner_.get(),
              {.events = EPOLLIN, .data = {.ptr = set.get()}}) != 0) {
    return nullptr;
  }
  return set;
}

/// Makes the inner set anew. The kernel keeps a closed number's entry as long as its file is open
/// under another number, and nobody can remove it then.
void EpollSet::rebuild() {
  if (!kick_) kick_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const bool again = static_cast<bool>(inner_);
  // Not by closing it alone: a child may have it.
  if (again) control(program_, EPOLL_CTL_DEL, inner_.get(), {});
  inner_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!inner_ || !kick_) return;
  control(inner_.get(), EPOLL_CTL_ADD, kick_.get(), {.events = EPOLLIN, .data = {.fd = kKick}});
  parked_.clear();
  for (const Item& item : items_) watch(item);
  if (!again) return;
  control(program_, EPOLL_CTL_ADD, inner_.get(), {.events = EPOLLIN, .data = {.ptr = this}});
}

void EpollSet::watch(const Item& item) {
  control(inner_.get(), EPOLL_CTL_ADD, item.source->handle(),
          {.events = EPOLLIN, .data = {.fd = item.fd}});
}

void EpollSet::unwatch(const Source& source) {
  control(inner_.get(), EPOLL_CTL_DEL, source.handle(), {});
}

bool EpollSet::unpark(int fd, const Source* source) {
  const auto found = parked_.find(fd);
  if (found == parked_.end()) return false;
  const bool is_same = found->second.get() == source;
  if (!is_same) unwatch(*found->second);
  parked_.erase(found);
  return is_same;
}

void EpollSet::kick() {
  if (sleepers_ > 0) eventfd_write(kick_.get(), 1);
}

EpollSet::Item* EpollSet::find(int fd) {
  const auto found = places_.find(fd);
  return found == places_.end() ? nullptr : &items_[found->second];
}

bool EpollSet::has(int fd) {
  const std::lock_guard lock(mutex_);
  return find(fd) != nullptr;
}

int EpollSet::add(int fd, std::shared_ptr<Source> source, const epoll_event& event) {
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(fd); found != places_.end()) {
    if (items_[found->second].source == source) return EEXIST;
    erase(found->second);  // The number was another file's, which is open under another one.
  }
  const bool is_watched = unpark(fd, source.get());
  places_[fd] = items_.size();
  items_.push_back({.fd = fd, .event = event, .source = std::move(source)});
  if (!is_watched) watch(items_.back());
  kick();
  if (!std::exchange(has_begun_, true)) --sleepers_;
  return 0;
}

int EpollSet::modify(int fd, const epoll_event& event) {
  const std::lock_guard lock(mutex_);
  Item* const item = find(fd);
  if (item == nullptr) return ENOENT;
  item->event = event;
  item->changed = item->hot = true;
  item->disabled = false;
  kick();
  return 0;
}

int EpollSet::remove(int fd) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(fd);
  if (found == places_.end()) return ENOENT;
  parked_[fd] = items_[found->second].source;
  take_out(found->second);
  return 0;
}

void EpollSet::close(int fd) {
  const std::lock_guard lock(mutex_);
  unpark(fd, nullptr);
  if (const auto found = places_.find(fd); found != places_.end()) erase(found->second);
}

void EpollSet::erase(std::size_t at) {
  unwatch(*items_[at].source);
  take_out(at);
}

void EpollSet::take_out(std::size_t at) {
  places_.erase(items_[at].fd);
  if (at + 1 != items_.size()) {
    items_[at] = std::move(items_.back());
    places_[items_[at].fd] = at;
  }
  items_.pop_back();
}

bool EpollSet::succeed(Item& item) {
  auto next = item.source->successor();
  if (!next) return false;
  unwatch(*item.source);
  item.source = std::move(*next);
  item.changed = item.hot = true;
  if (item.source != nullptr) {
    watch(item);
    return true;
  }
  places_.erase(item.fd);
  has_replaced_ = true;  // Erased by the next wait: the caller goes through the items.
  control(program_, EPOLL_CTL_ADD, item.fd, item.event);
  return true;
}

void EpollSet::forget(const Source& source) {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = items_.size(); at-- > 0;) {
    if (items_[at].source.get() == &source) erase(at);
  }
  if (std::erase_if(parked_, [&](const auto& it) { return it.second.get() == &source; }) > 0) {
    unwatch(source);
  }
}

/// Erases the items that have become the kernel's.
void EpollSet::drop_replaced() {
  if (!std::exchange(has_replaced_, false)) return;
  std::erase_if(items_, [](const Item& item) { return item.source == nullptr; });
  for (std::size_t at = 0; at < items_.size(); ++at) places_[items_[at].fd] = at;
}

/// Says whether the program must hear of the source now, and what. A source without news becomes
/// cold after some looks, even if others keep the program awake.
bool EpollSet::report(Item& item, epoll_event& event) {
  if (item.disabled) return item.hot = false;
  if (succeed(item) && item.source == nullptr) return false;
  Source* const source = item.source.get();
  const short found = source->look(static_cast<short>(item.event.events & ~kOptions));
  const std::uint32_t edges = source->edges();
  const bool is_new = std::exchange(item.changed, false) || item.edges != edges;
  item.edges = edges;
  if (found == 0 || ((item.event.events & EPOLLET) != 0 && !is_new)) {
    if (++item.idle_looks == kIdleLooks) source->arm();
    if (item.idle_looks > kIdleLooks) item.hot = !source->armed();
    return false;
  }
  item.idle_looks = 0;
  item.disabled = (item.event.events & EPOLLONESHOT) != 0;
  event = {.events = static_cast<std::uint16_t>(found), .data = item.event.data};
  return true;
}

/// Reports sources that are ready, in turn if there are more than fit, in the order in which they
/// became ready.
int EpollSet::sweep(std::span<epoll_event> events) {
  found_.clear();
  if (next_ >= items_.size()) next_ = 0;
  const std::size_t size = items_.size();
  for (std::size_t step = 0; step < size && found_.size() < events.size(); ++step) {
    Item& item = items_[next_];
    next_ = next_ + 1 == size ? 0 : next_ + 1;
    if (item.source == nullptr) continue;
    if (!item.hot && item.source->edges() == item.edges) continue;
    if (!std::exchange(item.hot, true)) item.idle_looks = 0;
    epoll_event event{};
    if (report(item, event)) found_.push_back({item.source->came_at(), event});
  }
  if (found_.size() > 1) std::ranges::sort(found_, {}, &Found::at);
  std::ranges::transform(found_, events.begin(), &Found::event);
  return static_cast<int>(found_.size());
}

/// Whether it pays to look again before the wait sleeps.
bool EpollSet::has_quick() const {
  return std::ranges::any_of(items_, [](const Item& item) {
    return item.hot && item.source != nullptr && item.source->may_be_quick();
  });
}

/// Asks all hot sources for an event. Returns false if there is none.
bool EpollSet::arm() {
  bool any = false;
  for (const Item& item : items_) {
    if (!item.hot || item.source == nullptr) continue;
    item.source->arm();
    any = true;
  }
  return any;
}

/// After `arm` and one more look: what is still armed is cold. Returns false if a source has had an
/// event meanwhile.
bool EpollSet::all_cold() {
  bool all = true;
  for (Item& item : items_) {
    if (!item.hot || item.source == nullptr) continue;
    item.hot = !item.source->armed();
    if (item.hot) all = false;
  }
  return all;
}

/// The handles that are readable become hot.
void EpollSet::take_fired() {
  std::array<epoll_event, 64> fired;
  const int count = look_now(inner_.get(), fired);
  bool unknown = false;
  for (int i = 0; i < count; ++i) {
    if (fired[i].data.fd == kKick) {
      eventfd_t ignored = 0;
      eventfd_read(kick_.get(), &ignored);
      continue;
    }
    Item* const item = find(fired[i].data.fd);
    if (item == nullptr || item->source == nullptr) {
      if (parked_.contains(fired[i].data.fd)) {
        unpark(fired[i].data.fd, nullptr);
      } else {
        unknown = true;
      }
      continue;
    }
    item->hot = true;
    item->source->wake();
  }
  if (unknown) rebuild();
}

/// Takes our own entry out of what the kernel has reported; returns how many are left.
int EpollSet::take_own(std::span<epoll_event> events) {
  const auto own = std::ranges::find_if(
      events, [this](const epoll_event& event) { return event.data.ptr == this; });
  if (own == events.end()) return static_cast<int>(events.size());
  *own = events.back();
  take_fired();
  return static_cast<int>(events.size()) - 1;
}

int EpollSet::others(std::span<epoll_event> events) {
  const std::lock_guard lock(mutex_);
  return take_own(events);
}

int EpollSet::look_at_kernel(std::span<epoll_event> events) {
  waits_without_kernel_ = 0;
  const int count = look_now(program_, events);
  return count <= 0 ? count : take_own(events.first(static_cast<std::size_t>(count)));
}

/// Looks at sources, and at the kernel's descriptors if it is their turn or nothing else is ready.
int EpollSet::look(std::span<epoll_event> events, bool surely_at_kernel) {
  int count = 0;
  if (surely_at_kernel || ++waits_without_kernel_ >= kWaitsBetweenLooks) {
    count = look_at_kernel(events);
    if (count < 0) return count;
  }
  return count + sweep(events.subspan(static_cast<std::size_t>(count)));
}

/// Sleeps until the kernel reports something; then as `look`.
int EpollSet::sleep(std::unique_lock<std::mutex>& lock, std::span<epoll_event> events,
                    int timeout_ms, const sigset_t* mask, Sleep* in_kernel) {
  ++sleepers_;
  const auto resume = [&](void*) {
    lock.lock();
    --sleepers_;
  };
  int count = 0;
  {
    // Also if the thread is cancelled.
    const std::unique_ptr<void, decltype(resume)> resumed(this, resume);
    lock.unlock();
    count = in_kernel(program_, events.data(), static_cast<int>(events.size()), timeout_ms, mask);
  }
  if (count <= 0) return count;
  count = take_own(events.first(static_cast<std::size_t>(count)));
  return count + sweep(events.subspan(static_cast<std::size_t>(count)));
}

int EpollSet::wait(std::span<epoll_event> events, int timeout_ms, const sigset_t* mask,
                   Sleep* in_kernel) {
  std::unique_lock lock(mutex_);
  drop_replaced();
  if (const int count = look(events, false); count != 0) return count;
  if (const int count = look(events, true); count != 0 || timeout_ms == 0) return count;
  const TimeNs begin = monotonic_now();
  const TimeNs end = timeout_ms < 0 ? kNever : begin + TimeNs(timeout_ms) * kMillisecond;
  TimeNs spin_until = begin + kSpin;
  int yields = kYields;
  for (;;) {
    const TimeNs now = monotonic_now();
    const bool spins = now < spin_until;
    if ((spins || yields > 0) && has_quick()) {
      if (!spins) {
        --yields;
        sched_yield();
      }
      if (const int count = sweep(events); count != 0) return count;
      continue;
    }
    if (arm()) {
      if (const int count = sweep(events); count != 0) return count;
      if (!all_cold()) continue;
    }
    const TimeNs left = std::min(elapsed(now, end), kLongestSleepMs * kMillisecond);
    const int ms = static_cast<int>((left + kMillisecond - 1) / kMillisecond);
    if (const int count = sleep(lock, events, ms, mask, in_kernel); count != 0) return count;
    // Nobody has called: another thread may have taken an event.
    for (Item& item : items_) item.hot = true;
    if (monotonic_now() >= end) return look(events, true);
    spin_until = monotonic_now() + kSpin;
    yields = kYields;
  }
}

}  // namespace verbatim::ulp::sockets
