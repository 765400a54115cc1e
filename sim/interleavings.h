#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_set>

/// A model checker: visits every interleaving of the threads' steps, with kills. A step is one
/// sequentially consistent access to shared memory.
namespace verbatim::sim {

/// Result of asking a thread for its next step.
enum class Step : std::uint8_t { taken, waits, ended };

/// Visits every state that can be reached from `first`. `State` consists of bytes only, so that
/// equal states have equal bytes. `take(state, thread)` performs the thread's next step in `state`;
/// `at_end(state)` is called for each state in which no thread can continue. Returns the number of
/// states.
template <typename State>
class Interleavings {
 public:
  static_assert(std::has_unique_object_representations_v<State>);
  using Take = std::function<Step(State&, int)>;
  using AtEnd = std::function<void(const State&)>;

  Interleavings(int threads, Take take, AtEnd at_end)
      : threads_(threads), take_(std::move(take)), at_end_(std::move(at_end)) {}

  std::size_t explore(const State& first) {
    seen_.clear();
    visit(first);
    return seen_.size();
  }

 private:
  void visit(const State& state) {
    std::string bytes(sizeof state, '\0');
    std::memcpy(bytes.data(), &state, sizeof state);
    if (!seen_.insert(std::move(bytes)).second) return;
    bool goes_on = false;
    for (int thread = 0; thread < threads_; ++thread) {
      State next = state;
      if (take_(next, thread) != Step::taken) continue;
      goes_on = true;
      visit(next);
    }
    if (!goes_on) at_end_(state);
  }

  int threads_;
  Take take_;
  AtEnd at_end_;
  std::unordered_set<std::string> seen_;
};

}  // namespace verbatim::sim
