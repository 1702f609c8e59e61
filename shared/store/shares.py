"""What several runs hold of one pool of places. Who gets the next place is not decided here, only agreed upon.

A pool is a hash with one part for each run. Whoever writes its part must have looked at all parts as they still are, so that
two never give themselves the same place; who is too late looks again. Times are those of the server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from shared.store.connect import Client, raw, store_errors, text

SETTLE_S = 3.0
"""How long a pool is young: in one that a server lost, all runs have said by then what they hold."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
"""

# KEYS: pool   ARGV: milliseconds that it is kept.  Returns version, microseconds since it began, run, part, run, part...
_LOOK = f"""{_NOW}
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'began', string.format('%.0f', now), 'version', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local all, found, gone = redis.call('HGETALL', KEYS[1]), {{}}, false
for n = 1, #all, 2 do found[all[n]] = all[n + 1] end
local parts = {{}}
for name, value in pairs(found) do
  local run = string.match(name, '^part:(.*)$')
  if run and now < tonumber(found['until:' .. run]) then
    parts[#parts + 1] = run
    parts[#parts + 1] = value
  elseif run then
    redis.call('HDEL', KEYS[1], name, 'until:' .. run)
    gone = true
  end
end
local version = gone and redis.call('HINCRBY', KEYS[1], 'version', 1) or found['version']
return {{tostring(version), string.format('%.0f', now - tonumber(found['began'])), unpack(parts)}}
"""

# KEYS: pool   ARGV: version, run, part, milliseconds of its lease.  Returns 1, or 0 if somebody wrote meanwhile.
_PUT = f"""{_NOW}
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'part:' .. ARGV[2], ARGV[3], 'until:' .. ARGV[2], string.format('%.0f', now + ARGV[4] * 1000))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
"""

# KEYS: pool   ARGV: run
_LEAVE = """
if redis.call('HDEL', KEYS[1], 'part:' .. ARGV[1], 'until:' .. ARGV[1]) > 0 then
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
"""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has of a pool, and asks for.

    Attributes:
        weight: of the run, against that of others.
        size: places that the pool has, as that run was told.
        held: places with a sandbox.
        want: places that it could use now, with those that it holds.
        room: places that it may hold until it says otherwise; never less than `held`.
        turn: when it was last given a place, as a number that grows with every one that is given.
    """

    weight: float
    size: int
    held: int
    want: int
    room: int
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as it was looked at.

    Attributes:
        version: changes whenever a part does.
        young: it began a moment ago; others may hold places that they had no time to tell of.
        parts: by run.
    """

    version: str
    young: bool
    parts: dict[str, Part]


class Shares:
    """The parts of one pool. Every method raises `StoreUnavailable` when the store does not answer in time.

    Args:
        client: of the store; closed with this.
        pool: its name.
        lease_s: seconds for which a part holds.
        settle_s: see `SETTLE_S`.
    """

    def __init__(self, client: Client, pool: str, lease_s: float, settle_s: float = SETTLE_S) -> None:
        self._client, self.lease_s = client, lease_s
        self._key, self._settle_us, self._lease_ms = f"of:pool:{{{pool}}}", settle_s * 1e6, int(lease_s * 1000)
        self._look, self._put = client.register_script(_LOOK), client.register_script(_PUT)
        self._leave = client.register_script(_LEAVE)

    async def look(self) -> Pool:
        """All parts whose lease has not run out."""
        with store_errors("look at a pool"):
            version, age, *found = await self._look(keys=[self._key], args=[self._lease_ms])
        pairs = zip(found[::2], found[1::2], strict=True)
        parts = {text(run): msgspec.json.decode(raw(part) or b"", type=Part) for run, part in pairs}
        return Pool(text(version), int(age) < self._settle_us, parts)

    async def put(self, version: str, run: str, part: Part) -> bool:
        """Keeps a run's part for a lease. False, and nothing is kept, if the pool is not at `version` any more."""
        with store_errors("keep a part of a pool"):
            body = msgspec.json.encode(part)
            return bool(await self._put(keys=[self._key], args=[version, run, body, self._lease_ms]))

    async def leave(self, run: str) -> None:
        """A run holds nothing any more."""
        with store_errors("leave a pool"):
            await self._leave(keys=[self._key], args=[run])

    async def close(self) -> None:
        """Ends the connection."""
        await self._client.aclose()
