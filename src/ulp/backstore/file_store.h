#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/os/unique_fd.h"
#include "ulp/backstore/file_buffers.h"
#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"

namespace verbatim::ulp::backstore {

/// A unit in a file, or on a block device. What is lent are copies. What is in the page cache is
/// read at once; all else goes through the buffers' queue, so a slow disk stops nobody else.
/// `flush` and stable puts end when the file's data is on the disk (fdatasync).
class FileStore final : public Store {
 public:
  struct Options {
    std::uint64_t bytes = 0;  // 0: the file's own; of a block device always that.
    std::uint32_t block_bytes = 512;
    bool may_create = true;
    bool is_synchronous = false;  // Each put is stable: there is no write cache.
    bool is_direct = false;       // O_DIRECT: past the page cache. Block devices: always.
  };
  /// Errors of open.
  static Result<std::unique_ptr<FileStore>> open(FileBuffers& buffers, const std::string& path,
                                                 const Options& options);
  FileStore(FileBuffers& buffers, UniqueFd file, const Geometry& geometry, bool is_direct)
      : buffers_(buffers), file_(std::move(file)), geometry_(geometry), is_direct_(is_direct) {}
  /// Waits for what is under way.
  ~FileStore() override;

  Geometry geometry() const override { return geometry_; }
  void borrow(const storage::Borrow& request, Answers& to) override;
  void put(const storage::Put& request, Answers& to) override;
  void give_back(Tag tag) override;
  void flush(const storage::Flush& request, Answers& to) override;
  void clear(const storage::Clear& request, Answers& to) override;
  int descriptor() const override { return buffers_.queue().descriptor(); }
  std::size_t reap() override { return reap_all(buffers_); }
  /// Of all stores that share the buffers: what has ended goes on, or is answered. Returns how many
  /// operations have ended.
  static std::size_t reap_all(FileBuffers& buffers);

 private:
  /// A request from its first operation to its answer.
  struct Request {
    FileStore* store = nullptr;
    Answers* to = nullptr;
    Tag tag{};
    enum class Kind : std::uint8_t { read, write, sync, clear, zero } kind{};
    bool to_stable = false;              // `write`: a sync follows.
    int mode = 0;                        // `clear`: as fallocate's.
    std::uint64_t offset = 0, left = 0;  // `left`: of `clear` and `zero`.
    std::vector<iovec> pieces;           // What is left of `read` and `write`.
    std::uint32_t failures = 0;          // `sync`: that were told when it began.
  };

  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= geometry_.bytes && bytes <= geometry_.bytes - offset;
  }
  bool lend(const storage::Borrow& request, Answers& to);
  bool write_copy(const storage::Put& request, Answers& to);
  bool can_write_from(std::span<const Slice> slices) const;
  void read_what_is_cached(Request& request);

  Request& begin(Request::Kind kind, Tag tag, Answers& to);
  void go_on(Request& request);
  void sync(Request& request);
  /// Of the operation that `go_on` has started.
  void on_end(Request& request, std::int64_t result);
  void advance(Request& request, std::uint64_t moved);
  void finish(Request& request, storage::StoreStatus status);

  FileBuffers& buffers_;
  UniqueFd file_;
  Geometry geometry_;
  const bool is_direct_;
  std::uint32_t sync_failures_ = 0;
  Loans<std::vector<Slice>> loans_;
  std::deque<Request> requests_;  // They stay where they are.
  std::vector<Request*> free_;
};

}  // namespace verbatim::ulp::backstore
