// Buffers that one side maps and the other writes to without a copy: riomap, riounmap, riowrite.
#include <bit>

#include "ulp/rsocket/endpoint.h"

namespace verbatim::rsocket {

Outcome<off_t> Endpoint::map(void* buffer, std::size_t bytes, bool remote, off_t offset) {
  Mapped mapped{.offset = offset == -1 ? reinterpret_cast<off_t>(buffer) : offset};
  int access = IBV_ACCESS_LOCAL_WRITE;
  if (remote) {
    std::vector<bool> taken(peer_iomap_.length);
    for (const Mapped& other : mapped_) {
      if (other.index >= 0) taken[static_cast<std::size_t>(other.index)] = true;
    }
    const auto free = std::ranges::find(taken, false);
    if (free == taken.end()) return fail(ENOMEM);  // The peer's map is full.
    mapped.index = static_cast<int>(free - taken.begin());
    mapped.told = false;
    access |= IBV_ACCESS_REMOTE_WRITE;
  }
  mapped.region = ibv_reg_mr(id_->qp->pd, buffer, bytes, access);
  if (mapped.region == nullptr) return fail(errno);
  mapped_.push_back(mapped);
  return mapped.offset;
}

Outcome<void> Endpoint::unmap(void* buffer, std::size_t bytes) {
  const auto found = std::ranges::find_if(mapped_, [&](const Mapped& mapped) {
    return mapped.region->addr == buffer && mapped.region->length == bytes;
  });
  if (found == mapped_.end()) return fail(EINVAL);
  ibv_dereg_mr(found->region);
  mapped_.erase(found);
  return {};
}

bool Endpoint::has_mappings_to_send() const {
  return std::ranges::any_of(mapped_, [](const Mapped& mapped) { return !mapped.told; });
}

Outcome<void> Endpoint::send_mappings() {
  for (Mapped& mapped : mapped_) {
    if (mapped.told) continue;
    if (!can_send()) return {};
    IoMapping entry{static_cast<std::uint64_t>(mapped.offset),
                    {reinterpret_cast<std::uint64_t>(mapped.region->addr), mapped.region->rkey,
                     static_cast<std::uint32_t>(mapped.region->length)}};
    if (swap_) {
      entry = {std::byteswap(entry.offset),
               {std::byteswap(entry.target.address), std::byteswap(entry.target.key),
                std::byteswap(entry.target.length)}};
    }
    const iovec piece{&entry, sizeof entry};
    Cursor from({&piece, 1});
    ++sent_;
    mapped.told = true;
    const auto index = static_cast<std::uint32_t>(mapped.index);
    if (auto ok = write(from, sizeof entry, message(Op::iomap, index), true,
                        peer_iomap_.address + index * sizeof(IoMapping), peer_iomap_.key);
        !ok) {
      return ok;
    }
  }
  return {};
}

IoMapping* Endpoint::mapping_at(off_t offset) const {
  auto* list = reinterpret_cast<IoMapping*>(target_list_ + kTargets * sizeof(Target));
  const auto at = static_cast<std::uint64_t>(offset);
  for (std::uint32_t i = 0; i < sizes_.iomap_entries; ++i) {
    if (at >= list[i].offset && at - list[i].offset < list[i].target.length) return &list[i];
  }
  return nullptr;
}

Outcome<std::size_t> Endpoint::write_some(Cursor& from, std::size_t most, off_t offset) {
  const IoMapping* mapping = mapping_at(offset);
  if (mapping == nullptr) return 0;
  const std::uint64_t into = static_cast<std::uint64_t>(offset) - mapping->offset;
  const std::size_t bytes = std::min(
      {from.left(), most, std::size_t{send_free_}, std::size_t{mapping->target.length - into}});
  const auto word = message(Op::write, static_cast<std::uint32_t>(bytes));
  if (auto ok =
          write(from, bytes, word, false, mapping->target.address + into, mapping->target.key);
      !ok) {
    return fail(ok.error());
  }
  return bytes;
}

}  // namespace verbatim::rsocket
