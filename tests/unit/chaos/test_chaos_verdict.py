"""The checker can fail: every way in which a run may go wrong shows in its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from services.collector.assemble import assemble
from services.collector.tokens import total, untrain
from shared.events import LATE, GroupCompleted, GroupDiscarded, Trajectory, TrajectoryAssembled, TrajectoryDiscarded
from shared.packing import pack_ids
from tests.chaos.evidence import Closed, Evidence, Sampled, Told, read_engine, read_harness
from tests.chaos.verdict import Verdict, judge
from tests.engine import bytes_tokenizer as tokenizer
from tests.unit.collector.rollouts import RUN, Session

GROUPS, SIZE, CALLS = 6, 4, 3


def made_session(number: int) -> tuple[Session, dict[int, Sampled]]:
    """A rollout of a few calls, and the engine's account of them."""
    session, account, prompt = Session(f"g{number // SIZE}-r{number % SIZE}"), {}, tokenizer.encode(f"rollout {number}")
    for turn in range(CALLS):
        call = number * CALLS + turn + 1
        completion = tokenizer.encode(f"call {call} was answered")
        session.call(prompt, completion)
        account[call] = Sampled(pack_ids(prompt), pack_ids(completion))
        prompt = [*prompt, *completion, *tokenizer.encode("go on")]
    return session, account


def about(session: Session) -> dict[str, Any]:
    return {"run_id": RUN, "rollout_id": session.rollout, "group_id": session.rollout[:2]}


def trajectory(session: Session, reward: float) -> Trajectory:
    made = assemble(session.records, session.sealed(), max_row_tokens=10_000)
    return Trajectory(
        rollout_id=session.rollout, attempt=1, task="t", harness="h", reward=reward, calls=made.calls, tokens=made.tokens,
        rows=made.rows,
    )  # fmt: skip


def told(session: Session) -> TrajectoryAssembled:
    made = trajectory(session, 0.0)
    return TrajectoryAssembled(**about(session), reward=0.0, calls=CALLS, rows=1, tokens=made.tokens)


def group(name: str, trajectories: list[Trajectory]) -> GroupCompleted:
    tokens = total(t.tokens for t in trajectories)
    outcomes = {"finished": len(trajectories)}
    return GroupCompleted(run_id=RUN, group_id=name, tokens=tokens, outcomes=outcomes, trajectories=trajectories)


@pytest.fixture(scope="module")
def good() -> Evidence:
    """A run without fault."""
    pairs = [made_session(n) for n in range(GROUPS * SIZE)]
    sessions = [session for session, _ in pairs]
    made = [trajectory(session, n) for n, session in enumerate(sessions)]
    return Evidence(
        sizes={f"g{g}": SIZE for g in range(GROUPS)},
        sampled={number: call for _, account in pairs for number, call in account.items()},
        received={session.name: list(account) for session, account in pairs},
        closed=[group(f"g{g}", made[g * SIZE : (g + 1) * SIZE]) for g in range(GROUPS)],
        told=[told(session) for session in sessions],
        records=[record for session in sessions for record in session.records],
        sealed=[session.sealed() for session in sessions],
        dead=[],
    )


def verdict(evidence: Evidence) -> Verdict:
    return judge(evidence, kills=30, wipes=1)


def rigged(good: Evidence, change: Callable[[GroupCompleted], Closed]) -> Evidence:
    """The run with its first group replaced."""
    first = good.closed[0]
    assert isinstance(first, GroupCompleted)
    return replace(good, closed=[change(first), *good.closed[1:]])


def with_trajectory(made: GroupCompleted, **fields: Any) -> GroupCompleted:
    first, *rest = made.trajectories
    return changed(made, trajectories=[changed(first, **fields), *rest])


def test_a_run_without_fault_holds(good: Evidence) -> None:
    found = verdict(good)
    assert found.holds(30, 1)
    assert (found.calls_expected, found.calls_found) == (GROUPS * SIZE * CALLS, GROUPS * SIZE * CALLS)
    assert (found.groups_expected, found.groups_found, found.rollouts) == (GROUPS, GROUPS, GROUPS * SIZE)


def test_too_few_kills_do_not_hold(good: Evidence) -> None:
    assert not judge(good, kills=29, wipes=1).holds(30, 1)
    assert not judge(good, kills=30, wipes=0).holds(30, 1)


def test_nothing_to_look_for_does_not_hold() -> None:
    assert not verdict(Evidence({}, {}, {}, [], [], [], [], [])).holds(30, 1)


def test_a_call_that_no_row_trains_is_lost(good: Evidence) -> None:
    def without_a_call(made: GroupCompleted) -> GroupCompleted:
        [row] = made.trajectories[0].rows
        return with_trajectory(made, rows=[changed(row, spans=row.spans[1:])])

    found = verdict(rigged(good, without_a_call))
    assert found.calls_found == found.calls_expected - 1
    assert not found.holds(30, 1)


def test_a_call_with_another_token_is_lost(good: Evidence) -> None:
    def with_another_token(made: GroupCompleted) -> GroupCompleted:
        [row] = made.trajectories[0].rows
        return with_trajectory(made, rows=[changed(row, ids=b"\x07" + row.ids[1:])])

    found = verdict(rigged(good, with_another_token))
    assert found.calls_found == found.calls_expected - CALLS  # it stands in the context of all


def test_a_call_of_somebody_else_is_lost(good: Evidence) -> None:
    found = verdict(replace(good, received=good.received | {"g0-r0-a1": [4, 5, 6]}))
    assert found.calls_found == found.calls_expected - CALLS


def test_a_reply_that_the_engine_knows_nothing_of_is_lost(good: Evidence) -> None:
    found = verdict(replace(good, sampled={n: call for n, call in good.sampled.items() if n != 1}))
    assert found.calls_found == found.calls_expected - 1


def test_a_call_in_two_rows_is_doubled(good: Evidence) -> None:
    found = verdict(rigged(good, lambda made: with_trajectory(made, rows=made.trajectories[0].rows * 2)))
    assert found.calls_doubled == CALLS
    assert not found.holds(30, 1)


def test_a_rollout_in_two_groups_is_doubled(good: Evidence) -> None:
    other = good.closed[1]
    assert isinstance(other, GroupCompleted)
    found = verdict(rigged(good, lambda made: changed(made, trajectories=[*made.trajectories, other.trajectories[0]])))
    assert found.calls_doubled == CALLS


def test_a_group_that_was_not_reached_is_missing_with_all_its_calls(good: Evidence) -> None:
    found = verdict(replace(good, closed=good.closed[1:]))
    assert (found.groups_found, found.calls_found) == (GROUPS - 1, found.calls_expected - SIZE * CALLS)
    assert found.discarded_without_reason == SIZE
    assert not found.holds(30, 1)


def test_a_group_that_was_reached_twice_is_doubled(good: Evidence) -> None:
    discarded = GroupDiscarded(run_id=RUN, group_id="g0", reason="too_few", outcomes={"finished": SIZE})
    found = verdict(replace(good, closed=[*good.closed, discarded]))
    assert found.groups_doubled == 1
    assert not found.holds(30, 1)


def test_tokens_that_do_not_add_up_are_unaccounted(good: Evidence) -> None:
    more = rigged(good, lambda made: changed(made, tokens=changed(made.tokens, dropped=5)))
    assert verdict(more).tokens_unaccounted == 5
    unmasked = rigged(
        good,
        lambda made: with_trajectory(
            made, rows=[changed(r, response_mask=bytes(len(r.response_mask))) for r in made.trajectories[0].rows]
        ),
    )
    assert verdict(unmasked).tokens_unaccounted == made_session(0)[0].sampled
    untold = replace(good, records=good.records[1:])
    assert verdict(untold).tokens_unaccounted == len("call 1 was answered")
    assert not verdict(untold).holds(30, 1)


def test_tokens_that_came_too_late_for_their_group_are_in_no_group(good: Evidence) -> None:
    late = TrajectoryDiscarded(**about(made_session(0)[0]), reason=LATE, tokens=untrain(good.told[0].tokens, LATE))
    without = rigged(good, lambda made: group("g0", made.trajectories[1:]))
    assert verdict(replace(without, told=[*good.told, late])).tokens_unaccounted == 0
    assert verdict(without).tokens_unaccounted == late.tokens.sampled
    counted = rigged(good, lambda made: changed(made, attempts={"g0-r0": [1]}))  # a wiped store made its collector forget
    assert verdict(replace(counted, told=[*good.told, late])).tokens_unaccounted == 0
    assert verdict(replace(good, told=[*good.told, late])).tokens_unaccounted == late.tokens.sampled


def test_a_message_that_was_given_up_does_not_hold(good: Evidence) -> None:
    assert not verdict(replace(good, dead=["forge.v1.evt.call.recorded.run.r1: no answer to 6 deliveries"])).holds(30, 1)


def discard(good: Evidence, rollouts: int) -> Evidence:
    """The run with some rollouts that failed for good, one a group."""
    closed: list[Closed] = list(good.closed)
    events: list[Told] = list(good.told)
    for g in range(rollouts):
        made = closed[g]
        assert isinstance(made, GroupCompleted)
        lost, *rest = made.trajectories
        tokens = untrain(lost.tokens, "FidelityError")
        outcomes = {"FidelityError": 1, "finished": SIZE - 1}
        counts = total([tokens, *(t.tokens for t in rest)])
        closed[g] = changed(made, trajectories=rest, outcomes=outcomes, tokens=counts)
        events[g * SIZE] = TrajectoryDiscarded(
            run_id=RUN, rollout_id=lost.rollout_id, group_id=f"g{g}", reason="FidelityError", tokens=tokens
        )
    return replace(good, closed=closed, told=events)


def test_rollouts_that_were_discarded_with_a_reason_are_no_loss_while_they_are_few(good: Evidence) -> None:
    few = verdict(discard(good, 2))
    assert (few.calls_found, few.discarded_with_reason, few.attempts_discarded) == (few.calls_expected, 2, {"FidelityError": 2})
    assert few.holds(30, 1)
    assert not verdict(discard(good, 3)).holds(30, 1)


def test_a_rollout_that_went_without_a_word_is_a_loss(good: Evidence) -> None:
    found = verdict(rigged(good, lambda made: changed(made, trajectories=made.trajectories[1:])))
    assert found.calls_found == found.calls_expected - CALLS
    unexplained = rigged(good, lambda made: changed(made, trajectories=made.trajectories[1:], outcomes={"finished": SIZE - 1}))
    assert verdict(unexplained).discarded_without_reason == 1


def test_the_accounts_of_engine_and_harness_are_read() -> None:
    whole = '{"number": 7, "prompt_token_ids": [1, 2], "token_ids": [3], "finish_reason": "stop", "streamed": false}\n'
    assert read_engine(whole + whole.replace("7", "8").replace("stop", "abort")) == {
        7: Sampled(pack_ids([1, 2]), pack_ids([3]))
    }
    assert read_harness('"call 7 was answered"\nsomething else\n"call 12 was answered"\n') == [7, 12]
