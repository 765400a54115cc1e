#include "dropin/rspreload/heirs/owner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/heirs/lines.h"
#include "dropin/rspreload/heirs/message.h"
#include "dropin/rspreload/heirs/relay.h"
#include "dropin/rspreload/heirs/shadow.h"
#include "dropin/rspreload/heirs/streams.h"
#include "dropin/rspreload/own_numbers.h"
#include "ulp/rsocket/private.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

using Source = ulp::sockets::Source;

/// How long a process that exits waits for children that have its streams and do not use them.
constexpr auto kLastQuestions = std::chrono::seconds(1);
constexpr int kQuestionsOfATurn = 64;

class Owner {
 public:
  Owner()
      : set_(with_high_number(epoll_create1(EPOLL_CLOEXEC))),
        wake_(with_high_number(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
    watch(wake_.get(), EPOLLIN);
    for (const int own : {set_.get(), wake_.get()}) forks.add_private(own);
  }

  void on_fork();
  bool leave(int fd);
  bool share(int fd);
  void end();

  void serve();
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  Forks forks;

 private:
  /// A stream that the program has closed, and a child has.
  struct Kept {
    std::uint32_t serial = 0;
    int number = -1;
  };
  struct Served {
    std::unique_ptr<Relay> relay;
    UniqueFd programs;                   // For those who ask later.
    std::vector<std::uint32_t> serials;  // Of the numbers that the stream had.
    std::uint32_t born = 0;
  };

  bool may_be_inherited(std::uint32_t serial) const {
    return std::ranges::any_of(lines_,
                               [serial](const Line& line) { return line.may_have(serial); });
  }
  int number_of(std::uint32_t serial) const;
  Served* served_by(std::uint32_t serial);
  Served* serve_stream(int number);
  void replace_numbers(const Source& source, Served& served);
  bool hear(Line& line);
  void answer(std::uint32_t serial, UniqueFd to);
  void take_new_lines();
  void hang_up(Line& line);
  bool turn(std::vector<std::unique_ptr<Relay>>& over);
  void forget_unused();
  bool may_be_asked();
  bool nothing_to_do();
  void watch(int fd, std::uint32_t events);
  bool start();

  std::mutex mutex_;
  std::condition_variable changed_;  // By the thread.
  UniqueFd set_;                     // What the thread sleeps on.
  UniqueFd wake_;
  std::atomic<bool> runs_ = false;
  std::size_t ending_ = 0;  // Relays that are being ended.
  std::vector<Line> lines_;
  std::vector<Kept> kept_;
  std::vector<Served> served_;
};

std::atomic<Owner*> the_owner = nullptr;  // Never destroyed: its thread uses it.

Owner& owner() {
  Owner* found = the_owner;
  while (found == nullptr) {
    auto fresh = std::make_unique<Owner>();
    if (the_owner.compare_exchange_strong(found, fresh.get())) found = fresh.release();
  }
  return *found;
}

void Owner::watch(int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event);
}

/// There is a new line.
void Owner::on_fork() {
  eventfd_write(wake_.get(), 1);
  if (!runs_.exchange(true)) runs_ = start();
}

void Owner::take_new_lines() {
  for (Line& line : forks.take_new()) {
    watch(line.end.get(), EPOLLIN);
    lines_.push_back(std::move(line));
  }
}

void Owner::hang_up(Line& line) {
  forks.remove_private(line.end.get());
  line.end.reset();
}

int Owner::number_of(std::uint32_t serial) const {
  const auto kept = std::ranges::find(kept_, serial, &Kept::serial);
  return kept != kept_.end() ? kept->number : number_with_serial(serial);
}

Owner::Served* Owner::served_by(std::uint32_t serial) {
  const auto found = std::ranges::find_if(served_, [serial](const Served& served) {
    return std::ranges::find(served.serials, serial) != served.serials.end();
  });
  if (found != served_.end()) return &*found;
  const int number = number_of(serial);
  return number < 0 ? nullptr : serve_stream(number);
}

/// Makes the stream one that all processes may use.
Owner::Served* Owner::serve_stream(int number) {
  const auto source = source_of(number);
  const int own = source && is_stream(number) ? own_number_of(number) : -1;
  if (own < 0) return nullptr;
  auto shadow = make_shadow(names_of(own));
  if (!shadow) {
    rclose(own);
    return nullptr;
  }
  fcntl(shadow->programs.get(), F_SETFL, rfcntl(own, F_GETFL) & O_NONBLOCK);
  copy_limits(own, shadow->programs.get());
  rfcntl(own, F_SETFL, 0);
  shadow->programs = UniqueFd(with_high_number(shadow->programs.release()));
  shadow->owners = UniqueFd(with_high_number(shadow->owners.release()));
  forks.add_private(shadow->owners.get());
  watch(shadow->owners.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  watch(own, EPOLLIN);
  Served& served = served_.emplace_back();
  served.relay = std::make_unique<Relay>(own, source, std::move(shadow->owners));
  served.programs = std::move(shadow->programs);
  served.born = next_serial();
  replace_numbers(*source, served);
  eventfd_write(wake_.get(), 1);
  return &served;
}

/// The program's own numbers are the shadow's from now on, too.
void Owner::replace_numbers(const Source& source, Served& served) {
  for (const int number : numbers_of(Kind::rsocket)) {
    if (source_of(number).get() != &source) continue;
    served.serials.push_back(serial_of(number));
    const int flags = (fcntl(number, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
    verbatim_rdup3(served.programs.get(), number, flags);
    set_kind(number, Kind::other);
  }
  std::erase_if(kept_, [&](const Kept& kept) {
    if (source_of(kept.number).get() != &source) return false;
    served.serials.push_back(kept.serial);
    rclose(kept.number);
    return true;
  });
  // Calls that are in the stream go on with the shadow.
  served.relay->source().hand_over();
}

bool Owner::leave(int fd) {
  const std::lock_guard lock(mutex_);
  if (!replace_kind(fd, Kind::rsocket, Kind::other)) return false;
  take_new_lines();
  const std::uint32_t serial = serial_of(fd);
  const int number = may_be_inherited(serial) ? own_number_of(fd) : -1;
  if (number >= 0) kept_.push_back({.serial = serial, .number = number});
  return true;
}

bool Owner::share(int fd) {
  const std::lock_guard lock(mutex_);
  if (!runs_.exchange(true)) runs_ = start();
  return runs_ && serve_stream(fd) != nullptr;
}

void Owner::answer(std::uint32_t serial, UniqueFd to) {
  const Served* const served = served_by(serial);
  if (served == nullptr || !served->programs) return;
  send_over(to.get(), {.word = Word::answer,
                       .serial = serial,
                       .descriptor = UniqueFd(fcntl(served->programs.get(), F_DUPFD_CLOEXEC, 0))});
}

/// Returns false if nobody has the line any more. A child that asks without end has its turns, as
/// others have; what it has not inherited is not its to have.
bool Owner::hear(Line& line) {
  for (int i = 0; i < kQuestionsOfATurn; ++i) {
    auto message = receive_from(line.end.get(), MSG_DONTWAIT);
    if (!message && errno == EMFILE) continue;  // It finds its question unanswered.
    if (!message) return errno == EAGAIN;
    if (message->serial >= line.born) continue;
    if (message->word == Word::closed) line.closed.insert(message->serial);
    if (message->word == Word::ask) answer(message->serial, std::move(message->descriptor));
  }
  return true;
}

/// What nobody can ask for any more.
void Owner::forget_unused() {
  std::erase_if(kept_, [this](const Kept& kept) {
    if (may_be_inherited(kept.serial)) return false;
    rclose(kept.number);
    return true;
  });
  for (Served& served : served_) {
    const auto is_wanted = [this](std::uint32_t serial) { return may_be_inherited(serial); };
    const bool may_be_asked_for = std::ranges::any_of(lines_, [&](const Line& line) {
      return line.born < served.born && std::ranges::any_of(served.serials, is_wanted);
    });
    if (!may_be_asked_for) served.programs.reset();
  }
}

bool Owner::turn(std::vector<std::unique_ptr<Relay>>& over) {
  const std::lock_guard lock(mutex_);
  take_new_lines();
  bool changed = false;
  for (Line& line : lines_) {
    if (!hear(line)) hang_up(line);
  }
  std::erase_if(lines_, [](const Line& line) { return !line.end; });
  forget_unused();
  for (Served& served : served_) {
    if (served.relay->turn()) changed = true;
    if (!served.relay->is_over()) continue;
    forks.remove_private(served.relay->shadow());
    over.push_back(std::move(served.relay));
  }
  std::erase_if(served_, [](const Served& served) { return served.relay == nullptr; });
  ending_ = over.size();
  return changed;
}

/// Asks all streams for an event, and looks once more.
bool Owner::nothing_to_do() {
  const std::lock_guard lock(mutex_);
  for (Served& served : served_) served.relay->source().arm();
  return std::ranges::none_of(served_, [](Served& served) {
    Source& source = served.relay->source();
    const short awaited = served.relay->awaited();
    return (source.look(awaited) & awaited) != 0 || !source.armed();
  });
}

/// The thread: never ends.
void Owner::serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    std::vector<std::unique_ptr<Relay>> over;
    const bool changed = turn(over);
    if (!over.empty()) {
      over.clear();  // To end a connection may take a while.
      const std::lock_guard lock(mutex_);
      ending_ = 0;
    }
    changed_.notify_all();
    if (changed || !nothing_to_do()) continue;
    epoll_wait(set_.get(), events.data(), events.size(), -1);
    eventfd_t ignored = 0;
    eventfd_read(wake_.get(), &ignored);
    const std::lock_guard lock(mutex_);
    for (Served& served : served_) served.relay->source().wake();
  }
}

/// Signals are the program's own threads'.
bool Owner::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const auto run = [](void* owner) -> void* {
    const Inside mark;
    static_cast<Owner*>(owner)->serve();
    return nullptr;
  };
  const int error = pthread_create(&thread, nullptr, run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return false;
  pthread_setname_np(thread, "heirs");
  return pthread_detach(thread) == 0;
}

/// A child may still ask for a stream that nobody serves yet.
bool Owner::may_be_asked() {
  take_new_lines();
  const auto of_number = [this](int number) { return may_be_inherited(serial_of(number)); };
  const auto of_kept = [this](const Kept& kept) { return may_be_inherited(kept.serial); };
  return std::ranges::any_of(numbers_of(Kind::rsocket), of_number) ||
         std::ranges::any_of(kept_, of_kept);
}

/// Closes the program's numbers of all shadows, and waits until nobody has them. As with TCP, a
/// parent that leaves a connection to its child may exit first.
void Owner::end() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kLastQuestions, [this] { return !may_be_asked(); });
  if (served_.empty() && ending_ == 0) return;
  close_shadows();
  for (Served& served : served_) served.programs.reset();
  take_new_lines();
  for (Line& line : lines_) hang_up(line);  // Who has not asked yet is too late.
  lines_.clear();
  eventfd_write(wake_.get(), 1);
  changed_.wait(lock, [this] { return served_.empty() && ending_ == 0; });
}

thread_local Owner* forking = nullptr;

void before_fork() {
  const Inside mark;
  forking = the_owner != nullptr || has_rsockets() ? &owner() : nullptr;
  if (forking != nullptr) forking->forks.before();
}
void in_parent() {
  const Inside mark;
  if (forking != nullptr && forking->forks.in_parent()) forking->on_fork();
}
void in_child() {
  const Inside mark;
  if (forking != nullptr) forking->forks.in_child();
  the_owner = nullptr;
}

void await_forks() {
  pthread_atfork(before_fork, in_parent, in_child);
  std::atexit(serve_to_the_end);
}

[[gnu::constructor]] void await_rsockets() { at_first_rsocket(await_forks); }

}  // namespace

NumbersStay::NumbersStay() {
  if (the_owner != nullptr) lock_ = the_owner.load()->lock();
}

bool leave_to_heirs(int fd) {
  const Inside mark;
  return the_owner != nullptr ? the_owner.load()->leave(fd)
                              : replace_kind(fd, Kind::rsocket, Kind::other);
}

bool share(int fd) {
  const Inside mark;
  return owner().share(fd);
}

void serve_to_the_end() {
  const Inside mark;
  if (the_owner != nullptr) the_owner.load()->end();
}

}  // namespace verbatim::rspreload
