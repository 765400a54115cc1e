#pragma once

namespace verbatim {

/// Combines lambdas, one for each alternative, for std::visit.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace verbatim
