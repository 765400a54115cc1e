#pragma once

#include <span>

#include "ulp/backstore/store.h"

namespace verbatim::ulp::backstore {

/// What a store has answered last.
struct Answered final : Answers {
  void on_pages(Tag, storage::StoreStatus status, std::span<const Slice> lent) override {
    add(status);
    pages = lent;
  }
  void on_stored(Tag, storage::StoreStatus status) override { add(status); }
  void add(storage::StoreStatus status) { last = status, ++count; }

  storage::StoreStatus last = storage::StoreStatus::gone;  // Not answered.
  int count = 0;
  std::span<const Slice> pages;
};

}  // namespace verbatim::ulp::backstore
