"""The store: what several processes must agree on, in Redis. Atomic steps are Lua scripts beside the modules that use them.

Real servers (valkey, Redis) and the in-memory twin (fakeredis, which runs the same scripts) pass one contract suite.

- `connect`   clients with timeouts and retries
- `sessions`  recording sessions: secret, call numbers, intents, sealing
- `replicas`  the engines that take calls: open or closed, weight version, calls in flight
- `assembly`  calls and outcomes per session, settled attempts per group, the outbox
- `epoch`     whether all of it is still there
- `blobs`     bodies too large for the bus
- `shares`    what several runs hold of one pool of places
"""
