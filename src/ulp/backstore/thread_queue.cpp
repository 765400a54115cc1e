#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/unique_fd.h"
#include "ulp/backstore/disk_queue.h"

namespace verbatim::ulp::backstore {
namespace {

constexpr std::size_t kThreads = 8;

std::int64_t carry_out(const DiskOperation& one) {
  const int count = static_cast<int>(one.pieces.size());
  const auto at = static_cast<off_t>(one.offset), bytes = static_cast<off_t>(one.bytes);
  std::int64_t result = -1;
  do {
    switch (one.kind) {
      case DiskOperation::Kind::read:
        result = preadv(one.file, one.pieces.data(), count, at);
        break;
      case DiskOperation::Kind::write:
        result = pwritev(one.file, one.pieces.data(), count, at);
        break;
      case DiskOperation::Kind::sync:
        result = fdatasync(one.file);
        break;
      case DiskOperation::Kind::allocate:
        result = fallocate(one.file, one.mode, at, bytes);
        break;
    }
  } while (result < 0 && errno == EINTR);
  return result < 0 ? -errno : result;
}

class ThreadQueue final : public DiskQueue {
 public:
  ThreadQueue() : readable_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    is_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(const DiskOperation& operation) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(operation);
    }
    is_work_.notify_one();
  }
  bool has_unsubmitted() const override { return false; }
  void submit() override {}
  int descriptor() const override { return readable_.get(); }
  std::size_t reap(const OnEnd& on_end) override {
    std::uint64_t count = 0;
    static_cast<void>(::read(readable_.get(), &count, sizeof count));
    std::vector<Ended> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(ended_);
    }
    for (const Ended& one : ended) on_end(one.user, one.result);
    return ended.size();
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    is_end_.wait(lock, [this] { return !ended_.empty(); });
  }

 private:
  struct Ended {
    void* user = nullptr;
    std::int64_t result = 0;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      is_work_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const DiskOperation operation = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const std::int64_t result = carry_out(operation);
      lock.lock();
      ended_.push_back({operation.user, result});
      is_end_.notify_one();
      const std::uint64_t one = 1;
      static_cast<void>(!write(readable_.get(), &one, sizeof one));
    }
  }

  const UniqueFd readable_;
  std::mutex mutex_;  // Of what follows.
  std::condition_variable is_work_, is_end_;
  std::deque<DiskOperation> waiting_;
  std::vector<Ended> ended_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<DiskQueue> DiskQueue::create_threads() { return std::make_unique<ThreadQueue>(); }

std::unique_ptr<DiskQueue> DiskQueue::create() {
  if (auto ring = create_ring()) return ring;
  log(LogLevel::info, "files: no io_uring here, {} threads read and write", kThreads);
  return create_threads();
}

}  // namespace verbatim::ulp::backstore
