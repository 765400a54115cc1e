#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/engine/slots.h"

namespace verbatim::ulp::backstore {

/// Slices that are lent, by tag: they stay where they are until the loan is over. Tags are those of
/// `Slots`, so the table has a place for each of their indices, and allocates only while it grows.
template <typename Loan>
class Loans {
 public:
  Loan& at(Tag tag) {
    const std::size_t index = raw(tag) & 0xffff;
    if (index >= loans_.size()) loans_.resize(index + 1);
    if (loans_[index] == nullptr) loans_[index] = std::make_unique<Loan>();
    return *loans_[index];
  }

 private:
  std::vector<std::unique_ptr<Loan>> loans_;
};

}  // namespace verbatim::ulp::backstore
