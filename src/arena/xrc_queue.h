#pragma once

#include <atomic>
#include <cstdint>

#include "arena/offset.h"
#include "base/types.h"

namespace verbatim::arena {

struct CompletionRing;
struct ReceiveRing;

/// Number of an XRC domain within its adapter; 0 is none.
enum class XrcDomain : std::uint32_t {};

/// The file that an XRC domain is made for: by it programs of a node know that they are in the same
/// one. A domain without a file is its program's alone.
struct XrcFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool exists() const { return inode != 0; }
  friend bool operator==(const XrcFile&, const XrcFile&) = default;
};

/// What peers need of an XRC shared receive queue, in its owner's arena: one for each such queue of
/// the program, by local number. Written by the owner while `number` is zero and nobody visits a
/// target of the program.
struct alignas(64) XrcQueue {
  std::atomic<std::uint32_t> number{0};  // 0: there is none. Published last.
  XrcDomain domain{};
  XrcFile file;  // Of the domain.
  PdNumber pd{};
  Offset<ReceiveRing> receives;
  Offset<CompletionRing> cq;
  std::atomic<std::uint32_t> notifications{0};  // Bits of `News` that concern it.
};

}  // namespace verbatim::arena
