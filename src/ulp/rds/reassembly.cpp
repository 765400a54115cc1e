#include "ulp/rds/reassembly.h"

#include <algorithm>

namespace verbatim::ulp::rds {

std::expected<std::optional<Reassembly::Message>, const char*> Reassembly::add(const Header& header,
                                                                               ByteSpan data) {
  const bool is_same = header.sequence == header_.sequence && header.bytes == header_.bytes &&
                       header.source_port == header_.source_port &&
                       header.destination_port == header_.destination_port;
  if (is_begun_ && !is_same) return std::unexpected("a fragment of another message");
  const std::size_t had = is_begun_ ? bytes_.size() : 0;
  if (data.size() != std::min<std::size_t>(kFragmentBytes, header.bytes - had))
    return std::unexpected("a fragment of a wrong length");
  if (had == 0 && data.size() == header.bytes) return Message{header, data};
  if (!is_begun_) {
    header_ = header;
    bytes_.clear();
    bytes_.reserve(header.bytes);
    is_begun_ = true;
  }
  bytes_.insert(bytes_.end(), data.begin(), data.end());
  if (bytes_.size() < header.bytes) return std::nullopt;
  is_begun_ = false;
  return Message{header_, bytes_};
}

}  // namespace verbatim::ulp::rds
