#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ulp/backstore/loans.h"
#include "ulp/backstore/store.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::backstore {

/// Registers parts of a store's memory, and ends that.
class Registrar {
 public:
  virtual ~Registrar() = default;
  virtual Result<MemoryKey> add(std::span<std::byte> memory) = 0;
  virtual void remove(MemoryKey key) = 0;
};

/// A unit in memory. It lends its own pages, so reads and writes copy nothing, and answers within
/// each call. What it has ends with the process.
///
/// An adapter holds the pages of what is registered, so the memory is cut into extents of which
/// each is registered when it is first written, and no longer once all of it was cleared:
///
///     never written   reads are lent zeroes, of one piece for all; takes no memory
///     written         its own pages
///     cleared whole   as never written, unless a part of it is lent just then; also piece by
///     piece,
///                     in the order of the pieces
class RamStore final : public Store {
 public:
  static constexpr std::uint64_t kExtentBytesMin = 2 << 20, kExtentsMax = 8192;
  static constexpr std::uint32_t kZeroBytes = 1 << 20;

  /// EINVAL: no whole number of blocks, or blocks that are not of 512 or 4096 bytes; ENOMEM.
  static Result<std::unique_ptr<RamStore>> create(const rdma::Device& device, std::uint64_t bytes,
                                                  std::uint32_t block_bytes);
  static Result<std::unique_ptr<RamStore>> create(std::unique_ptr<Registrar> registrar,
                                                  std::uint64_t bytes, std::uint32_t block_bytes);
  ~RamStore() override;

  Geometry geometry() const override {
    return {.bytes = memory_.size(), .block_bytes = block_bytes_, .can_deallocate = true};
  }
  void borrow(const storage::Borrow& request, Answers& to) override;
  void put(const storage::Put& request, Answers& to) override;
  void give_back(Tag tag) override;
  void flush(const storage::Flush& request, Answers& to) override;
  void clear(const storage::Clear& request, Answers& to) override;
  int descriptor() const override { return -1; }
  std::size_t reap() override { return 0; }

  std::uint64_t extent_bytes() const { return std::uint64_t{1} << extent_shift_; }
  /// Extents that have pages.
  std::size_t written() const { return written_; }

 private:
  struct Extent {
    std::optional<MemoryKey> key;  // None: it was never written, or cleared.
    std::uint32_t lent = 0;        // Slices of it.
  };
  RamStore(std::unique_ptr<Registrar> registrar, std::uint64_t bytes, std::uint32_t block_bytes);
  Result<void> open();

  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= memory_.size() && bytes <= memory_.size() - offset;
  }
  Extent& extent_at(std::uint64_t offset) { return extents_[offset >> extent_shift_]; }
  std::span<std::byte> memory_of(std::size_t extent) const;
  bool make(std::uint64_t offset, std::uint64_t bytes);
  void lend(std::uint64_t offset, std::uint32_t bytes, std::vector<Slice>& loan);
  void clear_part(std::uint64_t offset, std::uint64_t bytes);

  const std::unique_ptr<Registrar> registrar_;
  const std::uint32_t block_bytes_;
  std::uint32_t extent_shift_ = 0;
  std::span<std::byte> memory_;  // Of the size at first; `open` maps it.
  std::span<std::byte> mapped_;  // With what aligns it, and the zeroes.
  std::span<std::byte> zeroes_;
  MemoryKey zero_key_{};
  std::vector<Extent> extents_;
  std::size_t written_ = 0;
  Loans<std::vector<Slice>> loans_;
};

}  // namespace verbatim::ulp::backstore
