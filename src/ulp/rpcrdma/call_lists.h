#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ulp/rpcrdma/assembly.h"

namespace verbatim::ulp::rpcrdma {

/// Of an open call, apart from it, for they are long.
struct CallLists {
  Header header;
  Cuts cuts;
};

/// Lists of calls that are over: to fill new ones with zeroes costs more than all else that a short
/// call does. As many as a client usually has open are kept, no more.
class SpareLists {
 public:
  /// The header is an old one.
  std::unique_ptr<CallLists> take() {
    if (kept_.empty()) return std::make_unique<CallLists>();
    std::unique_ptr<CallLists> lists = std::move(kept_.back());
    kept_.pop_back();
    lists->cuts.clear();
    return lists;
  }
  void give_back(std::unique_ptr<CallLists> lists) {
    if (kept_.size() < kKept) kept_.push_back(std::move(lists));
  }

 private:
  static constexpr std::size_t kKept = 8;
  std::vector<std::unique_ptr<CallLists>> kept_;
};

}  // namespace verbatim::ulp::rpcrdma
