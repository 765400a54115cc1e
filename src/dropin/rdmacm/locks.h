#pragma once

/// A private symbol of our librdmacm for librspreload, beside rsockets.
extern "C" {

/// Returns a descriptor that holds the lock of this name, among all processes of this user and
/// network namespace, until its last copy is closed; else -1 and errno: EWOULDBLOCK if another
/// holds it.
__attribute__((visibility("default"))) int verbatim_take_lock(const char* name);

}  // extern "C"
