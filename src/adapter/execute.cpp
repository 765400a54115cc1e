#include "adapter/execute.h"

#include "adapter/held_memory.h"

namespace verbatim::adapter {

std::optional<std::uint64_t> execute(region::RegionTable& regions,
                                     const transport::ExecuteAtomic& atomic,
                                     const region::Accessor& by) {
  const auto hold = regions.hold(atomic.key, atomic.address, 8, region::kRemoteAtomic, by);
  std::uint64_t zero = 0;
  std::uint64_t* const word = hold ? word_of(*hold, zero) : nullptr;
  if (word == nullptr) return std::nullopt;
  return atomic.compare_and_swap ? compare_and_swap(*word, atomic.compare_add, atomic.swap)
                                 : fetch_and_add(*word, atomic.compare_add);
}

bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by) {
  const auto hold = regions.hold(write.key, write.address, 8, region::kRemoteWrite, by);
  std::uint64_t zero = 0;
  std::uint64_t* const word = hold ? word_of(*hold, zero) : nullptr;
  if (word == nullptr) return false;
  __atomic_store_n(word, write.value, __ATOMIC_SEQ_CST);
  return true;
}

void answer(Assist& wanted, region::RegionTable& regions, const region::Accessor& by) {
  const MemoryKey key{wanted.key};
  bool is_done = false;
  switch (wanted.kind) {
    case Assist::invalidate:
      is_done = regions.invalidate(key, by).has_value();
      break;
    case Assist::compare_and_swap:
    case Assist::fetch_and_add: {
      const auto original = execute(
          regions,
          transport::ExecuteAtomic{.key = key,
                                   .address = wanted.address,
                                   .compare_and_swap = wanted.kind == Assist::compare_and_swap,
                                   .compare_add = wanted.compare_add,
                                   .swap = wanted.swap},
          by);
      is_done = original.has_value();
      wanted.original = original.value_or(0);
      break;
    }
    case Assist::atomic_write:
      is_done = execute(regions,
                        transport::ExecuteAtomicWrite{
                            .key = key, .address = wanted.address, .value = wanted.compare_add},
                        by);
      break;
    case Assist::find_host:
      break;
  }
  wanted.state.store(is_done ? Assist::done : Assist::refused, std::memory_order_release);
}

}  // namespace verbatim::adapter
