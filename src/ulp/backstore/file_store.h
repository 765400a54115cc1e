#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/os/unique_fd.h"
#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/buffer_pool.h"

namespace verbatim::ulp::backstore {

/// Registered buffers that all files of a process share: small ones for most requests, large ones
/// for those that would take many. Who asks while too few are free waits, in order.
class FileBuffers {
 public:
  static constexpr std::uint32_t kSmallBytes = 64 << 10, kLargeBytes = 1 << 20;
  static constexpr std::uint32_t kSmall = 256, kLarge = 16;
  /// The longest request: all the large ones.
  static constexpr std::uint32_t kRequestBytesMax = kLarge * kLargeBytes;

  static Result<std::unique_ptr<FileBuffers>> create(const rdma::Device& device);
  FileBuffers(rdma::BufferPool small, rdma::BufferPool large)
      : small_(std::move(small)), large_(std::move(large)) {}

  /// Fills `loan` with slices of `bytes` together. False: too few are free.
  bool take(std::uint32_t bytes, std::vector<Slice>& loan);
  void give_back(std::vector<Slice>& loan);

  struct Waiting {
    class FileStore* store = nullptr;
    storage::Borrow request;
    Answers* to = nullptr;
  };
  std::deque<Waiting> waiting;

 private:
  rdma::BufferPool small_, large_;
};

/// A unit in a file, or on a block device. What is lent are copies; each call reads or writes the
/// file at once, so the thread waits for what is not in the page cache. `flush` and stable puts end
/// when the file's data is on the disk (fdatasync).
class FileStore final : public Store {
 public:
  struct Options {
    std::uint64_t bytes = 0;  // 0: the file's own; of a block device always that.
    std::uint32_t block_bytes = 512;
    bool may_create = true;
    bool is_synchronous = false;  // Each put is stable: there is no write cache.
  };
  /// Errors of open.
  static Result<std::unique_ptr<FileStore>> open(FileBuffers& buffers, const std::string& path,
                                                 const Options& options);
  FileStore(FileBuffers& buffers, UniqueFd file, const Geometry& geometry)
      : buffers_(buffers), file_(std::move(file)), geometry_(geometry) {}
  ~FileStore() override;

  Geometry geometry() const override { return geometry_; }
  void borrow(const storage::Borrow& request, Answers& to) override;
  void put(const storage::Put& request, Answers& to) override;
  void give_back(Tag tag) override;
  void flush(const storage::Flush& request, Answers& to) override;
  void clear(const storage::Clear& request, Answers& to) override;
  int descriptor() const override { return -1; }
  std::size_t reap() override { return 0; }

 private:
  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= geometry_.bytes && bytes <= geometry_.bytes - offset;
  }
  bool lend(const storage::Borrow& request, Answers& to);

  FileBuffers& buffers_;
  UniqueFd file_;
  Geometry geometry_;
  Loans<std::vector<Slice>> loans_;
};

}  // namespace verbatim::ulp::backstore
