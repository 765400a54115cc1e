// A target needs a source; this one has precompiled headers only.
