#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "adapter/direct_link.h"
#include "adapter/held_memory.h"
#include "adapter/memory.h"
#include "adapter/scatter.h"

/// The direct path's bytes: between the program's own memory, whatever it is, and the peer's.
namespace verbatim::adapter {

namespace {

using Done = std::expected<void, region::KeyError>;

/// The last bytes last: programs spin on them, and memcpy copies in any order.
bool place_in_order(const region::Hold& from, MutableByteSpan to) {
  constexpr std::size_t kLast = 64;
  if (to.size() <= kLast) return read_held(from, to);
  const std::size_t before = to.size() - kLast;
  if (!read_held(from, to.first(before))) return false;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // The processor keeps the order itself.
  return read_held(from.borrowed(before), to.subspan(before));
}

}  // namespace

bool LocalMemory::is_good(std::uint32_t right) const {
  return !inlined.empty() || std::ranges::all_of(segments, [&](const Segment& one) {
    if (one.length == 0) return true;
    const auto hold = regions.hold(MemoryKey{one.key}, one.address, one.length, right, pd);
    return hold && (hold->backing() != region::Hold::Backing::on_demand ||
                    probe_memory(reinterpret_cast<std::uint64_t>(hold->address()), one.length,
                                 right == region::kLocalWrite));
  });
}

/// To the receive request that the target holds. What its memory refuses is the peer's fault.
DirectLink::Copied DirectLink::copy_to_receive(const LocalMemory& local, std::uint64_t offset,
                                               std::uint64_t length) {
  const std::span segments(target_.receive.segments, target_.receive.segment_count);
  Copied copied = Copied::all;
  const auto place = [&](MemoryKey key, std::uint64_t address, std::uint32_t bytes) -> Done {
    const auto region =
        peer_->regions().visit(key, address, bytes, region::kLocalWrite, {target_.receive_pd});
    copied = Copied::there_refused;
    if (!region) return std::unexpected(region.error());
    const std::uint64_t there = (*region)->address + (address - (*region)->iova);
    copied = copy(**region, there, local, offset, bytes, true);
    offset += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto placed = for_each_piece(segments, offset, length, place);
  return placed ? Copied::all : copied;
}

/// Bytes [offset, offset + length) of the request, to or from `address` of the peer's process.
DirectLink::Copied DirectLink::copy(const region::Region& there, std::uint64_t address,
                                    const LocalMemory& local, std::uint64_t offset,
                                    std::uint64_t length, bool to_peer) {
  if (!local.inlined.empty()) {
    return copy_inlined(there, address, local.inlined.subspan(offset, length));
  }
  Copied copied = Copied::all;
  const std::uint32_t right = to_peer ? region::kLocalRead : region::kLocalWrite;
  const auto move = [&](MemoryKey key, std::uint64_t iova, std::uint32_t bytes) -> Done {
    auto hold = local.regions.hold(key, iova, bytes, right, local.pd);
    copied = hold ? copy_piece(there, address, *hold, iova, bytes, to_peer) : Copied::here_refused;
    address += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto moved = for_each_piece(local.segments, offset, length, move);
  return moved ? Copied::all : copied;
}

DirectLink::Copied DirectLink::copy_piece(const region::Region& there, std::uint64_t address,
                                          region::Hold& here, std::uint64_t iova,
                                          std::uint64_t length, bool to_peer) {
  const bool is_null = (there.access & region::kNull) != 0;
  while (length > 0) {
    const auto run =
        is_null ? DirectPeer::Run{nullptr, length} : peer_->find(there, address, length, cache_);
    here.move_to(iova, run.length);
    if (run.here != nullptr) {
      const bool done = to_peer ? place_in_order(here, MutableByteSpan(run.here, run.length))
                                : write_held(here, ByteSpan(run.here, run.length));
      if (!done) return Copied::here_refused;
    } else if (is_null) {
      // Takes everything, and gives zeroes.
      static constexpr std::array<std::byte, 4096> kZeroes{};
      const auto part = std::min<std::uint64_t>(length, kZeroes.size());
      if (!to_peer && !write_held(here, ByteSpan(kZeroes).first(part))) return Copied::here_refused;
      address += part;
      iova += part;
      length -= part;
      continue;
    } else if (here.backing() == region::Hold::Backing::memory
                   ? !peer_->copy_by_kernel(here.address(), address, run.length, to_peer)
                   : !copy_through(address, here, run.length, to_peer)) {
      return Copied::there_refused;
    }
    address += run.length;
    iova += run.length;
    length -= run.length;
  }
  return Copied::all;
}

/// Neither side's memory is at hand: through a buffer.
bool DirectLink::copy_through(std::uint64_t address, const region::Hold& here, std::uint64_t length,
                              bool to_peer) {
  std::array<std::byte, 4096> buffer;
  for (std::uint64_t done = 0; done < length;) {
    const auto part = std::min<std::uint64_t>(length - done, buffer.size());
    const MutableByteSpan bytes(buffer.data(), part);
    const region::Hold rest = here.borrowed(done);
    const bool copied = to_peer
                            ? read_held(rest, bytes) &&
                                  peer_->copy_by_kernel(bytes.data(), address + done, part, true)
                            : peer_->copy_by_kernel(bytes.data(), address + done, part, false) &&
                                  write_held(rest, bytes);
    if (!copied) return false;
    done += part;
  }
  return true;
}

DirectLink::Copied DirectLink::copy_inlined(const region::Region& there, std::uint64_t address,
                                            ByteSpan bytes) {
  if ((there.access & region::kNull) != 0) return Copied::all;
  while (!bytes.empty()) {
    const auto run = peer_->find(there, address, bytes.size(), cache_);
    if (run.here != nullptr) {
      std::memcpy(run.here, bytes.data(), run.length);
    } else if (!peer_->copy_by_kernel(const_cast<std::byte*>(bytes.data()), address, run.length,
                                      true)) {
      return Copied::there_refused;
    }
    address += run.length;
    bytes = bytes.subspan(run.length);
  }
  return Copied::all;
}

/// The 8 bytes of an atomic operation on this side.
bool DirectLink::read_local(const LocalMemory& local, std::uint64_t& value) {
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  if (!local.inlined.empty()) {
    std::memcpy(bytes.data(), local.inlined.data(), bytes.size());
    return true;
  }
  return gather(local.regions, local.pd, local.segments, bytes).has_value();
}

bool DirectLink::write_local(const LocalMemory& local, std::uint64_t value) {
  region::KeptHold hold;
  return scatter(hold, local.regions, local.pd, local.segments, 0,
                 std::as_bytes(std::span(&value, 1)))
      .has_value();
}

}  // namespace verbatim::adapter
