#pragma once

#include <string>

/// What the tree's own `base` says, asked from a file that sees no public header.
std::string refusal_of_base(const char* text);
std::string gid_of_base();
