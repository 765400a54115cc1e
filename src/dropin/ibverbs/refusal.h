#pragma once

#include "base/error.h"

/// Where an Error becomes an errno value: each refusal is logged here, once, with the call's name.
namespace verbatim::dropin {

/// Logs `call: text` (warn; what happens in the normal course of a program, such as EAGAIN or
/// EBUSY, at debug) and returns the code.
int refused(const char* call, const Error& error);

/// The same for calls that set errno and return a null pointer.
std::nullptr_t refused_null(const char* call, const Error& error);

/// The same for calls that set errno and return -1.
int refused_minus_one(const char* call, const Error& error);

}  // namespace verbatim::dropin
