"""Supervised training: rows from conversations and exports, and the stage that learns from them."""
