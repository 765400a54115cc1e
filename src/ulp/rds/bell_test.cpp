// Who sleeps on an inbox is woken, whatever the order of steps, and whoever is killed between two.
#include "ulp/rds/local/bell.h"

#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/os/unique_fd.h"
#include "ulp/rds/local/client.h"

namespace verbatim::ulp::rds::local {
namespace {

constexpr Head kMessage{.kind = Kind::message};

/// Two readers share a socket, as after fork. Senders and readers take a step each, in any order;
/// the bells that senders have given to the kernel wait for the broker.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    broker_.reset(ends[0]);
    program_.reset(ends[1]);
    inbox_->limit.store(2 << 20);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { unmap(inbox_); }

  void step() {
    switch (below(5)) {
      case 0:
        return send();
      case 1:
        return serve();
      case 2:
        return owed_ > 0 ? ring() : void();
      default:
        return read(readers_[below(2)]);
    }
  }
  /// There is a message, a reader sleeps, and nothing will wake it.
  bool has_missed() const {
    const bool sleeps = readers_[0].sleeps || readers_[1].sleeps;
    return bells_ == 0 && owed_ == 0 && !inbox_->is_empty() && sleeps && !is_readable();
  }

 private:
  struct Killed {};
  struct Reader {
    bool sleeps = false, is_gone = false;
  };
  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  bool is_readable() const { return receive_packet(program_.get(), MSG_PEEK | MSG_DONTWAIT) > 0; }

  /// It may be killed before its bell or after it, or be refused by a full socket.
  void send() {
    const unsigned fate = below(6);
    const auto send_bell = [&] {
      if (fate == 0) throw Killed{};
      if (fate == 1) return false;
      ++bells_;
      if (fate == 2) throw Killed{};
      return true;
    };
    try {
      const Locked locked(*inbox_);  // Of one that is killed, the lock is taken over.
      static_cast<void>(inbox_->put(kMessage, {}, send_bell));
    } catch (const Killed&) {
    }
  }
  void serve() {
    if (bells_ == 0) return;
    --bells_;
    if (below(3) != 0) {
      ring();
    } else {  // The lock was held for long.
      inbox_->lock.lock();
      owed_ += ring_soon(broker_.get(), *inbox_) == Rung::later ? 1 : 0;
      inbox_->lock.unlock();
    }
  }
  void ring() {
    owed_ = 0;
    EXPECT_EQ(ring_soon(broker_.get(), *inbox_), Rung::done);
  }
  void read(Reader& reader) {
    if (&reader == &readers_[1] && below(50) == 0) reader.is_gone = true;  // Killed.
    if (reader.is_gone) return;
    if (reader.sleeps) {
      if (!is_readable()) return;
      reader.sleeps = false;
      get_up(program_.get(), *inbox_, true);
      return;
    }
    {
      const Locked locked(*inbox_);
      Inbox::Taken taken;
      const bool is_taken = inbox_->take(taken, nullptr, 0, false) == Inbox::Take::done;
      if (inbox_->is_empty()) silence(program_.get(), *inbox_);
      if (is_taken) return;
    }
    reader.sleeps = lie_down(*inbox_);
  }

  std::mt19937 random_;
  UniqueFd broker_, program_;
  UniqueFd file_{create_inbox()};
  Inbox* inbox_ = map_inbox(file_.get());
  unsigned bells_ = 0, owed_ = 0;
  Reader readers_[2];
};

TEST(RdsBell, NoneIsMissedInAnyOrder) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    World world(seed);
    for (int i = 0; i < 300; ++i) {
      world.step();
      ASSERT_FALSE(world.has_missed()) << "seed " << seed << " step " << i;
    }
  }
}

/// The same with a thread each: a sender, the broker, a reader that sleeps as a program's does.
TEST(RdsBell, NoneIsMissedByThreads) {
  constexpr int kMessages = 20'000;
  int ends[2], words[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, words), 0);
  const UniqueFd broker(ends[0]), program(ends[1]), heard(words[0]);
  UniqueFd told(words[1]);
  const timeval patience{60, 0};  // Of a reader that has missed its bell.
  setsockopt(program.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const UniqueFd file(create_inbox());
  Inbox* const inbox = map_inbox(file.get());
  inbox->limit.store(4096);
  std::thread rings([&] {
    while (receive_packet(heard.get(), 0) > 0) {
      while (ring_soon(broker.get(), *inbox) == Rung::later) std::this_thread::yield();
    }
  });
  std::atomic<bool> is_over = false;
  std::thread sends([&] {
    for (int i = 0; i < kMessages; ++i) {
      const auto put = [&] {
        const Locked locked(*inbox);
        return inbox->put(kMessage, {}, [&] { return tell(told.get(), Kind::bell, 0); });
      };
      while (!is_over && put() != Inbox::Put::done) std::this_thread::yield();
      if (i % 16 == 0) std::this_thread::yield();
    }
  });
  int read = 0;
  Received received;
  while (read < kMessages && receive(program.get(), *inbox, nullptr, 0, 0, received) >= 0) ++read;
  EXPECT_EQ(read, kMessages);
  is_over = true;
  sends.join();
  told.reset();
  rings.join();
  unmap(inbox);
}

}  // namespace
}  // namespace verbatim::ulp::rds::local
