#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace verbatim::cli {

/// What rules match: an interface that is being added. `address`: 20 bytes with colons.
struct RuledInterface {
  std::string address;
  unsigned port = 1;  // dev_id is one less.
};

/// The name that rules in the form of Debian's 70-persistent-ipoib.rules give an interface: as with
/// udev, all keys of a rule have to match, and the last rule that gives a name counts. Keys that
/// are not known match nothing.
std::optional<std::string> name_by_rules(std::string_view rules, const RuledInterface& interface);

}  // namespace verbatim::cli
