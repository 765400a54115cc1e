#include "base_side.h"

#include "base/error.h"
#include "base/net/address.h"

namespace {

verbatim::Result<int> refused(const char* text) { return verbatim::refuse(EPERM, text); }

}  // namespace

std::string refusal_of_base(const char* text) {
  const auto result = refused(text);
  return result.has_value() ? "" : result.error().text;
}

std::string gid_of_base() {
  const verbatim::Gid gid{};
  return gid == verbatim::Gid{} ? "empty" : "other";
}
