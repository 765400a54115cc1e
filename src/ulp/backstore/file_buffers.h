#pragma once

#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "ulp/backstore/disk_queue.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/buffer_pool.h"

namespace verbatim::ulp::backstore {

class FileStore;

/// Registered buffers that all files of a process share: small ones for most requests, large ones
/// for those that would take many. Who asks while too few are free waits, in order. And the queue
/// of what their disks do.
class FileBuffers {
 public:
  static constexpr std::uint32_t kSmallBytes = 64 << 10, kLargeBytes = 1 << 20;
  static constexpr std::uint32_t kSmall = 256, kLarge = 16;
  /// The longest request: all the large ones.
  static constexpr std::uint32_t kRequestBytesMax = kLarge * kLargeBytes;

  static Result<std::unique_ptr<FileBuffers>> create(const rdma::Device& device);
  FileBuffers(rdma::BufferPool small, rdma::BufferPool large, std::unique_ptr<DiskQueue> queue)
      : small_(std::move(small)), large_(std::move(large)), queue_(std::move(queue)) {}

  /// Fills `loan` with slices of `bytes` together. False: too few are free.
  bool take(std::uint32_t bytes, std::vector<Slice>& loan);
  void give_back(std::vector<Slice>& loan);

  /// `put`: what lies in memory that the disk cannot read from.
  struct Waiting {
    FileStore* store = nullptr;
    std::variant<storage::Borrow, storage::Put> request;
    Answers* to = nullptr;
  };
  std::deque<Waiting> waiting;

  DiskQueue& queue() { return *queue_; }

 private:
  rdma::BufferPool small_, large_;
  std::unique_ptr<DiskQueue> queue_;
};

}  // namespace verbatim::ulp::backstore
