#include "adapter/progress/progress.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/log.h"
#include "base/os/thread.h"

namespace verbatim::adapter {
namespace {

/// A program counts as polling for this long after its last poll or post.
constexpr TimeNs kPollingGrace = kMillisecond;
/// Time for which a program that posts, but does not poll, still counts as polling: a hundred
/// requests of 64 KiB take 3 ms.
constexpr TimeNs kPostingGrace = 20 * kMillisecond;
/// A program that has armed a completion queue within this time waits for events: if the background
/// thread were idle, each event would cost a wake-up more.
constexpr TimeNs kEventGrace = kSecond;

/// CPU time used without a poll or post, with unread packets, from which a thread is taken to spin
/// on memory that packets write (`ib_write_lat`). A thread that used less is waiting for a CPU;
/// serving packets for it would take that CPU away.
constexpr TimeNs kNeglect = kMillisecond / 10;
/// After that, the background thread serves packets itself for this long, so that at most one
/// message in this time waits for the end of a 1 ms sleep.
constexpr TimeNs kAttention = 200 * kMillisecond;

/// After this many empty passes, about 20 µs, the thread yields its CPU, for which the peer may be
/// waiting. Otherwise two polling programs on one CPU would exchange one message per time slice.
constexpr std::uint32_t kIdlePassesBeforeYield = 32;

/// After this many empty passes the next ones are this far apart. In between, polls see what peers
/// write to completion queues themselves.
constexpr std::uint32_t kIdlePassesBeforePause = 16;
constexpr TimeNs kPause = kMicrosecond;

/// Before timers are served, the sources are read until they are empty, but a flood does not hold
/// the timers up: more than a socket's buffer holds.
constexpr int kBatchesBeforeTimers = 64;

clockid_t clock_of_this_thread() {
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  pthread_getcpuclockid(pthread_self(), &clock);
  return clock;
}

/// Returns 0 for a thread that has ended.
TimeNs computing_time(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * kSecond + time.tv_nsec;
}

void log_undone(const std::exception& failure) try {
  log(LogLevel::error, "the background thread leaves something undone: {}", failure.what());
} catch (const std::exception&) {
  return;  // There is no memory for the log line, either.
}

/// Exceptions in this thread are not caught elsewhere; they mean that memory is short. An event is
/// reported only once, so its handler is tried this often, a millisecond apart.
template <typename Work>
void do_patiently(const Work& work, int tries = 10) {
  constexpr timespec kBetween{.tv_sec = 0, .tv_nsec = static_cast<long>(kMillisecond)};
  for (; tries > 0; --tries) {
    try {
      return work();
    } catch (const std::exception& failure) {
      log_undone(failure);
    }
    nanosleep(&kBetween, nullptr);
  }
}

}  // namespace

Result<std::unique_ptr<Progress>> Progress::create(const Tasks& tasks, ProgressOptions options) {
  std::unique_ptr<Progress> progress(new Progress(tasks, std::move(options)));
  progress->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  progress->idle_epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  progress->full_epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!progress->wake_ || !progress->idle_epoll_ || !progress->full_epoll_) {
    return refuse(errno, "no descriptors left for the background thread");
  }
  auto timer_fd = TimerFd::create();
  if (!timer_fd) return std::unexpected(timer_fd.error());
  progress->timer_fd_ = std::move(*timer_fd);
  const int quiet = progress->idle_epoll_.get();
  const int full = progress->full_epoll_.get();
  for (const auto& [epoll, fd] : {std::pair{quiet, progress->wake_.get()},
                                  {quiet, progress->timer_fd_.fd()},
                                  {quiet, progress->options_.event_fd},
                                  {full, quiet}}) {
    if (fd < 0) continue;
    if (auto watched = progress->watch(epoll, fd); !watched)
      return std::unexpected(watched.error());
  }
  auto thread = start_thread("verbatim", [self = progress.get()] { self->run(); });
  if (!thread) return std::unexpected(thread.error());
  progress->thread_ = std::move(*thread);
  progress->liveness_begun_.wait();  // Before any peer checks whether this program runs.
  return progress;
}

Progress::~Progress() {
  stop_.store(true, std::memory_order_release);
  wake();
  if (thread_.joinable()) thread_.join();
}

void Progress::add(Source& source) {
  bool has_something = false;
  between_passes([&] {
    sources_.push_back(&source);
    asks_kernel_.store(asks_kernel_.load(std::memory_order_relaxed) || source.asks_kernel(),
                       std::memory_order_relaxed);
    has_something = !source.begin_sleep();  // The background thread may sleep already.
  });
  if (has_something) wake();
}

void Progress::abandon() { thread_.detach(); }

Result<void> Progress::watch(int epoll, int fd, std::uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  if (errno == EEXIST && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) == 0) return {};
  return refuse(errno, "epoll refuses a descriptor");
}

Result<void> Progress::watch(int fd, std::function<void()> on_ready, std::uint32_t events) {
  {
    const std::lock_guard guard(watched_lock_);
    watched_[fd] = std::make_shared<std::function<void()>>(std::move(on_ready));
  }
  return watch(idle_epoll_.get(), fd, events);
}

void Progress::unwatch(int fd) {
  epoll_ctl(idle_epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const std::lock_guard guard(watched_lock_);
  watched_.erase(fd);
}

void Progress::wake() { eventfd_write(wake_.get(), 1); }

TimeNs Progress::last_use(TimeNs now) const {
  if (in_use_.load(std::memory_order_relaxed)) return now;
  return std::max(last_poll_.load(std::memory_order_relaxed),
                  last_post_.load(std::memory_order_relaxed));
}

bool Progress::program_polls(TimeNs now) const {
  if (attention_.is_given()) return false;
  return elapsed(last_use(now), now) < kPollingGrace &&
         elapsed(last_poll_.load(std::memory_order_relaxed), now) < kPostingGrace &&
         elapsed(last_event_use_.load(std::memory_order_relaxed), now) > kEventGrace &&
         now >= serve_until_;
}

Progress::ProgramCall::ProgramCall(Progress& progress, std::atomic<TimeNs>& last, TimeNs now)
    : progress_(progress) {
  static thread_local const clockid_t own = clock_of_this_thread();
  last.store(now, std::memory_order_relaxed);
  if (progress_.user_clock_.load(std::memory_order_relaxed) != own) {
    progress_.user_clock_.store(own, std::memory_order_relaxed);
  }
  progress_.in_use_.store(true, std::memory_order_relaxed);
}

bool Progress::leaves_packets_unread() {
  const ProgramActivity before = activity_;
  activity_ = {last_use(monotonic_now()),
               computing_time(user_clock_.load(std::memory_order_relaxed))};
  if (activity_.last_use != before.last_use) return false;
  return activity_.computed - before.computed > kNeglect && packets_wait();
}

bool Progress::packets_wait() {
  if (!begin_sleep()) return true;
  std::array<epoll_event, 8> events;
  const int count = epoll_wait(full_epoll_.get(), events.data(), events.size(), 0);
  return std::any_of(events.begin(), events.begin() + std::max(count, 0),
                     [this](const auto& event) { return event.data.fd != idle_epoll_.get(); });
}

/// Tells the sources that are in shared memory that this thread hears their descriptors alone from
/// now on. Returns false if one has something.
bool Progress::begin_sleep() {
  const std::lock_guard guard(pass_lock_);
  return std::ranges::all_of(sources_, [](Source* source) { return source->begin_sleep(); });
}

bool Progress::polls_busily(TimeNs now) const {
  return elapsed(last_receipt_, now) < options_.busy_poll;
}

/// The background thread.
void Progress::run() {
  if (options_.thread_begins) options_.thread_begins();
  liveness_begun_.count_down();
  while (!stop_.load(std::memory_order_acquire)) {
    const TimeNs now = monotonic_now();
    const bool rest = program_polls(now);
    if (polled_by_program_.exchange(rest, std::memory_order_seq_cst) && !rest) {
      arm_timer_fd();
      // Sequentially consistent with `defer_to_poll`: either this thread sees the queued output, or
      // the posting thread sees `polled_by_program_` false and sends itself.
      if (has_outputs_.load(std::memory_order_seq_cst)) do_patiently([this] { serve(); }, 1);
    }
    const bool is_attended = attention_.is_given();
    const bool has_something = !rest && !is_attended && !begin_sleep();
    const int sleep = has_something || (polls_busily(now) && !is_attended) ? 0 : -1;
    // Only a look: what is told once (EPOLLONESHOT) is for `serve_idle_descriptors`.
    pollfd ready{.fd = rest || is_attended ? idle_epoll_.get() : full_epoll_.get(),
                 .events = POLLIN,
                 .revents = 0};
    const int count = ::poll(&ready, 1, rest ? 1 : sleep);
    if (count == 0 && !rest && !has_something) {
      sched_yield();  // To the program, which may have been woken on this processor.
      continue;
    }
    const bool is_served = count > 0 && serve_idle_descriptors();
    if (rest && leaves_packets_unread()) serve_until_ = monotonic_now() + kAttention;
    const bool is_left = !is_served || has_outputs_.load(std::memory_order_seq_cst);
    if (is_left && (!rest || !program_polls(monotonic_now()))) do_patiently([this] { serve(); }, 1);
  }
}

/// Handles the descriptors of `idle_epoll_`. Packets that came before a message are delivered
/// before it: a program that is told of its peer's disconnect has the completion of its last
/// request. Returns true if there were only messages: what has come since shows at its descriptor.
bool Progress::serve_idle_descriptors() {
  std::array<epoll_event, 8> events;
  const int count = epoll_wait(idle_epoll_.get(), events.data(), events.size(), 0);
  int messages = 0;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    std::shared_ptr<std::function<void()>> on_readable;
    {
      const std::lock_guard guard(watched_lock_);
      if (const auto found = watched_.find(fd); found != watched_.end()) {
        on_readable = found->second;
      }
    }
    const auto* const on_message = fd == options_.event_fd ? &options_.on_event : on_readable.get();
    if (on_message != nullptr) {
      do_patiently([this] { serve(); }, 1);
      do_patiently(*on_message);
      ++messages;
    } else {
      eventfd_t ignored;  // A timerfd is read like an eventfd.
      eventfd_read(fd, &ignored);
    }
  }
  return messages > 0 && messages == count;
}

/// Runs passes until nothing arrives and all output is sent, or the program polls again, or
/// `idle_epoll_` is due.
void Progress::serve() {
  constexpr int kPassesMax = 256;
  const std::lock_guard guard(pass_lock_);
  bool busy = true;
  for (int passes = 0; busy && passes < kPassesMax && !stop_.load(std::memory_order_relaxed);
       ++passes) {
    const TimeNs now = monotonic_now();
    if (passes > 0 && program_polls(now)) return;
    is_unattended_ = true;
    busy = run_pass(now) > 0;
    is_unattended_ = false;
    if (busy) last_receipt_ = now;
    flush_outputs();
    busy |= has_outputs_.load(std::memory_order_relaxed);
  }
  if (busy) wake();
}

bool Progress::poll() {
  const bool may_skip = !has_outputs_.load(std::memory_order_relaxed);
  const bool awaits_packets = wire_users_.load(std::memory_order_relaxed) != 0;
  const TimeNs now = monotonic_now();
  const bool is_idle = asks_kernel_.load(std::memory_order_relaxed) &&
                       idle_passes_.load(std::memory_order_relaxed) > kIdlePassesBeforePause;
  if (may_skip && is_idle && elapsed(last_poll_.load(std::memory_order_relaxed), now) < kPause) {
    return false;
  }
  const ProgramCall use(*this, last_poll_, now);
  if (!pass_lock_.try_lock()) return false;
  const std::lock_guard guard(pass_lock_, std::adopt_lock);
  // Sends output that the previous pass deferred, unless a post has sent it since.
  if (has_outputs_.load(std::memory_order_relaxed)) flush_outputs();
  const std::uint32_t idle =
      run_pass(now) > 0 ? 0 : idle_passes_.load(std::memory_order_relaxed) + 1;
  idle_passes_.store(idle, std::memory_order_relaxed);
  if (!is_polled()) flush_outputs();
  const std::uint32_t yield_after = awaits_packets ? kIdlePassesBeforeYield : 1;
  if (idle > 0 && idle % yield_after == 0) sched_yield();
  return true;
}

void Progress::finish_turn() {
  for (const TimeNs end = monotonic_now() + 10 * kMillisecond; monotonic_now() < end;) {
    if (const std::unique_lock ended(pass_lock_, std::try_to_lock); ended) return flush_outputs();
    sched_yield();
  }
}

void Progress::serve_events() {
  constexpr int kPassesMax = 4096;  // In a flood the background thread goes on.
  for (int passes = 0; attention_.is_given(); ++passes) {
    if (begin_sleep()) return;
    const std::lock_guard guard(pass_lock_);
    run_pass(monotonic_now());
    flush_outputs();
    if (passes == kPassesMax) attention_.end();
  }
  last_event_use_.store(monotonic_now(), std::memory_order_seq_cst);
  if (polled_by_program_.load(std::memory_order_seq_cst)) wake();
}

std::size_t Progress::run_pass(TimeNs now) {
  const std::size_t received = receive(now);
  if (now < timers_.earliest()) return received;
  // What has come and waits behind other packets may be the answer that a timer has waited for.
  std::size_t last = received;
  for (int batches = 1; last > 0 && batches < kBatchesBeforeTimers; ++batches) last = receive(now);
  serve_timers(now);
  return received;
}

std::size_t Progress::receive(TimeNs now) {
  std::size_t received = 0;
  for (Source* source : sources_) received += source->receive(now);
  return received;
}

void Progress::note_output(Task& task) {
  if (task.output_pending_.exchange(true, std::memory_order_acq_rel)) return;
  const std::lock_guard guard(outputs_lock_);
  outputs_.push_back(&task);
  has_outputs_.store(true, std::memory_order_seq_cst);  // See `run`.
}

void Progress::flush_outputs() {
  {
    const std::lock_guard guard(outputs_lock_);
    flushing_.swap(outputs_);
    has_outputs_.store(false, std::memory_order_relaxed);
  }
  for (Task* task : flushing_) {
    task->output_pending_.store(false, std::memory_order_release);
    task->transmit_output(monotonic_now());
  }
  flushing_.clear();
}

void Progress::serve_timers(TimeNs now) {
  timers_.take_due(now, due_);
  for (const TimerQueue::Entry& due : due_) {
    if (Task* task = tasks_.find_task(due.task)) task->on_timer(now);
  }
  arm_timer_fd();
}

void Progress::arm_timer(TimeNs at, Qpn task) {
  if (timers_.add({at, task})) arm_timer_fd();
}

/// Sets the timerfd to the earliest deadline. Not while the program polls: its polls serve the
/// timers, and the background thread sets the timerfd when that ends.
void Progress::arm_timer_fd() {
  // Sequentially consistent with `run` and TimerQueue: either this thread sees `polled_by_program_`
  // false and sets the timer, or the background thread sees the new deadline.
  if (polled_by_program_.load(std::memory_order_seq_cst)) return;
  // The last thread to set it has read the latest deadline.
  const std::lock_guard guard(timer_fd_lock_);
  timer_fd_.set(timers_.earliest());
}

void Progress::forget(Task& task) {
  const std::lock_guard pass_guard(pass_lock_);
  for (Source* source : sources_) source->forget(task);
  const std::lock_guard guard(outputs_lock_);
  std::erase(outputs_, &task);
}

}  // namespace verbatim::adapter
