#pragma once

/// What the exported functions without an implementation say. `name` lives for ever.
namespace verbatim::dropin {

/// Each logs `name` the first time it is called, and fails with EOPNOTSUPP: as return value; as
/// errno with -1, with a null pointer (or zero); or, where the function returns nothing, by the log
/// line alone.
int refuse_as_errno(const char* name);
int refuse_as_minus_one(const char* name);
void* refuse_as_null(const char* name);
void refuse_without_value(const char* name);

}  // namespace verbatim::dropin
