#pragma once

#include <atomic>
#include <cstdint>

#include "arena/offset.h"
#include "base/types.h"

namespace verbatim::arena {

struct CompletionRing;
struct ReceiveRing;

/// Number of an XRC domain within its adapter; 0: none.
enum class XrcDomain : std::uint32_t {};

/// The file of an XRC domain, which identifies the domain to programs of a node. A domain without a
/// file is private to its program.
struct XrcFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool exists() const { return inode != 0; }
  friend bool operator==(const XrcFile&, const XrcFile&) = default;
};

/// State of an XRC shared receive queue for peers, in its owner's arena: one for each queue of the
/// program, by local number. Written by the owner while `number` is zero and no target of the
/// program is locked.
struct alignas(64) XrcQueue {
  std::atomic<std::uint32_t> number{0};  // 0: no queue here. Published last.
  XrcDomain domain{};
  XrcFile file;  // The domain's file.
  PdNumber pd{};
  Offset<ReceiveRing> receives;
  Offset<CompletionRing> cq;
  std::atomic<std::uint32_t> notifications{0};  // Bits of `Notification`.
};

}  // namespace verbatim::arena
