"""A package, so that `tests.engine` is ours even where a library installs its own top-level `tests`."""
