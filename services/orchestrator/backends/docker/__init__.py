"""Sandboxes as containers of a docker engine.

backend.py the port · view.py the containers as the engine knows them · watching.py, events.py what happens to them ·
container.py what a container is asked to be, and what became of it (pure) · engine.py the engine and its errors · images.py
images of tasks · context.py what they are built from · tools.py what is brought into containers · keep.py which images stay ·
files.py, commands.py what is done in running ones · network.py the internet's network
"""
