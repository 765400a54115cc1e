#include "adapter/memory/held_memory.h"

#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "adapter/direct/imported_memory.h"
#include "adapter/memory/memory.h"

namespace verbatim::adapter {
namespace {

using Backing = region::Hold::Backing;

std::uint64_t address_of(const region::Hold& hold) {
  return reinterpret_cast<std::uint64_t>(hold.address());
}

/// Some containers forbid the call: there the pages are probed, and then touched.
bool is_forbidden(int code) { return code == EPERM || code == ENOSYS; }

}  // namespace

bool read_checked(const region::Hold& hold, MutableByteSpan to) {
  if (hold.backing() == Backing::nothing) {
    std::memset(to.data(), 0, to.size());
    return true;
  }
  if (hold.backing() == Backing::imported) {
    return ImportedMemory::of_process().copy(address_of(hold), to.data(), to.size(), false);
  }
  if (copy_by_kernel(getpid(), to.data(), address_of(hold), to.size(), false)) return true;
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), to.size(), false)) return false;
  copy_in_order(to.data(), ByteSpan(hold.address(), to.size()));
  return true;
}

bool write_checked(const region::Hold& hold, ByteSpan from) {
  if (hold.backing() == Backing::nothing) return true;
  auto* const source = const_cast<std::byte*>(from.data());  // Only read.
  if (hold.backing() == Backing::imported) {
    return ImportedMemory::of_process().copy(address_of(hold), source, from.size(), true);
  }
  if (copy_by_kernel(getpid(), source, address_of(hold), from.size(), true)) return true;
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), from.size(), true)) return false;
  copy_in_order(hold.address(), from);
  return true;
}

std::uint64_t* word_of(const region::Hold& hold, std::uint64_t& zero) {
  if (hold.backing() == Backing::nothing) return &zero;
  if (hold.backing() == Backing::imported) return nullptr;
  if (hold.backing() == Backing::on_demand &&
      !probe_memory(address_of(hold), sizeof(std::uint64_t), true)) {
    return nullptr;
  }
  return reinterpret_cast<std::uint64_t*>(hold.address());
}

}  // namespace verbatim::adapter
