#include "region/held_memory.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "region/kernel_copies.h"
#include "region/memory.h"

namespace verbatim::region {
namespace {

std::uint64_t address_of(const Hold& hold) {
  return reinterpret_cast<std::uint64_t>(hold.address());
}

constinit std::atomic<CopyImported> copy_imported{nullptr};

bool copy_at_owner(const Hold& hold, std::byte* here, std::size_t length, bool to_owner) {
  const CopyImported copy = copy_imported.load(std::memory_order_acquire);
  return copy != nullptr && copy(address_of(hold), here, length, to_owner);
}

/// Copies within this process, while none of its pages moves.
bool copy_here(const Hold& hold, std::byte* here, std::size_t length, bool to_there) {
  const KernelCopies::Copy copy;
  return copy_by_kernel(getpid(), here, address_of(hold), length, to_there);
}

/// Some containers forbid the call: then the pages are probed, and accessed directly.
bool is_forbidden(int code) { return code == EPERM || code == ENOSYS; }

}  // namespace

void set_copy_imported(CopyImported copy) { copy_imported.store(copy, std::memory_order_release); }

bool read_checked(const Hold& hold, MutableByteSpan to) {
  if (hold.backing() == Hold::Backing::nothing) {
    std::memset(to.data(), 0, to.size());
    return true;
  }
  if (hold.backing() == Hold::Backing::imported) {
    return copy_at_owner(hold, to.data(), to.size(), false);
  }
  if (copy_here(hold, to.data(), to.size(), false)) return true;
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), to.size(), false)) return false;
  copy_in_order(to.data(), ByteSpan(hold.address(), to.size()));
  return true;
}

bool write_checked(const Hold& hold, ByteSpan from) {
  if (hold.backing() == Hold::Backing::nothing) return true;
  auto* const source = const_cast<std::byte*>(from.data());  // Only read.
  if (hold.backing() == Hold::Backing::imported) {
    return copy_at_owner(hold, source, from.size(), true);
  }
  if (copy_here(hold, source, from.size(), true)) return true;
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), from.size(), true)) return false;
  copy_in_order(hold.address(), from);
  return true;
}

bool write_unattended(const Hold& hold, ByteSpan from) {
  if (hold.backing() != Hold::Backing::memory) return write_checked(hold, from);
  auto* const source = const_cast<std::byte*>(from.data());  // Only read.
  if (copy_here(hold, source, from.size(), true)) return true;
  // Some containers forbid the call, and it cannot write to a device's memory.
  if (probe_memory(address_of(hold), from.size(), true)) copy_in_order(hold.address(), from);
  return true;
}

std::uint64_t* word_of(const Hold& hold, std::uint64_t& zero) {
  if (hold.backing() == Hold::Backing::nothing) return &zero;
  if (hold.backing() == Hold::Backing::imported) return nullptr;
  if (hold.backing() == Hold::Backing::on_demand &&
      !probe_memory(address_of(hold), sizeof(std::uint64_t), true)) {
    return nullptr;
  }
  return reinterpret_cast<std::uint64_t*>(hold.address());
}

}  // namespace verbatim::region
