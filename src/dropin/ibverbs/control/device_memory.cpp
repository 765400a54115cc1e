#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/direct/imported_memory.h"
#include "base/os/page.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Memory that is not at a program's address: device memory, and DMA buffers given by descriptor.
namespace verbatim::dropin {
namespace {

adapter::DeviceMemory& memory_of(const ibv_dm* dm) {
  return from(dm->context).adapter().imports().device_memory();
}

/// Copies between `host` and [offset, offset + length) of the device memory.
Result<void> copy(ibv_dm* dm, std::uint64_t offset, std::byte* host, std::size_t length,
                  bool to_device) {
  const std::span<std::byte> imported = from(dm).imported;
  if (imported.empty()) {
    return to_device ? memory_of(dm).copy_in(dm->handle, offset, {host, length})
                     : memory_of(dm).copy_out(dm->handle, offset, {host, length});
  }
  if (auto good = adapter::DeviceMemory::check_range(imported, offset, length); !good) return good;
  const auto address = reinterpret_cast<std::uint64_t>(imported.data() + offset);
  if (adapter::ImportedMemory::of_process().copy(address, host, length, to_device)) return {};
  return refuse(EFAULT, "the process that the device memory belongs to has freed it, or has ended");
}

int copy_to(ibv_dm* dm, std::uint64_t offset, const void* host, std::size_t length) {
  auto* const from_host = static_cast<std::byte*>(const_cast<void*>(host));  // Only read.
  const auto done = copy(dm, offset, from_host, length, true);
  return done ? 0 : refused("memcpy_to_dm", done.error());
}

int copy_from(void* host, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  const auto done = copy(dm, offset, static_cast<std::byte*>(host), length, false);
  return done ? 0 : refused("memcpy_from_dm", done.error());
}

/// A file that its owner may truncate is treated as on-demand memory: its pages can vanish at any
/// time.
std::uint32_t backing_access(int fd) {
  struct stat status{};
  const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return is_file ? std::uint32_t{IBV_ACCESS_ON_DEMAND} : 0;
}

Result<std::span<std::byte>> map_buffer(int fd, std::uint64_t offset, std::size_t length,
                                        bool writable) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return refuse(errno, fmt::format("descriptor {} is not open", fd));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (length == 0 || (S_ISREG(status.st_mode) && (offset > size || length > size - offset))) {
    return refuse(EINVAL,
                  fmt::format("offset {} + {} bytes of a buffer of {}", offset, length, size));
  }
  const std::uint64_t skipped = offset % page_bytes();
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* const at = mmap(nullptr, length + skipped, protection, MAP_SHARED, fd,
                        static_cast<off_t>(offset - skipped));
  if (at == MAP_FAILED) {
    return refuse(errno == ENODEV ? EOPNOTSUPP : errno,
                  fmt::format("descriptor {} cannot be mapped: {}", fd, std::strerror(errno)));
  }
  return std::span(static_cast<std::byte*>(at), length + skipped);
}

}  // namespace

ibv_dm* wrap_device_memory(ibv_context* context, std::uint32_t handle) {
  auto* buffer = new DeviceBuffer{.verbs = {.context = context,
                                            .memcpy_to_dm = copy_to,
                                            .memcpy_from_dm = copy_from,
                                            .comp_mask = IBV_DM_MASK_HANDLE,
                                            .handle = handle}};
  return &buffer->verbs;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* wanted) {
  if (wanted->comp_mask != 0) {
    return refused_null("alloc_dm",
                        {EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted->comp_mask)});
  }
  const auto handle = from(context).adapter().imports().device_memory().allocate(
      wanted->length, wanted->log_align_req);
  if (!handle) return refused_null("alloc_dm", handle.error());
  return wrap_device_memory(context, *handle);
}

int free_dm(ibv_dm* dm) {
  if (!from(dm).imported.empty()) {
    return refused("free_dm", {EOPNOTSUPP,
                               "the device memory is another process's, which frees it; "
                               "ibv_unimport_dm lets go of it"});
  }
  if (auto done = from(dm->context).adapter().imports().free_device_memory(dm->handle); !done) {
    return refused("free_dm", done.error());
  }
  delete &from(dm);
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned int access) {
  if ((access & IBV_ACCESS_ZERO_BASED) == 0) {
    return refused_null("reg_dm_mr", {EINVAL, "device memory needs IBV_ACCESS_ZERO_BASED"});
  }
  const std::span<std::byte> imported = from(dm).imported;
  const Result<MutableByteSpan> bytes =
      imported.empty() ? memory_of(dm).find(dm->handle) : Result<MutableByteSpan>(imported);
  if (!bytes) return refused_null("reg_dm_mr", bytes.error());
  if (offset > bytes->size() || length > bytes->size() - offset) {
    return refused_null("reg_dm_mr", {EINVAL, fmt::format("offset {} + {} bytes is not all in the "
                                                          "{} bytes",
                                                          offset, length, bytes->size())});
  }
  ibv_mr* const mr = register_memory("reg_dm_mr", pd, bytes->data() + offset, length, 0, access,
                                     imported.empty() ? 0u : std::uint32_t{region::kImported});
  if (mr == nullptr) return nullptr;
  mr->addr = nullptr;
  if (!imported.empty()) return mr;
  from(mr).device_memory = dm->handle;
  memory_of(dm).add_region(dm->handle);
  return mr;
}

}  // namespace verbatim::dropin

using namespace verbatim::dropin;

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
  constexpr int kServed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                          IBV_ACCESS_RELAXED_ORDERING;
  if ((access & ~kServed) != 0) {
    return refused_null("reg_dmabuf_mr", {EINVAL, fmt::format("access bits {:#x} are not served",
                                                              access & ~kServed)});
  }
  if ((iova ^ offset) % verbatim::page_bytes() != 0) {
    return refused_null("reg_dmabuf_mr", {EINVAL, "iova and offset differ within a page"});
  }
  const auto mapped = map_buffer(fd, offset, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (!mapped) return refused_null("reg_dmabuf_mr", mapped.error());
  std::byte* const at = mapped->data() + (mapped->size() - length);
  ibv_mr* const mr = register_memory("reg_dmabuf_mr", pd, at, length, iova,
                                     static_cast<std::uint32_t>(access) | backing_access(fd));
  if (mr == nullptr) {
    munmap(mapped->data(), mapped->size());
    return nullptr;
  }
  mr->addr = reinterpret_cast<void*>(offset);  // As in rdma-core: the offset in the buffer.
  from(mr).mapped = *mapped;
  return mr;
}
