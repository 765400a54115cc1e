#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <sys/uio.h>

namespace verbatim::ulp::backstore {

/// Something that a file or a block device does, however long it takes.
struct DiskOperation {
  enum class Kind : std::uint8_t { read, write, sync, allocate };
  Kind kind{};
  int file = -1;
  std::span<const iovec> pieces{};  // `read`, `write`: they stay until its end.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // `allocate`.
  int mode = 0;             // `allocate`: as fallocate's.
  void* user = nullptr;
};

/// Operations that are under way beside the one thread that asks for them.
class DiskQueue {
 public:
  /// `result`: bytes, or a negative errno value.
  using OnEnd = std::function<void(void* user, std::int64_t result)>;

  /// By io_uring; by threads where it is not there or forbidden, as in many containers.
  static std::unique_ptr<DiskQueue> create();
  /// Null: there is no io_uring.
  static std::unique_ptr<DiskQueue> create_ring();
  static std::unique_ptr<DiskQueue> create_threads();
  virtual ~DiskQueue() = default;

  /// It may stay unsubmitted, with others, until `submit`.
  virtual void start(const DiskOperation& operation) = 0;
  virtual bool has_unsubmitted() const = 0;
  virtual void submit() = 0;
  /// Readable when an operation has ended.
  virtual int descriptor() const = 0;
  /// Calls `on_end` for each operation that has ended. Returns how many.
  virtual std::size_t reap(const OnEnd& on_end) = 0;
  /// Submits, and waits until one has ended. Requires that one is under way.
  virtual void wait() = 0;
};

}  // namespace verbatim::ulp::backstore
