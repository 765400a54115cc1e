#pragma once

#include <memory>
#include <optional>

#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::backstore {

/// A unit in memory: a memfd that is mapped and registered once. It lends its own pages, so reads
/// and writes copy nothing, and answers within each call. Pages that nobody has written take no
/// memory. What it has ends with the process.
class RamStore final : public Store {
 public:
  /// EINVAL: no whole number of blocks, or blocks that are not of 512 or 4096 bytes; ENOMEM.
  static Result<std::unique_ptr<RamStore>> create(const rdma::Device& device, std::uint64_t bytes,
                                                  std::uint32_t block_bytes);
  /// On memory that somebody else has registered: for tests.
  RamStore(std::span<std::byte> memory, MemoryKey local_key, std::uint32_t block_bytes)
      : memory_(memory), local_key_(local_key), block_bytes_(block_bytes) {}
  ~RamStore() override;

  Geometry geometry() const override {
    return {.bytes = memory_.size(), .block_bytes = block_bytes_, .can_deallocate = true};
  }
  void borrow(const storage::Borrow& request, Answers& to) override;
  void put(const storage::Put& request, Answers& to) override;
  void give_back(Tag) override {}
  void flush(const storage::Flush& request, Answers& to) override;
  void clear(const storage::Clear& request, Answers& to) override;
  int descriptor() const override { return -1; }
  std::size_t reap() override { return 0; }

 private:
  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= memory_.size() && bytes <= memory_.size() - offset;
  }

  std::span<std::byte> memory_;
  MemoryKey local_key_{};
  std::uint32_t block_bytes_ = 512;
  bool is_mapped_ = false;  // By `create`.
  std::optional<rdma::Region> region_;
  Loans<Slice> loans_;
};

}  // namespace verbatim::ulp::backstore
