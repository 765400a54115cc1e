#pragma once

#include <memory>
#include <vector>

#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/buffer_pool.h"

namespace verbatim::ulp::backstore {

/// A unit that has nothing: it reads as zeroes, and forgets what is put. For measuring all but the
/// disk. Reads are lent one piece of zeroes, as often as they need it; writes are lent another one.
class NullStore final : public Store {
 public:
  static constexpr std::uint32_t kPieceBytes = 1 << 20, kPiecesMax = 8;

  static Result<std::unique_ptr<NullStore>> create(const rdma::Device& device, std::uint64_t bytes,
                                                   std::uint32_t block_bytes);
  NullStore(rdma::BufferPool pool, std::uint64_t bytes, std::uint32_t block_bytes)
      : pool_(std::move(pool)), bytes_(bytes), block_bytes_(block_bytes) {}

  Geometry geometry() const override {
    return {.bytes = bytes_, .block_bytes = block_bytes_, .can_deallocate = true};
  }
  void borrow(const storage::Borrow& request, Answers& to) override;
  void put(const storage::Put& request, Answers& to) override;
  void give_back(Tag) override {}
  void flush(const storage::Flush& request, Answers& to) override {
    to.on_stored(request.tag, storage::StoreStatus::done);
  }
  void clear(const storage::Clear& request, Answers& to) override;
  int descriptor() const override { return -1; }
  std::size_t reap() override { return 0; }

 private:
  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  rdma::BufferPool pool_;  // A piece to read, and one to write.
  std::uint64_t bytes_;
  std::uint32_t block_bytes_;
  Loans<std::vector<Slice>> loans_;
};

}  // namespace verbatim::ulp::backstore
