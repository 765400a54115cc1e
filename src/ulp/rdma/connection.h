#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <infiniband/verbs.h>

#include "ulp/engine/work.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/completions.h"

namespace verbatim::ulp::rdma {

/// Binds a memory window of type 2 before the work that follows (`Windows` fills this in).
struct Bind {
  ibv_mw* window = nullptr;
  ibv_mr* region = nullptr;
  Slice bytes{};
  MemoryKey key{};
  bool peer_writes = false;
};
/// Fetch-and-add, or compare-and-swap if `compares`, of 8 bytes; `into` gets what was there.
struct Atomic {
  bool compares = false;
  std::uint64_t value = 0;    // What is added, or swapped in
  std::uint64_t compare = 0;  // if this is there.
  Slice into{};
  RemoteRange remote{};
  Tag done = kNoTag;
};
/// Ends a key of this side's (IBV_WR_LOCAL_INV).
struct EndKey {
  MemoryKey key{};
};

/// Carries out an engine's work on one queue pair. Signals a request if it has a tag, if it uses a
/// buffer of the pool, or if a quarter of the queue has been posted since the last one: only a
/// completion makes room.
class Connection {
 public:
  struct Setup {
    ibv_qp* queue_pair = nullptr;
    std::uint32_t number = 0;  // Of its work requests' ids.
    std::uint8_t count = 0;
    std::uint32_t depth = 0;  // The queue pair has one more, for `close`.
    std::uint32_t slices = 1;
    std::uint32_t inline_bytes = 0;
    bool reads_of_one_slice = false;  // iWARP.
    BufferPool* headers = nullptr;    // For what is too long to be sent inline; shared.
  };
  explicit Connection(const Setup& setup) : setup_(setup), owed_(setup.depth) {}

  /// Posts what fits, as one chain; keeps the rest, in order. `PostAgain` is the caller's. Returns
  /// why the connection must end: the reason of a `Disconnect`, or that the adapter refuses.
  std::optional<const char*> carry_out(std::span<const Work> work);
  std::optional<const char*> carry_out(const Bind& bind) { return carry_out_one(bind); }
  std::optional<const char*> carry_out(const Atomic& atomic) { return carry_out_one(atomic); }
  std::optional<const char*> carry_out(const EndKey& key) { return carry_out_one(key); }
  /// Posts what was kept, as far as there is room: after `on_ended`.
  std::optional<const char*> resume();
  /// Another connection may have given back what this one waits for.
  bool waits_for_header() const { return waits_for_header_; }

  /// A completion of its work: calls `give_back(Tag)` for each tag up to it, in order.
  template <typename GiveBack>
  void on_ended(const Ended& ended, GiveBack give_back) {
    // What is over, or was never posted, is no completion of this user of the number.
    if (ended.id.count != setup_.count || ended.id.value - ended_ >= posted_ - ended_) return;
    ended_ = ended.id.value + 1;
    while (owed_count_ > 0 && first_owed().sequence - ended_ >= 1u << 31) {
      const Owed owed = pop_owed();
      if (owed.tag != kNoTag) give_back(owed.tag);
    }
  }

  /// The queue pair is in the error state: nothing more is posted but one request, whose completion
  /// says that all before it are over, signaled or not.
  void close();
  bool is_closed() const { return is_closed_; }
  bool has_work_in_flight() const { return posted_ != ended_; }
  /// The adapter touches nothing more: calls `give_back(Tag)` for the tags that are still out.
  template <typename GiveBack>
  void finish(GiveBack give_back) {
    is_closed_ = true;
    ended_ = posted_;
    while (owed_count_ > 0) {
      const Owed owed = pop_owed();
      if (owed.tag != kNoTag) give_back(owed.tag);
    }
    for (const Kept& kept : kept_) {
      if (const Tag tag = tag_of(kept.request); tag != kNoTag) give_back(tag);
    }
    kept_.clear();
  }

  ibv_qp* queue_pair() const { return setup_.queue_pair; }

 private:
  static constexpr std::size_t kChain = 32;
  static constexpr std::uint32_t kNoHeader = ~std::uint32_t{0};
  using Request = std::variant<Send, Write, Read, Bind, EndKey, Atomic>;
  /// How far a request is posted that is longer than one work request may be.
  struct Progress {
    std::size_t slices = 0;
    std::uint64_t bytes = 0;
  };
  struct Kept {
    Request request;
    std::vector<std::byte> header;
    Progress progress{};
  };
  /// What a completion gives back.
  struct Owed {
    std::uint32_t sequence = 0;
    Tag tag{};
    std::uint32_t header = kNoHeader;
  };
  struct Chain {
    std::array<ibv_send_wr, kChain> requests;
    std::array<ibv_sge, 4 * kChain> slices;
    std::size_t request_count = 0;
    std::size_t slice_count = 0;
  };
  enum class Added : std::uint8_t { all, part };

  static Tag tag_of(const Request& request);
  std::optional<const char*> carry_out_one(const Request& request);
  /// Of one of the requests' kinds, or `Request`.
  template <typename One>
  void put(Chain& chain, const One& request);
  void keep(const Request& request, const Progress& progress);
  void post_kept(Chain& chain);
  Added add(Chain& chain, const Request& request, Progress& progress);
  Added add(Chain& chain, const Send& send, Progress& progress);
  Added add(Chain& chain, const Write& write, Progress& progress);
  Added add(Chain& chain, const Read& read, Progress& progress);
  Added add(Chain& chain, const Bind& bind, Progress& progress);
  Added add(Chain& chain, const EndKey& key, Progress& progress);
  Added add(Chain& chain, const Atomic& atomic, Progress& progress);
  Added add_moved(Chain& chain, ibv_wr_opcode opcode, std::span<const Slice> local,
                  const RemoteRange& remote, Tag tag, Progress& progress);
  bool is_full() const { return posted_ + chained_ - ended_ >= setup_.depth; }
  ibv_send_wr& next(Chain& chain, ibv_wr_opcode opcode);
  void add_slices(Chain& chain, ibv_send_wr& request, std::span<const Slice> slices) const;
  void end_request(ibv_send_wr& request, Tag tag, std::uint32_t header);
  void post(Chain& chain);
  void drop(Chain& chain);
  std::optional<const char*> answer() const {
    return reason_ == nullptr ? std::nullopt : std::optional(reason_);
  }
  const Owed& first_owed() const { return owed_[owed_first_]; }
  Owed pop_owed();

  Setup setup_;
  std::vector<Owed> owed_;  // A ring.
  std::uint32_t owed_first_ = 0, owed_count_ = 0;
  std::uint32_t posted_ = 0, ended_ = 0;  // Sequence numbers, which wrap.
  std::uint32_t chained_ = 0;             // In the chain that is built.
  std::uint32_t unsignaled_ = 0;
  std::list<Kept> kept_;
  const char* reason_ = nullptr;  // Why the connection must end.
  bool waits_for_header_ = false;
  bool is_closed_ = false;   // Nothing more is posted,
  bool is_closing_ = false;  // after the last request.
};

}  // namespace verbatim::ulp::rdma
