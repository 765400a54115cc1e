/// The functions of fmt, compiled once. Debian has them only as a shared library, which a drop-in
/// must not require of a program. Header-only, each file would compile them again (four seconds of
/// CPU time each). `fmt_templates.cpp` has the instances of fmt's templates.
#include <fmt/format-inl.h>
