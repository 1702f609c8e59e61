"""`openforge keys`, and the folder that it makes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli import app
from services.dev.keys import BUS_USERS, STORE_USERS, make_keys, users_of
from shared.errors import ConfigError
from shared.keys import PASSWORD, PROXY, SEED, SYNTH, TAP, TRAINER, USERS, secret_of
from shared.store.rights import STORE_RIGHTS


def secrets_in(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text().strip() for file in folder.iterdir() if file.is_file()}


def test_every_user_gets_keys_that_its_owner_alone_can_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "make", str(tmp_path / "keys")])
    assert result.exit_code == 0, result.output
    secrets = secrets_in(tmp_path / "keys")
    assert secrets.keys() == {f"{u}.{SEED}" for u in USERS} | {f"{u}.{PASSWORD}" for u in STORE_RIGHTS}
    assert len(set(secrets.values())) == len(secrets)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE((tmp_path / "keys" / name).stat().st_mode) for name in secrets} == {0o600}
    told = [(tmp_path / "keys" / file).read_text() for file in (BUS_USERS, STORE_USERS)]
    assert not [secret for secret in secrets.values() if any(secret in text for text in told)]
    assert not [secret for secret in secrets.values() if secret in result.output]


def test_keys_stay_unless_they_are_renewed(tmp_path: Path) -> None:
    first = make_keys(tmp_path)
    before = secrets_in(tmp_path)
    assert make_keys(tmp_path) == users_of(tmp_path) == first
    assert secrets_in(tmp_path) == before
    result = CliRunner().invoke(app, ["keys", "make", str(tmp_path), "--renew", PROXY, "--renew", TAP])
    assert result.exit_code == 0, result.output
    after = secrets_in(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"proxy.nk", "proxy.password", "tap.nk"}
    assert (tmp_path / BUS_USERS).read_text() == users_of(tmp_path).bus != first.bus


def test_keys_of_one_run_name_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "make", str(tmp_path), "--run", "run-7"])
    assert result.exit_code == 0, result.output
    assert "forge.v1.evt.call.recorded.run-7.*" in (tmp_path / BUS_USERS).read_text()
    assert "~of:{run-7}:sess:*" in (tmp_path / STORE_USERS).read_text()


@pytest.mark.parametrize(("args", "says"), [(["--renew", "nobody"], "no user 'nobody'"), (["--run", "a.b"], "run id")])
def test_what_cannot_be_is_said(tmp_path: Path, args: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["keys", "make", str(tmp_path / "keys"), *args])
    assert result.exit_code == 2
    assert says in result.output
    assert not (tmp_path / "keys").exists()


def test_a_key_that_is_missing_or_none_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"proxy\.nk: No such file.*openforge keys make"):
        secret_of(str(tmp_path), PROXY, SEED)
    make_keys(tmp_path)
    (tmp_path / "trainer.nk").write_text("")
    with pytest.raises(ConfigError, match=r"is empty.*--renew trainer"):
        secret_of(str(tmp_path), TRAINER, SEED)
    (tmp_path / "trainer.nk").write_text("SUNOTAKEY")
    with pytest.raises(ConfigError, match=r"trainer\.nk holds no seed"):
        make_keys(tmp_path)


def test_rights_are_printed_for_every_user() -> None:
    result = CliRunner().invoke(app, ["keys", "rights"])
    assert result.exit_code == 0
    assert all(f"\n| {user} | " in result.output for user in (*USERS, SYNTH))


def test_a_folder_of_somebody_else_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ours(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", not_ours)
    result = CliRunner().invoke(app, ["keys", "make", str(tmp_path / "keys")])
    assert result.exit_code == 2
    assert f"is of user {tmp_path.stat().st_uid}" in result.output
    assert "OPENFORGE_USER" in result.output
    assert not list((tmp_path / "keys").iterdir())
