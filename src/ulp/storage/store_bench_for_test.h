#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/overloaded.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::storage {

/// The store's side of one session, with a disk in memory. Lends pages in pieces of `page` bytes.
class StoreBench {
 public:
  StoreBench(std::span<std::byte> disk, Session& session, std::uint32_t page = 1 << 30)
      : disk_(disk), session_(session), page_(page) {}

  void take(const StoreRequest& request) {
    if (const auto* const back = std::get_if<GiveBack>(&request)) {
      EXPECT_EQ(loans_.erase(raw(back->tag)), 1u) << "given back, but not lent";
    } else {
      waiting.push_back(request);
    }
  }
  /// Answers the request of this index.
  void answer(std::size_t index, TimeNs now, Output& out) {
    const StoreRequest request = waiting.at(index);
    waiting.erase(waiting.begin() + static_cast<long>(index));
    const auto stored = [&](Tag tag) { session_.on_stored(tag, StoreStatus::done, now, out); };
    std::visit(Overloaded{[&](const Borrow& b) {
                            session_.on_pages(b.tag, StoreStatus::done, lend(b), now, out);
                          },
                          [&](const Put& p) {
                            std::byte* at = disk_.data() + p.offset;
                            for (const Slice& slice : p.from) {
                              if (slice.data != at) std::memcpy(at, slice.data, slice.bytes);
                              at += slice.bytes;
                            }
                            loans_.erase(raw(p.tag));
                            stored(p.tag);
                          },
                          [&](const Flush& f) { stored(f.tag); },
                          [&](const Clear& c) {
                            std::memset(disk_.data() + c.offset, 0, c.bytes);
                            stored(c.tag);
                          },
                          [](const GiveBack&) {}},
               request);
  }
  std::size_t loans() const { return loans_.size(); }

  std::vector<StoreRequest> waiting;

 private:
  std::span<const Slice> lend(const Borrow& borrow) {
    std::vector<Slice>& loan = loans_[raw(borrow.tag)];
    loan.clear();
    for (std::uint32_t at = 0; at < borrow.bytes; at += page_)
      loan.push_back(
          {disk_.data() + borrow.offset + at, std::min(page_, borrow.bytes - at), MemoryKey{1}});
    return loan;
  }

  const std::span<std::byte> disk_;
  Session& session_;
  const std::uint32_t page_;
  std::map<std::uint32_t, std::vector<Slice>> loans_;
};

}  // namespace verbatim::ulp::storage
