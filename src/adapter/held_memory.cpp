#include "adapter/held_memory.h"

#include <cerrno>

#include <sys/uio.h>
#include <unistd.h>

#include "adapter/memory.h"

namespace verbatim::adapter {
namespace {

using Backing = region::Hold::Backing;

std::uint64_t address_of(const region::Hold& hold) {
  return reinterpret_cast<std::uint64_t>(hold.address());
}

/// The kernel copies within this process. `copy` is process_vm_readv or process_vm_writev; it stops
/// at the first page that is not there.
template <typename Copy>
bool copy_by_kernel(Copy copy, std::byte* own, std::byte* programs, std::size_t bytes) {
  while (bytes > 0) {
    const iovec local{own, bytes};
    const iovec remote{programs, bytes};
    const ssize_t copied = copy(getpid(), &local, 1, &remote, 1, 0);
    if (copied <= 0) return false;
    own += copied;
    programs += copied;
    bytes -= static_cast<std::size_t>(copied);
  }
  return true;
}

/// Some containers forbid the call: there the pages are probed, and then touched.
bool is_forbidden(int code) { return code == EPERM || code == ENOSYS; }

}  // namespace

bool read_checked(const region::Hold& hold, MutableByteSpan to) {
  if (hold.backing() == Backing::nothing) {
    std::memset(to.data(), 0, to.size());
    return true;
  }
  if (copy_by_kernel(process_vm_readv, to.data(), hold.address(), to.size())) return true;
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), to.size(), false)) return false;
  std::memcpy(to.data(), hold.address(), to.size());
  return true;
}

bool write_checked(const region::Hold& hold, ByteSpan from) {
  if (hold.backing() == Backing::nothing) return true;
  if (copy_by_kernel(process_vm_writev, const_cast<std::byte*>(from.data()), hold.address(),
                     from.size())) {
    return true;
  }
  if (!is_forbidden(errno) || !probe_memory(address_of(hold), from.size(), true)) return false;
  std::memcpy(hold.address(), from.data(), from.size());
  return true;
}

std::uint64_t* word_of(const region::Hold& hold, std::uint64_t& zero) {
  if (hold.backing() == Backing::nothing) return &zero;
  if (hold.backing() == Backing::on_demand &&
      !probe_memory(address_of(hold), sizeof(std::uint64_t), true)) {
    return nullptr;
  }
  return reinterpret_cast<std::uint64_t*>(hold.address());
}

}  // namespace verbatim::adapter
