#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "ulp/rds/wire/header.h"

namespace verbatim::ulp::rds {

/// Fragments become messages. They come in order, and a message's without others' between.
class Reassembly {
 public:
  struct Message {
    Header header;   // Of its first fragment.
    ByteSpan bytes;  // Until the next call.
  };
  /// Empty: fragments are missing yet. Error: words; the peer broke the rules.
  std::expected<std::optional<Message>, const char*> add(const Header& header, ByteSpan data);
  /// The connection is cut: the rest of a message comes no more.
  void forget() { is_begun_ = false; }

 private:
  bool is_begun_ = false;
  Header header_;
  std::vector<std::byte> bytes_;
};

}  // namespace verbatim::ulp::rds
