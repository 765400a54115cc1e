#include <cerrno>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/os/unique_fd.h"
#include "ulp/backstore/disk_queue.h"

#ifdef VERBATIM_HAS_LIBURING

#include <liburing.h>

namespace verbatim::ulp::backstore {
namespace {

constexpr unsigned kEntries = 256;

class RingQueue final : public DiskQueue {
 public:
  static std::unique_ptr<DiskQueue> create() {
    auto queue = std::make_unique<RingQueue>();
    if (io_uring_queue_init(kEntries, &queue->ring_, 0) != 0) return nullptr;
    queue->is_open_ = true;
    queue->ended_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!queue->ended_ || io_uring_register_eventfd(&queue->ring_, queue->ended_.get()) != 0)
      return nullptr;
    return queue;
  }
  ~RingQueue() override {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  void start(const DiskOperation& operation) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    while (entry == nullptr) {  // Full: what is there goes first.
      submit();
      entry = io_uring_get_sqe(&ring_);
    }
    const auto count = static_cast<unsigned>(operation.pieces.size());
    switch (operation.kind) {
      case DiskOperation::Kind::read:
        io_uring_prep_readv(entry, operation.file, operation.pieces.data(), count,
                            operation.offset);
        break;
      case DiskOperation::Kind::write:
        io_uring_prep_writev(entry, operation.file, operation.pieces.data(), count,
                             operation.offset);
        break;
      case DiskOperation::Kind::sync:
        io_uring_prep_fsync(entry, operation.file, IORING_FSYNC_DATASYNC);
        break;
      case DiskOperation::Kind::allocate:
        io_uring_prep_fallocate(entry, operation.file, operation.mode,
                                static_cast<off_t>(operation.offset),
                                static_cast<off_t>(operation.bytes));
        break;
    }
    io_uring_sqe_set_data(entry, operation.user);
    ++unsubmitted_;
  }
  bool has_unsubmitted() const override { return unsubmitted_ > 0; }
  /// The kernel refuses for a while if it has no memory: the loop asks again.
  void submit() override {
    const int taken = io_uring_submit(&ring_);
    if (taken > 0) unsubmitted_ -= static_cast<unsigned>(taken);
  }
  int descriptor() const override { return ended_.get(); }
  std::size_t reap(const OnEnd& on_end) override {
    std::uint64_t count = 0;
    static_cast<void>(::read(ended_.get(), &count, sizeof count));
    std::size_t found = 0;
    for (io_uring_cqe* entry = nullptr; io_uring_peek_cqe(&ring_, &entry) == 0; ++found) {
      void* const user = io_uring_cqe_get_data(entry);
      const std::int64_t result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      on_end(user, result);
    }
    return found;
  }
  void wait() override {
    while (unsubmitted_ > 0) submit();
    io_uring_cqe* entry = nullptr;
    while (io_uring_wait_cqe(&ring_, &entry) == -EINTR) continue;
  }

 private:
  io_uring ring_{};
  bool is_open_ = false;
  UniqueFd ended_;
  unsigned unsubmitted_ = 0;
};

}  // namespace

std::unique_ptr<DiskQueue> DiskQueue::create_ring() { return RingQueue::create(); }

}  // namespace verbatim::ulp::backstore

#else

namespace verbatim::ulp::backstore {

std::unique_ptr<DiskQueue> DiskQueue::create_ring() { return nullptr; }

}  // namespace verbatim::ulp::backstore

#endif
