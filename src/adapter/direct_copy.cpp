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

}  // namespace

bool LocalMemory::is_good(std::uint32_t right) const {
  return !inlined.empty() || std::ranges::all_of(segments, [&](const Segment& one) {
    if (one.length == 0) return true;
    const auto hold = visit(MemoryKey{one.key}, one.address, one.length, right);
    return hold && (hold->backing() != region::Hold::Backing::on_demand ||
                    probe_memory(reinterpret_cast<std::uint64_t>(hold->address()), one.length,
                                 right == region::kLocalWrite));
  });
}

/// To the receive request that the target holds, of which `before` bytes are somebody else's. What
/// its memory refuses is the peer's fault.
DirectLink::Copied DirectLink::copy_to_receive(const LocalMemory& local, std::uint64_t offset,
                                               std::uint64_t length, std::uint64_t before) {
  const std::span segments(target_.receive.segments, target_.receive.segment_count);
  Copied copied = Copied::all;
  const auto place = [&](MemoryKey key, std::uint64_t address, std::uint32_t bytes) -> Done {
    const auto region = peer_->regions().visit(key, address, bytes, region::kLocalWrite,
                                               target_.receive_pd, receive_key_);
    copied = Copied::there_refused;
    if (!region) return std::unexpected(region.error());
    const std::uint64_t there = (*region)->address + (address - (*region)->iova);
    copied = copy(**region, there, local, offset, bytes, true);
    offset += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto placed = for_each_piece(segments, before + offset, length, place);
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
    const auto here = local.visit(key, iova, bytes, right);
    copied = here ? copy_piece(there, address, *here, bytes, to_peer) : Copied::here_refused;
    address += bytes;
    if (copied == Copied::all) return {};
    return std::unexpected(region::KeyError::not_mapped);
  };
  const auto moved = for_each_piece(local.segments, offset, length, move);
  return moved ? Copied::all : copied;
}

DirectLink::Copied DirectLink::copy_piece(const region::Region& there, std::uint64_t address,
                                          const region::Hold& here, std::uint64_t length,
                                          bool to_peer) {
  const bool is_null = (there.access & region::kNull) != 0;
  for (std::uint64_t done = 0; done < length;) {
    auto run = is_null ? DirectPeer::Run{nullptr, length - done}
                       : peer_->find(there, address + done, length - done, cache_);
    const region::Hold part = here.borrowed(done);
    Copied copied = Copied::all;
    if (run.here != nullptr) {
      const bool all = to_peer ? read_held(part, MutableByteSpan(run.here, run.length))
                               : write_held(part, ByteSpan(run.here, run.length));
      copied = all ? Copied::all : Copied::here_refused;
    } else if (is_null) {
      copied = copy_zeroes(part, run.length, to_peer);
    } else if (part.backing() != region::Hold::Backing::memory) {
      copied = copy_through(address + done, part, run.length, to_peer);
    } else if (!peer_->copy_by_kernel(part.address(), address + done, run.length, to_peer)) {
      copied = Copied::there_refused;
    }
    if (copied != Copied::all) return copied;
    done += run.length;
  }
  return Copied::all;
}

/// A null region takes everything, and gives zeroes.
DirectLink::Copied DirectLink::copy_zeroes(const region::Hold& here, std::uint64_t length,
                                           bool to_peer) {
  static constexpr std::array<std::byte, 4096> kZeroes{};
  for (std::uint64_t done = 0; !to_peer && done < length;) {
    const auto part = std::min<std::uint64_t>(length - done, kZeroes.size());
    if (!write_held(here.borrowed(done), ByteSpan(kZeroes).first(part))) {
      return Copied::here_refused;
    }
    done += part;
  }
  return Copied::all;
}

/// Neither side's memory is at hand: through a buffer.
DirectLink::Copied DirectLink::copy_through(std::uint64_t address, const region::Hold& here,
                                            std::uint64_t length, bool to_peer) {
  std::array<std::byte, 4096> buffer;
  for (std::uint64_t done = 0; done < length;) {
    const auto part = std::min<std::uint64_t>(length - done, buffer.size());
    const MutableByteSpan bytes(buffer.data(), part);
    const region::Hold rest = here.borrowed(done);
    if (to_peer && !read_held(rest, bytes)) return Copied::here_refused;
    if (!peer_->copy_by_kernel(bytes.data(), address + done, part, to_peer)) {
      return Copied::there_refused;
    }
    if (!to_peer && !write_held(rest, bytes)) return Copied::here_refused;
    done += part;
  }
  return Copied::all;
}

DirectLink::Copied DirectLink::copy_inlined(const region::Region& there, std::uint64_t address,
                                            ByteSpan bytes) {
  if ((there.access & region::kNull) != 0) return Copied::all;
  while (!bytes.empty()) {
    const auto run = peer_->find(there, address, bytes.size(), cache_);
    if (run.here != nullptr) {
      copy_in_order(run.here, bytes.first(run.length));
    } else if (!peer_->copy_by_kernel(const_cast<std::byte*>(bytes.data()), address, run.length,
                                      true)) {
      return Copied::there_refused;
    }
    address += run.length;
    bytes = bytes.subspan(run.length);
  }
  return Copied::all;
}

/// The 8 bytes of an atomic operation on this side: `use` reads or writes them.
template <typename Bytes, typename Use>
bool DirectLink::with_local(const LocalMemory& local, Bytes bytes, std::uint32_t right, Use use) {
  const auto move = [&](MemoryKey key, std::uint64_t iova, std::uint32_t length) -> Done {
    const auto here = local.visit(key, iova, length, right);
    if (!here) return std::unexpected(here.error());
    if (!use(*here, bytes.first(length))) return std::unexpected(region::KeyError::not_mapped);
    bytes = bytes.subspan(length);
    return {};
  };
  return for_each_piece(local.segments, 0, bytes.size(), move).has_value();
}

bool DirectLink::read_local(const LocalMemory& local, std::uint64_t& value) {
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  if (local.inlined.empty()) return with_local(local, bytes, region::kLocalRead, read_held);
  std::memcpy(bytes.data(), local.inlined.data(), bytes.size());
  return true;
}

bool DirectLink::write_local(const LocalMemory& local, std::uint64_t value) {
  return with_local(local, std::as_bytes(std::span(&value, 1)), region::kLocalWrite, write_held);
}

}  // namespace verbatim::adapter
