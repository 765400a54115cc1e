#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/buffer_pool.h"

namespace verbatim::ulp::backstore {

/// Pages that belong to no unit: for what engines write or read themselves (answers of NVMe's admin
/// queue, SCSI's INQUIRY). They come with any bytes in them. Who asks while none are left waits, in
/// order.
class ScratchStore final : public Store {
 public:
  static constexpr std::uint32_t kPageBytes = 4096;
  static Result<std::unique_ptr<ScratchStore>> create(const rdma::Device& device,
                                                      std::uint32_t pages);
  explicit ScratchStore(rdma::BufferPool pool) : pool_(std::move(pool)) {}

  Geometry geometry() const override { return {.bytes = ~std::uint64_t{0}, .block_bytes = 1}; }
  void borrow(const storage::Borrow& request, Answers& to) override;
  /// Nobody puts anything here.
  void put(const storage::Put& request, Answers& to) override {
    to.on_stored(request.tag, storage::StoreStatus::not_supported);
  }
  void give_back(Tag tag) override;
  void flush(const storage::Flush& request, Answers& to) override {
    to.on_stored(request.tag, storage::StoreStatus::not_supported);
  }
  void clear(const storage::Clear& request, Answers& to) override {
    to.on_stored(request.tag, storage::StoreStatus::not_supported);
  }
  int descriptor() const override { return -1; }
  std::size_t reap() override { return 0; }
  std::uint32_t free_pages() const { return pool_.free_count(); }

 private:
  struct Waiting {
    storage::Borrow request;
    Answers* to;
  };
  bool lend(const storage::Borrow& request, Answers& to);

  rdma::BufferPool pool_;
  Loans<std::vector<Slice>> loans_;  // A vector keeps its memory for the next loan of its tag.
  std::deque<Waiting> waiting_;
};

}  // namespace verbatim::ulp::backstore
