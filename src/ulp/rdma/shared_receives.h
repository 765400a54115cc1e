#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "ulp/engine/work.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/rdma/completions.h"

namespace verbatim::ulp::rdma {

/// The receives of all connections: one shared receive queue and the buffers that it holds. A
/// protocol whose peers wait for ever (RNR retry 7) may have fewer than the sum of its credits;
/// where they do not (0), it grants only what is posted.
class SharedReceives {
 public:
  /// `count`: so many are always posted or lent. There are some more, for those that are given back
  /// while the driver handles a batch of completions: it posts them after it, and peers may answer
  /// before. Reserves room for their completions, too.
  static Result<std::unique_ptr<SharedReceives>> create(const Device& device,
                                                        Completions& completions,
                                                        std::uint32_t count, std::uint32_t bytes);
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  /// The message that a completion of kind `receive` has brought. Its buffer is lent until
  /// `give_back`.
  Message take(const Ended& ended);
  /// Posted with the next `post`. A receive that is not lent is an engine's mistake: ignored, and
  /// counted.
  void give_back(ReceiveId receive);
  /// Posts all that was given back, with one call. What the adapter refuses is posted next time.
  void post();
  bool all_posted() const { return to_post_.empty(); }

  std::uint32_t count() const { return buffers_.count(); }
  std::uint32_t lent() const { return lent_count_; }
  std::uint32_t posted() const { return posted_; }
  std::uint64_t mistakes() const { return mistakes_; }
  ibv_srq* queue() const { return queue_; }

 private:
  SharedReceives(BufferPool buffers, Completions& completions);
  void post_some(std::size_t count);

  BufferPool buffers_;
  Completions& completions_;
  ibv_srq* queue_ = nullptr;
  std::vector<bool> is_lent_;
  std::vector<std::uint32_t> to_post_;
  std::uint32_t lent_count_ = 0;
  std::uint32_t posted_ = 0;
  std::uint64_t mistakes_ = 0;
};

}  // namespace verbatim::ulp::rdma
