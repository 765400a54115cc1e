#pragma once

#include <string_view>

#include "base/error.h"

/// Converts an Error to an errno value. Each refusal is logged here, once, with the call's name.
namespace verbatim::dropin {

/// Logs `call: text` and returns the code. The level is warn; debug for codes that are normal, such
/// as EAGAIN or EBUSY; info for calls, descriptors and indices that libraries try to find out what
/// there is: all is well if they are refused.
int refused(const char* call, const Error& error);

/// Returns true for a call that libraries try at each start.
bool is_probed(std::string_view call);

/// The same for calls that set errno and return a null pointer.
std::nullptr_t refused_null(const char* call, const Error& error);

/// The same as info, of a value that programs find by trying.
std::nullptr_t probed_null(const char* call, const Error& error);

/// The same for calls that set errno and return -1.
int refused_minus_one(const char* call, const Error& error);

}  // namespace verbatim::dropin
