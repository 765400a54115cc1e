#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "region/adoption/mappings.h"

/// What the kernel knows of the program's threads, by address: their stacks and control blocks, and
/// the words at which they sleep.
namespace verbatim::region {

Result<unsigned> count_threads();

/// Returns true if the pages, which are a part of `mapping`, have a thread's control block or
/// variables, or are below them in the same mapping, where its stack is. Also true if this cannot
/// be determined.
bool has_thread(const Mapping& mapping, const PageRange& pages);

/// Returns the calling thread's stack around here, wherever the program has it.
PageRange stack_of_this_thread();

/// Words at which threads sleep in futex(2) calls without FUTEX_PRIVATE_FLAG. The kernel finds them
/// by process and address in private memory, by file and offset in shared memory: a page that moves
/// under a sleeper leaves it asleep.
struct Sleepers {
  std::array<std::uint64_t, 16> words;
  std::size_t count = 0;
  bool is_known = true;  // False: there are more, or they cannot be determined.
  std::span<const std::uint64_t> all() const { return std::span(words).first(count); }
};
/// Returns those in the pages. Writes only to its own stack, without the C library, because all
/// other memory may be frozen.
Sleepers sleepers_in(const PageRange& pages);

}  // namespace verbatim::region
