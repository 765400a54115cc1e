#include "adapter/numbers.h"

#include <sys/random.h>

#include "adapter/queue_pair/queue_pair.h"

namespace verbatim::adapter {
namespace {

std::uint32_t local_number(Qpn qpn) { return qpn.value() % kProgramQueuePairsMax; }

}  // namespace

std::uint32_t random_number() {
  std::uint32_t number = 0;
  getrandom(&number, sizeof number, 0);
  return number;
}

QueuePair* Numbers::find(Qpn qpn) const {
  QueuePair* const found = find_local(local_number(qpn));
  return found != nullptr && found->number() == qpn ? found : nullptr;
}

Task* Numbers::find_task(Qpn number) const { return find(number); }

std::uint32_t Numbers::take_number() {
  for (std::uint32_t tries = 0; tries < kProgramQueuePairsMax; ++tries) {
    const std::uint32_t number = ++last_ % kProgramQueuePairsMax;
    if (number != 0 && find_local(number) == nullptr) return number;
  }
  return 0;
}

void Numbers::add(QueuePair& queue_pair) {
  queue_pairs_[local_number(queue_pair.number())].store(&queue_pair, std::memory_order_release);
}

void Numbers::remove(const QueuePair& queue_pair) {
  queue_pairs_[local_number(queue_pair.number())].store(nullptr, std::memory_order_release);
}

}  // namespace verbatim::adapter
