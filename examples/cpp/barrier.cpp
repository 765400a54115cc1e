// barrier: N processes wait for each other, again and again. Each WRITEs its round number to the
// memory of the first one; when all have done so, the first one WRITEs it to the memory of all
// others. A waiting process polls its own memory and needs no message.
//
//   verbatim run --node a --address 127.0.0.2 -- build/bin/examples/barrier 3 &
//   verbatim run --node b --address 127.0.0.3 -- build/bin/examples/barrier 127.0.0.2 &
//   verbatim run --node c --address 127.0.0.4 -- build/bin/examples/barrier 127.0.0.2

#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <verbatim/verbatim.h>

using namespace verbatim;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint16_t kPort = 7476;
constexpr std::uint64_t kRounds = 5;

// Waits until the peer has written `round` or more to a word of this process.
void await(std::uint64_t& word, std::uint64_t round, const QueuePair& peer) {
  const auto has_come = [&] {
    return std::atomic_ref(word).load(std::memory_order_acquire) >= round;
  };
  for (int looks = 1; !has_come(); ++looks) {
    if (looks % 1024 == 0 && !peer.is_connected() && !has_come())
      throw std::runtime_error("a process has left before the last round");
    std::this_thread::yield();
  }
}

std::vector<std::byte> bytes_of(const RegionToken& token) {
  const auto bytes = token.to_bytes();
  return {bytes.begin(), bytes.end()};
}

// The first process. `arrived` has a word for each process; index 0 is its own.
class First {
 public:
  First(const ProtectionDomain& domain, std::size_t size)
      : arrived_(domain.allocate(size * 8).value()), round_(domain.allocate(8).value()) {
    Listener listener = Listener::open(domain, {.port = kPort}).value();
    for (std::size_t rank = 1; rank < size; ++rank) {
      // Each process writes its own word; the byte after the token says which one that is.
      ConnectOptions offer{.data = bytes_of(arrived_.token())};
      offer.data.push_back(std::byte(rank));
      members_.push_back(listener.accept(offer).value());
    }
  }

  void wait(std::uint64_t round) {
    for (std::size_t i = 0; i < members_.size(); ++i)
      await(arrived_.as<std::uint64_t>()[i + 1], round, members_[i]);
    round_.as<std::uint64_t>()[0] = round;
    for (QueuePair& member : members_)
      member.post_write(round_.slice(), RegionToken::from_bytes(member.peer_data()).value())
          .value();
    for (QueuePair& member : members_) member.drain().value();
  }

 private:
  Buffer arrived_, round_;
  std::vector<QueuePair> members_;
};

class Member {
 public:
  Member(const ProtectionDomain& domain, const std::string& first)
      : round_(domain.allocate(16).value()),
        qp_(connect(domain, first, kPort, {.data = bytes_of(round_.token(0, 8))}).value()) {
    const auto data = qp_.peer_data();
    arrived_ = RegionToken::from_bytes(data).value();
    if (data.size() > RegionToken::kBytes)
      rank_ = std::to_integer<std::size_t>(data[RegionToken::kBytes]);
  }
  std::size_t rank() const { return rank_; }

  void wait(std::uint64_t round) {
    round_.as<std::uint64_t>()[1] = round;
    qp_.write(round_.slice(8, 8), arrived_.slice(rank_ * 8, 8)).wait().value();
    await(round_.as<std::uint64_t>()[0], round, qp_);
  }

  // Only the first process ends the connection, after its last write has arrived: an earlier end
  // would make that write fail.
  void leave() {
    while (qp_.is_connected()) std::this_thread::yield();
  }

 private:
  Buffer round_;  // The round that the first process has released, and our own.
  QueuePair qp_;
  RegionToken arrived_;
  std::size_t rank_ = 0;
};

// Rank 1 works for ten milliseconds, rank 2 for twenty; all wait for the last.
template <typename Barrier>
void work(Barrier& barrier, std::size_t rank) {
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * rank));
    const auto begin = Clock::now();
    barrier.wait(round);
    const std::chrono::duration<double, std::milli> waited = Clock::now() - begin;
    std::cout << "process " << rank << ", round " << round << ": waited " << waited.count() << " ms"
              << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string word = argc == 2 ? argv[1] : "-";
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  if (word[0] == '-' || (is_number && (std::stoul(word) < 1 || std::stoul(word) > 255))) {
    std::cerr << "usage: barrier NUMBER_OF_PROCESSES   the first of 1 to 255 processes\n"
                 "       barrier ADDRESS_OF_THE_FIRST  each other one\n";
    return 2;
  }
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  if (is_number) {
    First barrier(domain, std::stoul(word));
    work(barrier, 0);
  } else {
    Member barrier(domain, word);
    work(barrier, barrier.rank());
    barrier.leave();
  }
} catch (const std::exception& error) {
  std::cerr << "barrier: " << error.what() << '\n';
  return 1;
}
