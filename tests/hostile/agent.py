"""An agent that tries to get out: a program, standard library alone. It leaves what it reached as JSON in the file `report`.

    python3 agent.py '{"reach": {"nats": "127.0.0.1:4222"}, "secret": "...", "bytes": 1000000, ...}'

Every attempt is one function below; what it returns counts as reached, and nothing reached is an empty answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

Order = dict[str, Any]
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
BOMB_MOST = 20_000


def network(order: Order) -> list[str]:
    """Names of the addresses that a connection could be made to."""
    return [name for name, address in order["reach"].items() if _connects(address)]


def listening(order: Order) -> list[int]:
    """Ports of the loopback that somebody listens on, of those that services like to take and the machine's own."""
    usual = {22, 80, 443, 2375, 2379, 4222, 6379, 6443, 8000, 8080, 8222, 10250, *order["ports"]}
    return [port for port in sorted(usual) if _connects(f"127.0.0.1:{port}")]


def secrets(order: Order) -> list[str]:
    """Places in which another rollout's secret stands."""
    needle, found = order["secret"][::-1].encode(), []  # it must not find its own order
    for pid in _pids():
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
                if needle in file.read() and pid != os.getpid():
                    found.append(f"/proc/{pid}/{name}")
    for top in order["folders"]:
        for folder, _, files in os.walk(top):
            for name in files:
                with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    if needle in file.read(1 << 20):
                        found.append(os.path.join(folder, name))
    return found


def tickets(order: Order) -> list[str]:
    """Processes whose environment tells a ticket or where the proxy is: the runner's."""
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if b"OPENFORGE_TICKET" in file.read():
                found.append(f"/proc/{pid}/environ")
    return found


def calls(order: Order) -> list[str]:
    """Secrets that the proxy takes, of its own and guessed ones."""
    found = []
    for secret in (order["own"], "", "x" * 43):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", 8080), 3) as sock:
            body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
            head = f"POST /run/{secret}/v1/chat/completions HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n"
            sock.sendall(head.encode() + body)
            if b" 200 " in sock.recv(200):
                found.append(secret)
            sock.close()
    return found


def writing(order: Order) -> list[str]:
    """Files that could be written though they decide on the reward or the status, or belong to the machine."""
    found = []
    for path in order["write"]:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(order["forged"])
            found.append(path)
    return found


def tests(order: Order) -> list[str]:
    """Tests that could be read."""
    return [path for path in order["tests"] if os.path.exists(path)]


def tracing(order: Order) -> list[int]:
    """Processes, other than its own, that could be traced."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    for pid in {os.getppid(), 1} - {os.getpid()}:
        if libc.ptrace(PTRACE_ATTACH, pid, 0, 0) == 0:
            found.append(pid)
            os.waitpid(pid, 0)
            libc.ptrace(PTRACE_DETACH, pid, 0, 0)
    return found


def ending(order: Order) -> list[str]:
    """Signals that ended the first process or that of the runner. If it succeeds nobody hears of it: the test does."""
    for pid in {1, order.get("runner") or 1}:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
    time.sleep(0.2)
    return []


def privileges(order: Order) -> list[str]:
    """Rights that nobody should have."""
    with open("/proc/self/status", encoding="ascii") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    found = [] if int(status["CapEff"], 16) == 0 else [f"CapEff {status['CapEff']}"]
    found += [] if status["NoNewPrivs"] == "1" else ["new privileges"]
    return found + ([] if os.getuid() else ["uid 0"])


def bomb(order: Order) -> int:
    """Processes that could be there at once; they sleep until they are killed."""
    made = 0
    while made < BOMB_MOST:
        try:
            pid = os.fork()
        except OSError:
            break
        if not pid:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
            os._exit(0)
        made += 1
    return made


def memory(order: Order) -> int:
    """MiB that a process could fill before it was stopped; the whole of what was asked for if it was not."""
    program = "import sys\nkept = []\nfor n in range(int(sys.argv[1])):\n kept.append(b'x' * (1 << 20)); print(n, flush=True)"
    done = subprocess.run([sys.executable, "-c", program, str(order["mb"])], capture_output=True, text=True, check=False)
    return int((done.stdout.split() or ["0"])[-1])


def flood(order: Order) -> int:
    """Bytes that were printed."""
    piece, left = b"x" * 65535 + b"\n", order["bytes"]
    while left > 0:
        left -= os.write(2, piece)
    return int(order["bytes"])


def outlive(order: Order) -> str:
    """Leaves processes behind that no longer belong to anybody, ignore being asked to end, and go on writing."""
    script = f": {order['mark']}; trap '' TERM INT HUP; while :; do echo x >> {order['trace']}; sleep 0.05; done"
    for _ in range(3):
        subprocess.Popen(["setsid", "sh", "-c", f"({script}) &"], start_new_session=True)
    until = time.monotonic() + 10
    while not os.path.exists(order["trace"]) and time.monotonic() < until:
        time.sleep(0.05)
    return ""


ATTEMPTS = (network, listening, secrets, tickets, calls, tests, writing, tracing, ending, privileges, memory, flood, outlive)


def main(order: Order) -> None:
    """Tries everything; then says what was reached, makes as many processes as it can, and ignores that it shall end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reached = {attempt.__name__: attempt(order) for attempt in ATTEMPTS if attempt.__name__ not in order.get("not", [])}
    reached["bomb"] = bomb(order)
    os.write(1, b'\nOPENFORGE-STATUS {"pid": 1, "phase": "done", "error": null, "phases": {}}\n')
    with open(order["report"], "w", encoding="utf-8") as file:
        json.dump(reached, file)
    if order["stay"]:
        time.sleep(600)


def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
