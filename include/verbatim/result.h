#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include <verbatim/error.h>

namespace verbatim::inline v1 {

[[noreturn]] void throw_error(const Failure& failure);

/// A value, or a failure. It has the shape of `std::expected`, but is the same type in C++20 and
/// C++23 (so that programs of both link with one library), and its `value()` throws
/// `verbatim::Error`:
///
///     auto context = Context::open();             // Look, and go on: if (!context) ...
///     auto context = Context::open().value();     // Or let it throw.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Failure;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(const Failure& failure) : state_(std::in_place_index<1>, failure) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// Undefined without a value, as in `std::expected`.
  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }
  const Failure& error() const noexcept { return *std::get_if<1>(&state_); }

  T& value() & { return check(), **this; }
  const T& value() const& { return check(), **this; }
  T value() && { return check(), std::move(**this); }

  template <typename U>
  T value_or(U&& other) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }
  template <typename U>
  T value_or(U&& other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }

  /// `next` takes the value and returns a `Result`.
  template <typename F>
  auto and_then(F&& next) && -> std::invoke_result_t<F, T&&> {
    if (!has_value()) return error();
    return std::invoke(std::forward<F>(next), std::move(**this));
  }
  /// `change` takes the value and returns another value.
  template <typename F>
  auto transform(F&& change) && -> Result<std::invoke_result_t<F, T&&>> {
    if (!has_value()) return error();
    return std::invoke(std::forward<F>(change), std::move(**this));
  }
  /// `mend` takes the failure and returns a `Result` of the same type.
  template <typename F>
  Result or_else(F&& mend) && {
    if (has_value()) return std::move(*this);
    return std::invoke(std::forward<F>(mend), error());
  }

 private:
  void check() const {
    if (!has_value()) throw_error(error());
  }
  std::variant<T, Failure> state_;
};

/// Success without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Failure;

  Result() = default;
  Result(const Failure& failure) : failure_(failure) {}

  bool has_value() const noexcept { return failure_.status == Status::success; }
  explicit operator bool() const noexcept { return has_value(); }
  const Failure& error() const noexcept { return failure_; }
  void value() const {
    if (!has_value()) throw_error(failure_);
  }
  template <typename F>
  auto and_then(F&& next) const -> std::invoke_result_t<F> {
    if (!has_value()) return failure_;
    return std::invoke(std::forward<F>(next));
  }

 private:
  Failure failure_;
};

}  // namespace verbatim::inline v1
