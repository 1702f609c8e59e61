"""Conformance: every harness program, unmodified, through every scene, in a real sandbox, through a real stack.

``make conformance`` (``HARNESS=codex,pi``, ``SCENE=plain,tools`` for some). The engine follows a script, but tokenises and
speaks as real ones do (`tests/engine/real.py`). What differs between programs stands in `programs.toml`.
"""
