#pragma once

/// Bodies of exported functions that are not implemented. `name` must be a string literal.
namespace verbatim::dropin {

/// Each logs `name` once and fails with EOPNOTSUPP: as the return value; in errno with -1; in errno
/// with a null pointer (or zero); functions without a result only log.
int refuse_as_errno(const char* name);
int refuse_as_minus_one(const char* name);
void* refuse_as_null(const char* name);
void refuse_without_value(const char* name);

}  // namespace verbatim::dropin
