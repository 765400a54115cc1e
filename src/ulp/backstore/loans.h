#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "ulp/engine/slots.h"

namespace verbatim::ulp::backstore {

/// Slices that are lent, by tag: they stay where they are until the loan is over. Tags are those of
/// `Slots`, so the table has a place for each of their indices, and allocates only while it grows.
template <typename Loan>
class Loans {
 public:
  Loan& at(Tag tag) {
    const std::size_t index = raw(tag) & 0xffff;
    while (index >= loans_.size()) loans_.emplace_back();
    return loans_[index];
  }

 private:
  std::deque<Loan> loans_;
};

}  // namespace verbatim::ulp::backstore
