"""What the collector makes of a rollout is what the trainer takes."""

from __future__ import annotations

from hypothesis import assume, given

from services.collector.assemble import assemble
from services.trainer.batch.samples import read_vote
from tests.unit.collector.rollouts import Session, few, sessions
from tests.unit.trainer.twins import trajectory


@few
@given(sessions())
def test_rows_of_any_rollout_are_accepted_with_every_trained_call_in_its_turn(session: Session) -> None:
    made = assemble(session.records, session.sealed(), max_row_tokens=20)
    assume(made.rows)
    vote = read_vote(trajectory(session.rollout, 1.0, made=made.rows))
    spans = sorted((span for s in vote.samples for span in s.spans), key=lambda span: span.seq)
    trained = set(session.prompts) - {seq for seqs in made.untrained.values() for seq in seqs}
    assert [span.seq for span in spans] == sorted(seq for seq in trained if session.completions[seq])
    assert [span.end - span.start for span in spans] == [len(session.completions[span.seq]) for span in spans]
    assert vote.trained == made.tokens.trained
