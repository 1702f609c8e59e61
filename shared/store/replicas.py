"""The table of engines that serve the policy: which of them take calls, and under which weight version.

A call is given to one of them in the step that numbers it (`shared.store.intents`): the one that its session used before, for
its prefix cache, unless that has over twice as many calls in flight as another, and two; else the open one with the fewest.
While weights are pushed to one after another, sessions crowd at those that are open; afterwards they spread again.
The trainer closes and opens them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.errors import StoreWiped
from shared.store.connect import Client, Keys, store_errors, text

# A chunk of Lua: from the table and the calls in flight to the replica that takes the next call.
# `entries`: the table as HGETALL gives it; `calls`: name of the hash of calls in flight; `avoid`: set of those that
# are taken only if there is no other.
CHOOSE = """
local function chooser(entries, calls)
  local version, open, load = {}, {}, nil
  for n = 1, #entries, 2 do
    local state, stamp = string.match(entries[n + 1], '^(%a+) (%d+)$')
    if state == 'open' then
      version[entries[n]] = stamp
      open[#open + 1] = entries[n]
    end
  end
  local function count()
    load = {}
    for _, replica in ipairs(open) do load[replica] = 0 end
    for _, call in ipairs(redis.call('HVALS', calls)) do
      local replica = string.match(call, ' (.*)$')
      if load[replica] then load[replica] = load[replica] + 1 end
    end
  end
  local function choose(own, avoid)
    if #open < 2 then return open[1] end
    if not load then count() end
    local best, rest
    for _, replica in ipairs(open) do
      if avoid and avoid[replica] then
        if not rest or load[replica] < load[rest] then rest = replica end
      elseif not best or load[replica] < load[best] then best = replica end
    end
    best = best or rest
    if own and version[own] and load[own] <= 2 * load[best] + 2 then best = own end
    load[best] = load[best] + 1
    return best
  end
  return choose, version
end
"""

# KEYS: table   ARGV: seconds for which it is kept; replica, state per replica.  What is known stays.
_RESTORE = """
for n = 2, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[n], ARGV[n + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""

# KEYS: table, calls in flight   ARGV: prefix of the keys of proxies.  Returns table, calls in flight of proxies that live
_LOOK = """
local alive, calls = {}, {}
for _, call in ipairs(redis.call('HVALS', KEYS[2])) do
  local proxy, replica = string.match(call, '^(%S+) (.*)$')
  if alive[proxy] == nil then alive[proxy] = redis.call('EXISTS', ARGV[1] .. proxy) == 1 end
  if alive[proxy] then calls[#calls + 1] = replica end
end
return {redis.call('HGETALL', KEYS[1]), calls}
"""


_UNKNOWN = "the store does not know the engine's weight version; a proxy restores it from the bus"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica as the table has it.

    Attributes:
        open: it takes calls.
        version: that calls are stamped with.
        calls: in flight at it, of proxies that live.
    """

    open: bool
    version: int
    calls: int = 0


class Replicas:
    """The table of one run. Replicas are named by their address.

    Every method raises `StoreUnavailable` when the store does not answer in time.
    """

    def __init__(self, client: Client, key: Keys, life_s: int) -> None:
        self._redis = client
        self._table, self._calls, self._proxies = key("replicas"), key("replicas", "calls"), key("proxy", "")
        self._life_s = life_s
        self._restore = client.register_script(_RESTORE)
        self._look = client.register_script(_LOOK)

    async def open(self, replica: str, version: int) -> None:
        """Lets calls begin at a replica, stamped with a version."""
        await self._set(replica, f"open {version}")

    async def close(self, replica: str, version: int) -> None:
        """No further call begins at a replica. `version` is the one that those in flight are sampled from at the end."""
        await self._set(replica, f"closed {version}")

    async def restore(self, versions: Mapping[str, int]) -> None:
        """Opens the replicas that are not in the table."""
        states = [field for replica, version in versions.items() for field in (replica, f"open {version}")]
        with store_errors("restore the replicas"):
            await self._restore(keys=[self._table], args=[self._life_s, *states])

    async def retain(self, replicas: Iterable[str]) -> None:
        """Forgets all others: engines of an earlier stack of the run, which had other addresses."""
        wanted = set(replicas)
        with store_errors("look at the replicas"):
            if gone := [name for name in map(text, await self._redis.hkeys(self._table)) if name not in wanted]:
                await self._redis.hdel(self._table, *gone)

    async def unknown(self, replicas: Iterable[str]) -> list[str]:
        """Those of some replicas that are not in the table: it is new, or the store lost it."""
        wanted = list(replicas)
        with store_errors("look at the replicas"):
            states = await self._redis.hmget(self._table, wanted)
        return [replica for replica, state in zip(wanted, states, strict=True) if state is None]

    async def look(self) -> dict[str, ReplicaState]:
        """The whole table."""
        with store_errors("look at the replicas"):
            entries, calls = await self._look(keys=[self._table, self._calls], args=[self._proxies])
        count = Counter(text(call) for call in calls)
        names = [text(entry) for entry in entries]
        return {name: _state(state, count[name]) for name, state in zip(names[::2], names[1::2], strict=True)}

    async def in_flight(self, replica: str = "") -> int:
        """Calls of living proxies between `begin` and `end`: at a replica, or in all."""
        with store_errors("count open calls"):
            _, calls = await self._look(keys=[self._table, self._calls], args=[self._proxies])
        return sum(not replica or text(call) == replica for call in calls)

    async def version(self, replica: str) -> int:
        """The weight version of a replica.

        Raises:
            StoreWiped: it is not known.
        """
        with store_errors("read the version"):
            state = await self._redis.hget(self._table, replica)
        if state is None:
            raise StoreWiped(_UNKNOWN)
        return _state(text(state), 0).version

    async def newest(self) -> int:
        """The highest weight version of any replica. Raises StoreWiped if none is known."""
        table = await self.look()
        if not table:
            raise StoreWiped(_UNKNOWN)
        return max(state.version for state in table.values())

    async def _set(self, replica: str, state: str) -> None:
        with store_errors("note the state of a replica"):
            await self._redis.hset(self._table, replica, state)


def _state(words: str, calls: int) -> ReplicaState:
    state, version = words.split()
    return ReplicaState(state == "open", int(version), calls)
