#include "adapter/execute.h"

#include <time.h>

#include "adapter/borrowed_memory.h"
#include "adapter/held_memory.h"
#include "base/time.h"

namespace verbatim::adapter {
namespace {

/// So long an owner may take.
constexpr TimeNs kOwnerAnswers = kSecond;
constexpr TimeNs kLookAgain = kMillisecond / 50;

Assist to_assist(const transport::ExecuteAtomic& atomic) {
  return {.kind = atomic.compare_and_swap ? Assist::compare_and_swap : Assist::fetch_and_add,
          .key = raw(atomic.key),
          .address = atomic.address,
          .compare_add = atomic.compare_add,
          .swap = atomic.swap};
}
Assist to_assist(const transport::ExecuteAtomicWrite& write) {
  return {.kind = Assist::atomic_write,
          .key = raw(write.key),
          .address = write.address,
          .compare_add = write.value};
}

/// On memory of this program, or what is borrowed of another.
std::optional<std::uint64_t> execute(region::RegionTable& regions, const Assist& wanted,
                                     const region::Accessor& by) {
  const std::uint32_t right =
      wanted.kind == Assist::atomic_write ? region::kRemoteWrite : region::kRemoteAtomic;
  const auto hold = regions.hold(MemoryKey{wanted.key}, wanted.address, 8, right, by);
  if (!hold) return std::nullopt;
  if (hold->backing() == region::Hold::Backing::elsewhere) {
    const auto address = reinterpret_cast<std::uint64_t>(hold->address());
    return BorrowedMemory::of_process().execute(address, wanted);
  }
  std::uint64_t zero = 0;
  std::uint64_t* const word = word_of(*hold, zero);
  if (word == nullptr) return std::nullopt;
  return apply(*word, wanted);
}

/// False: it takes too long.
bool await_answer(const DirectPlace& there) {
  const Assist& asked = there.target().assist;
  const TimeNs deadline = monotonic_now() + kOwnerAnswers;
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(kLookAgain)};
  while (asked.state.load(std::memory_order_acquire) == Assist::asked) {
    if (there.peer().is_gone() || monotonic_now() >= deadline) return false;
    nanosleep(&pause, nullptr);
  }
  return true;
}

}  // namespace

std::uint64_t apply(std::uint64_t& word, const Assist& wanted) {
  switch (wanted.kind) {
    case Assist::compare_and_swap:
      return compare_and_swap(word, wanted.compare_add, wanted.swap);
    case Assist::fetch_and_add:
      return fetch_and_add(word, wanted.compare_add);
    default:
      __atomic_store_n(&word, wanted.compare_add, __ATOMIC_SEQ_CST);
      return 0;
  }
}

std::optional<std::uint64_t> ask_owner(const DirectPlace& there, const Assist& wanted) {
  Assist& asked = there.target().assist;
  if (!await_answer(there)) return std::nullopt;  // To somebody whose patience has ended.
  asked.ask(wanted);
  there.tell(kAssist);
  if (!await_answer(there)) return std::nullopt;
  const auto state = asked.state.exchange(Assist::none, std::memory_order_acq_rel);
  if (state != Assist::done) return std::nullopt;
  return asked.original;
}

std::optional<std::uint64_t> execute_at(DirectPlace& there, const region::Region& region,
                                        MemoryKey key, std::uint64_t iova, const Assist& wanted) {
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
  return execute(regions, to_assist(atomic), by);
}

bool execute(region::RegionTable& regions, const transport::ExecuteAtomicWrite& write,
             const region::Accessor& by) {
  return execute(regions, to_assist(write), by).has_value();
}

std::optional<std::uint64_t> execute_at(DirectPlace& there, const transport::ExecuteAtomic& atomic,
                                        Qpn qpn) {
  const auto region = there.visit(atomic.key, atomic.address, 8, region::kRemoteAtomic, qpn);
  if (!region) return std::nullopt;
  return execute_at(there, **region, atomic.key, atomic.address, to_assist(atomic));
}

std::optional<std::uint64_t> execute_at(DirectPlace& there,
                                        const transport::ExecuteAtomicWrite& write, Qpn qpn) {
  const auto region = there.visit(write.key, write.address, 8, region::kRemoteWrite, qpn);
  if (!region) return std::nullopt;
  return execute_at(there, **region, write.key, write.address, to_assist(write));
}

void answer(Assist& wanted, region::RegionTable& regions, const region::Accessor& by) {
  std::optional<std::uint64_t> original;
  if (wanted.kind == Assist::invalidate) {
    if (regions.invalidate(MemoryKey{wanted.key}, by)) original = 0;
  } else if (wanted.kind <= Assist::atomic_write) {
    original = execute(regions, wanted, by);
  }
  wanted.original = original.value_or(0);
  wanted.state.store(original ? Assist::done : Assist::refused, std::memory_order_release);
}

}  // namespace verbatim::adapter
