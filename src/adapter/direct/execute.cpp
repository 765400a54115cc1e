#include "adapter/direct/execute.h"

#include <time.h>

#include "adapter/direct/imported_memory.h"
#include "base/time.h"
#include "region/held_memory.h"
#include "region/kernel_copies.h"

namespace verbatim::adapter {
namespace {

/// Time that an owner may take to answer.
constexpr TimeNs kOwnerAnswers = kSecond;
constexpr TimeNs kLookAgain = kMillisecond / 50;

OwnerRequest to_owner_request(const transport::ExecuteAtomic& atomic) {
  return {.kind = atomic.compare_and_swap ? OwnerRequest::compare_and_swap
                                          : OwnerRequest::fetch_and_add,
          .key = raw(atomic.key),
          .address = atomic.address,
          .compare_add = atomic.compare_add,
          .swap = atomic.swap};
}
OwnerRequest to_owner_request(const transport::ExecuteAtomicWrite& write) {
  return {.kind = OwnerRequest::atomic_write,
          .key = raw(write.key),
          .address = write.address,
          .compare_add = write.value};
}

/// Executes on memory of this process, or on memory imported from another.
std::optional<std::uint64_t> execute(region::RegionTable& regions, const OwnerRequest& wanted,
                                     const region::Accessor& by) {
  const std::uint32_t right =
      wanted.kind == OwnerRequest::atomic_write ? region::kRemoteWrite : region::kRemoteAtomic;
  const auto hold = regions.hold(MemoryKey{wanted.key}, wanted.address, 8, right, by);
  if (!hold) return std::nullopt;
  if (hold->backing() == region::Hold::Backing::imported) {
    const auto address = reinterpret_cast<std::uint64_t>(hold->address());
    return ImportedMemory::of_process().execute(address, wanted, execute_at);
  }
  const region::KernelCopies::Copy while_nothing_moves;
  std::uint64_t zero = 0;
  std::uint64_t* const word = word_of(*hold, zero);
  if (word == nullptr) return std::nullopt;
  return apply(*word, wanted);
}

/// Returns false if it takes too long.
bool await_answer(const MappedTarget& there) {
  const OwnerRequest& asked = there.target().owner_request;
  const TimeNs deadline = monotonic_now() + kOwnerAnswers;
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(kLookAgain)};
  while (asked.state.load(std::memory_order_acquire) == OwnerRequest::asked) {
    if (there.peer().is_gone() || monotonic_now() >= deadline) return false;
    nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace

std::uint64_t apply(std::uint64_t& word, const OwnerRequest& wanted) {
  switch (wanted.kind) {
    case OwnerRequest::compare_and_swap:
      return region::compare_and_swap(word, wanted.compare_add, wanted.swap);
    case OwnerRequest::fetch_and_add:
      return region::fetch_and_add(word, wanted.compare_add);
    default:
      __atomic_store_n(&word, wanted.compare_add, __ATOMIC_SEQ_CST);
      return 0;
  }
}

std::optional<std::uint64_t> ask_owner(MappedTarget& there, const OwnerRequest& wanted) {
  OwnerRequest& asked = there.target().owner_request;
  if (!await_answer(there))
    return std::nullopt;  // An earlier request timed out and its answer is still due: wait for it
                          // first.
  asked.ask(wanted);
  there.notify(kOwnerRequest);
  if (!await_answer(there)) return std::nullopt;
  const auto state = asked.state.exchange(OwnerRequest::none, std::memory_order_acq_rel);
  if (state != OwnerRequest::done) return std::nullopt;
  return asked.original;
}

std::optional<std::uint64_t> execute_at(MappedTarget& there, const region::Region& region,
                                        MemoryKey key, std::uint64_t iova,
                                        const OwnerRequest& wanted) {
  if ((region.access & region::kNull) != 0) return 0;
  std::uint64_t* const word = there.word(region, address_in(region, iova));
  if (word != nullptr) return apply(*word, wanted);
  return ask_owner(there, {.kind = wanted.kind,
                           .key = raw(key),
                           .address = iova,
                           .compare_add = wanted.compare_add,
                           .swap = wanted.swap});
}

std::optional<std::uint64_t> execute(region::RegionTable& regions,
                                     const transport::ExecuteAtomic& atomic,
                                     const region::Accessor& by) {
  return execute(regions, to_owner_request(atomic), by);
}

bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by) {
  return execute(regions, to_owner_request(write), by).has_value();
}

std::optional<std::uint64_t> execute_at(MappedTarget& there, const transport::ExecuteAtomic& atomic,
                                        Qpn qpn) {
  const auto region = there.find_locked(atomic.key, atomic.address, 8, region::kRemoteAtomic, qpn);
  if (!region) return std::nullopt;
  return execute_at(there, **region, atomic.key, atomic.address, to_owner_request(atomic));
}

std::optional<std::uint64_t> execute_at(MappedTarget& there,
                                        const transport::ExecuteAtomicWrite& write, Qpn qpn) {
  const auto region = there.find_locked(write.key, write.address, 8, region::kRemoteWrite, qpn);
  if (!region) return std::nullopt;
  return execute_at(there, **region, write.key, write.address, to_owner_request(write));
}

void answer(OwnerRequest& wanted, region::RegionTable& regions, const region::Accessor& by) {
  std::optional<std::uint64_t> original;
  if (wanted.kind == OwnerRequest::invalidate) {
    if (regions.invalidate(MemoryKey{wanted.key}, by)) original = 0;
  } else if (wanted.kind <= OwnerRequest::atomic_write) {
    original = execute(regions, wanted, by);
  }
  wanted.original = original.value_or(0);
  wanted.state.store(original ? OwnerRequest::done : OwnerRequest::refused,
                     std::memory_order_release);
}

}  // namespace verbatim::adapter
