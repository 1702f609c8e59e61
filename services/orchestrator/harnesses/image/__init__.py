"""Harness images: everything that has to be brought into a task's image, in one folder (see `layout`).

recipe.py the Dockerfile of a harness and what it is built from (pure) · bring.py run in that build: a Python for any image
"""
