#pragma once

/// What librspreload needs of our librdmacm beside rsockets: a private symbol.
extern "C" {

/// A descriptor that holds the lock of this name, of all processes of the user and network
/// namespace, until its last copy is closed; else -1 and errno: EWOULDBLOCK where another has it.
__attribute__((visibility("default"))) int verbatim_take_lock(const char* name);

}  // extern "C"
