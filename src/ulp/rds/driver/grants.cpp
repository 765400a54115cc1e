#include "ulp/rds/driver/grants.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/files/sparse_file.h"
#include "base/os/page.h"

namespace verbatim::ulp::rds {

Grants::Mapping::~Mapping() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Result<RemoteMemory> Grants::add(SocketId socket, int file, const local::Grant& grant) {
  if (grant.bytes == 0 || grant.offset + grant.bytes < grant.offset)
    return refuse(EINVAL, "no memory is granted");
  if (grant.bytes > kBytesMax)
    return refuse(EMSGSIZE, fmt::format("{} bytes: at most 1 MiB is granted at once", grant.bytes));
  const auto first = grants_.lower_bound({socket, MemoryKey{}});
  const auto count =
      std::distance(first, grants_.lower_bound({SocketId{raw(socket) + 1}, MemoryKey{}}));
  if (static_cast<std::size_t>(count) >= kOfASocketMax)
    return refuse(EAGAIN, fmt::format("{} grants of a socket are the most", count));
  // Its registration would refuse bytes beyond the end, too; this says why.
  if (!keeps_bytes(file, grant.offset, grant.bytes))
    return refuse(EBUSY, "the memory is in no file that cannot shrink, or beyond its end");
  const auto offset = static_cast<std::uint32_t>(grant.offset % page_bytes());
  const std::size_t bytes = (offset + grant.bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                            static_cast<off_t>(grant.offset - offset));
  if (memory == MAP_FAILED) return refuse_errno("mmap");
  Mapping mapping(memory, bytes);
  int rights = IBV_ACCESS_REMOTE_READ;
  if (grant.is_written != 0)
    rights |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  auto region = device_.register_at({mapping.data() + offset, grant.bytes}, offset, rights);
  if (!region) return std::unexpected(region.error());
  const MemoryKey key = region->remote_key();
  grants_.emplace(std::pair{socket, key},
                  Granted{std::move(mapping), std::move(*region), grant.is_once != 0});
  return RemoteMemory{key, offset};
}

Result<void> Grants::end(SocketId socket, MemoryKey key) {
  if (grants_.erase({socket, key}) == 0)
    return refuse(EINVAL, fmt::format("key {:#x} is none of this socket's", raw(key)));
  return {};
}

void Grants::on_used(SocketId socket, MemoryKey key) {
  const auto found = grants_.find({socket, key});
  if (found != grants_.end() && found->second.is_once) grants_.erase(found);
}

void Grants::end_all(SocketId socket) {
  grants_.erase(grants_.lower_bound({socket, MemoryKey{}}),
                grants_.lower_bound({SocketId{raw(socket) + 1}, MemoryKey{}}));
}

}  // namespace verbatim::ulp::rds
