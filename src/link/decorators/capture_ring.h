#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "link/decorators/fault_plan.h"
#include "link/decorators/remark.h"
#include "wire/net/ip.h"

/// A program's captured packets until `verbatim capture` has written them: a bounded ring in shared
/// memory, one for each program, with one writer and one reader. The writer never waits: a packet
/// without room is counted. A killed writer leaves whole packets.
namespace verbatim::link {

/// A packet as sent or received, from its BTH to its ICRC. RoCE v1: from its GRH; InfiniBand: from
/// its LRH, and without CRCs, unless a fault damaged it.
struct CapturedPacket {
  TimeNs time = 0;  // Since 1970.
  bool is_infiniband = false;
  wire::IpFlow flow;  // Of RoCE.
  // IPv4, for sent packets; the kernel hides that of received ones.
  std::uint16_t identification = 0;
  Direction direction{};
  Remark remark{};
};

/// Header of the shared memory; the packets follow from kDataOffset on.
struct CaptureRingHeader {
  static constexpr std::uint64_t kMagic = 0x76657262'63617032;  // "verbcap2"
  static constexpr std::size_t kDataOffset = 4096;
  std::uint64_t magic = kMagic;
  std::uint64_t capacity = 0;  // Bytes after the header.
  // Bytes since the start; only one side writes each.
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::atomic<std::uint64_t> packets{0};  // Including dropped ones.
  std::atomic<std::uint64_t> dropped{0};
};

/// A mapping of the shared memory.
class CaptureMapping {
 public:
  CaptureMapping() = default;
  CaptureMapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  CaptureMapping(CaptureMapping&& other) noexcept;
  CaptureMapping& operator=(CaptureMapping&& other) noexcept;
  ~CaptureMapping();
  CaptureRingHeader& header() const { return *static_cast<CaptureRingHeader*>(address_); }
  std::byte* data() const {
    return static_cast<std::byte*>(address_) + CaptureRingHeader::kDataOffset;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The program's side. Not thread-safe.
class CaptureRing {
 public:
  static constexpr std::size_t kCapacity = 32 << 20;
  /// Fails with ENOMEM or EMFILE. Memory is used as packets come.
  static Result<std::unique_ptr<CaptureRing>> create(std::size_t capacity = kCapacity);

  /// For the reader.
  int fd() const { return fd_.get(); }
  /// Adds a packet, whose bytes are `bytes` of `pieces` from byte `offset` on.
  void add(const CapturedPacket& packet, std::span<const iovec> pieces, std::size_t offset,
           std::size_t bytes);

 private:
  CaptureRing(UniqueFd fd, CaptureMapping mapping, std::size_t capacity)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), capacity_(capacity) {}
  void put(std::uint64_t at, const void* bytes, std::size_t count);

  UniqueFd fd_;
  CaptureMapping mapping_;
  std::size_t capacity_;
};

/// The reader's side.
class CaptureReader {
 public:
  /// EPROTO if it is no ring.
  static Result<CaptureReader> open(UniqueFd fd);

  /// Returns the next packet and its bytes, which are valid until the next call. Returns false if
  /// there is none, or the rest is damaged (`is_damaged`).
  bool next(CapturedPacket& packet, ByteSpan& bytes);
  bool is_damaged() const { return is_damaged_; }
  std::uint64_t packets() const { return mapping_.header().packets.load(); }
  std::uint64_t dropped() const { return mapping_.header().dropped.load(); }

 private:
  CaptureReader(CaptureMapping mapping, std::size_t capacity)
      : mapping_(std::move(mapping)), capacity_(capacity) {}
  void get(std::uint64_t at, void* bytes, std::size_t count) const;

  CaptureMapping mapping_;
  std::size_t capacity_;
  std::vector<std::byte> bytes_;
  bool is_damaged_ = false;
};

}  // namespace verbatim::link
