#pragma once

namespace verbatim {

/// For std::visit: a lambda for each alternative.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace verbatim
