/// AddressSanitizer's library of GCC ends a program in whose list of libraries another one comes
/// first, as a preloaded one does. The view's calls lead on to the sanitizer's own, so the order is
/// harmless. This is a default: ASAN_OPTIONS counts for more. A program that defines this function
/// itself gets its own; `verbatim run` puts the library first for it.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}
